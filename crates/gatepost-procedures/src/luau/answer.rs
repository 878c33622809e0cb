//! Reads what a procedure returned.

use gatepost_message::{Action, Score, Verdict};
use mlua::{MultiValue, Table, Value};

use crate::procedure::Answer;

/// `action, reason` · `{action, reason, score, required, tags, text}` · nothing. A text that
/// names no action is the answer to a caller who wants a text: `return "Hello"`.
pub(super) fn read(values: MultiValue) -> mlua::Result<Answer> {
    let mut values = values.into_iter();
    match values.next().unwrap_or(Value::Nil) {
        Value::Nil => Ok(Verdict::accept().into()),
        Value::Table(table) => from_table(&table),
        Value::String(first) => {
            let first = first.to_string_lossy();
            let Ok(action) = first.parse::<Action>() else {
                return Ok(Answer::text(first));
            };
            let reason = match values.next() {
                Some(Value::String(reason)) => one_line(&reason.to_string_lossy()),
                _ => String::new(),
            };
            Ok(Verdict::new(action, reason).into())
        }
        Value::Number(number) => Ok(Answer::text(number.to_string())),
        Value::Integer(number) => Ok(Answer::text(number.to_string())),
        other => Err(mlua::Error::runtime(format!(
            "the procedure returned {}; return an action and a reason, a table, or nothing",
            other.type_name()
        ))),
    }
}

fn from_table(table: &Table) -> mlua::Result<Answer> {
    let action = match table.get::<Option<String>>("action")? {
        None => Action::Accept,
        Some(name) => name
            .parse()
            .map_err(|error| mlua::Error::runtime(format!("{error}")))?,
    };
    let reason = table.get::<Option<String>>("reason")?.unwrap_or_default();
    let mut verdict = Verdict::new(action, one_line(&reason));
    if let Some(value) = table.get::<Option<f64>>("score")? {
        let required = table.get::<Option<f64>>("required")?;
        verdict.score = Some(Score {
            value,
            required: required.unwrap_or(f64::INFINITY),
        });
    }
    if let Some(tags) = table.get::<Option<Table>>("tags")? {
        for pair in tags.pairs::<String, String>() {
            let (name, value) = pair?;
            verdict.tags.push((one_line(&name), one_line(&value)));
        }
        // A table has no order of its own.
        verdict.tags.sort();
    }
    Ok(Answer {
        verdict,
        text: table.get::<Option<String>>("text")?.unwrap_or_default(),
        ..Answer::default()
    })
}

/// A reason or a header field is one line, whatever the code made of it: a line end in it would
/// let a message write answers and header fields of its own.
fn one_line(text: &str) -> String {
    text.replace(|character: char| character.is_control(), " ")
}
