//! Reads the result of a procedure.

use gatepost_message::{Action, Cookie, MalformedReply, PageReply, Score, Verdict};
use mlua::{MultiValue, Table, Value};

use crate::procedure::ProcedureAnswer;

/// `action, reason` · `{action, reason, score, required, tags, text, …}` · nothing. A text that is
/// not an action is the answer to a caller that requests a text: `return "Hello"`.
pub(super) fn read(values: MultiValue) -> mlua::Result<ProcedureAnswer> {
    let mut values = values.into_iter();
    match values.next().unwrap_or(Value::Nil) {
        Value::Nil => Ok(Verdict::accept().into()),
        Value::Table(table) => from_table(&table),
        Value::String(first) => {
            let first = first.to_string_lossy();
            let reason = values.next();
            let action = match first.parse::<Action>() {
                Ok(action) => action,
                // A text alone is for a caller; with a reason it is meant as a verdict.
                Err(_) if matches!(reason, None | Some(Value::Nil)) => {
                    return Ok(ProcedureAnswer::text(first));
                }
                Err(unknown) => return Err(mlua::Error::runtime(unknown.to_string())),
            };
            let reason = match reason {
                Some(Value::String(reason)) => one_line(&reason.to_string_lossy()),
                _ => String::new(),
            };
            Ok(Verdict::new(action, reason).into())
        }
        Value::Number(number) => Ok(ProcedureAnswer::text(number.to_string())),
        Value::Integer(number) => Ok(ProcedureAnswer::text(number.to_string())),
        other => Err(mlua::Error::runtime(format!(
            "the procedure returned {}; return an action and a reason, a table, or nothing",
            other.type_name()
        ))),
    }
}

fn from_table(table: &Table) -> mlua::Result<ProcedureAnswer> {
    let action = match table.get::<Option<String>>("action")? {
        None => Action::Accept,
        Some(name) => name
            .parse()
            .map_err(|error| mlua::Error::runtime(format!("{error}")))?,
    };
    let reason = table.get::<Option<String>>("reason")?.unwrap_or_default();
    let mut verdict = Verdict::new(action, one_line(&reason));
    if let Some(value) = finite(table, "score")? {
        let required = finite(table, "required")?;
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
        // A Luau table is unordered.
        verdict.tags.sort();
    }
    Ok(ProcedureAnswer {
        verdict,
        text: table.get::<Option<String>>("text")?.unwrap_or_default(),
        reply: reply(table)?,
        ..ProcedureAnswer::default()
    })
}

/// A number that others can compare and show: `0 / 0` and `1 / 0` are not.
fn finite(table: &Table, name: &str) -> mlua::Result<Option<f64>> {
    let number = table.get::<Option<f64>>(name)?;
    match number.filter(|number| !number.is_finite()) {
        None => Ok(number),
        Some(other) => Err(mlua::Error::runtime(format!("the {name} is {other}"))),
    }
}

/// `{status, redirect, headers, cookies}`: for the visitor of the page that called.
fn reply(table: &Table) -> mlua::Result<Option<Box<PageReply>>> {
    let mut reply = PageReply::default();
    if let Some(status) = table.get::<Option<i64>>("status")? {
        reply.set_status(status).map_err(malformed)?;
    }
    if let Some(place) = table.get::<Option<String>>("redirect")? {
        reply.set_redirect(place).map_err(malformed)?;
    }
    if let Some(headers) = table.get::<Option<Table>>("headers")? {
        let mut fields = Vec::new();
        for pair in headers.pairs::<String, Value>() {
            let (name, value) = pair?;
            match value {
                Value::Table(values) => {
                    for value in values.sequence_values::<String>() {
                        fields.push((name.clone(), value?));
                    }
                }
                value => fields.push((name, value.to_string()?)),
            }
        }
        // A Luau table is unordered; values of one name keep theirs.
        fields.sort_by(|one, other| one.0.cmp(&other.0));
        for (name, value) in fields {
            reply.add_header(name, value).map_err(malformed)?;
        }
    }
    if let Some(cookies) = table.get::<Option<Table>>("cookies")? {
        let mut all = Vec::new();
        for pair in cookies.pairs::<String, Value>() {
            let (name, value) = pair?;
            all.push(cookie(name, value)?);
        }
        all.sort_by(|one, other| one.name.cmp(&other.name));
        for cookie in all {
            reply.add_cookie(cookie).map_err(malformed)?;
        }
    }
    Ok((!reply.is_empty()).then(|| Box::new(reply)))
}

fn cookie(name: String, value: Value) -> mlua::Result<Cookie> {
    let table = match value {
        Value::Boolean(false) => return Ok(Cookie::new(name, None)),
        Value::Table(table) => table,
        value => return Ok(Cookie::new(name, Some(value.to_string()?))),
    };
    let mut cookie = Cookie::new(
        name,
        Some(table.get::<Option<String>>("value")?.unwrap_or_default()),
    );
    cookie.max_age_seconds = table.get("max_age")?;
    cookie.domain = table.get("domain")?;
    cookie.secure = table.get("secure")?;
    if let Some(path) = table.get::<Option<String>>("path")? {
        cookie.path = path;
    }
    if let Some(http_only) = table.get::<Option<bool>>("http_only")? {
        cookie.http_only = http_only;
    }
    if let Some(name) = table.get::<Option<String>>("same_site")? {
        cookie.same_site = name.parse().map_err(malformed)?;
    }
    Ok(cookie)
}

fn malformed(error: MalformedReply) -> mlua::Error {
    mlua::Error::runtime(error.to_string())
}

/// A reason or a header field is one line, whatever the code returns: a line end would permit a
/// message to inject answers and header fields.
fn one_line(text: &str) -> String {
    text.replace(|character: char| character.is_control(), " ")
}
