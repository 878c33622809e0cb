//! Answers.
//!
//! | field | content |
//! |---|---|
//! | `score` | `value/required`, where rules ran |
//! | `procedure` | the path that decided |
//! | `reason` | the reason, in one line |
//! | `tag` | a header field to add, `Name: value`; may repeat |
//! | `text` | one line of the text that the procedure returns with its verdict; may repeat |
//! | `message` | bytes of the changed message, which follows the answer's empty line; on request |

use std::io::Write;

use gatepost_procedures::ProcedureAnswer;

/// Appends the answer to a call that was made, with the message where it was changed.
pub(super) fn write(output: &mut Vec<u8>, answer: &ProcedureAnswer, changed: Option<&[u8]>) {
    let verdict = &answer.verdict;
    output.extend_from_slice(b"DONE ");
    output.extend_from_slice(verdict.action.name().as_bytes());
    output.push(b'\n');
    if let Some(score) = verdict.score {
        // Writing to a vector cannot fail.
        let _ = writeln!(output, "score: {score}");
    }
    if !verdict.procedure.is_empty() {
        field(output, "procedure", &verdict.procedure);
    }
    if !verdict.reason.is_empty() {
        field(output, "reason", &verdict.reason);
    }
    for (name, value) in &verdict.tags {
        field(output, "tag", &format!("{name}: {value}"));
    }
    for line in answer.text.lines() {
        field(output, "text", line);
    }
    if let Some(message) = changed {
        field(output, "message", &message.len().to_string());
    }
    output.push(b'\n');
    output.extend_from_slice(changed.unwrap_or_default());
}

/// Appends the answer to a call that could not be made.
pub(super) fn write_failure(output: &mut Vec<u8>, reason: &str) {
    output.extend_from_slice(b"FAIL ");
    line(output, reason);
    output.extend_from_slice(b"\n\n");
}

fn field(output: &mut Vec<u8>, name: &str, value: &str) {
    output.extend_from_slice(name.as_bytes());
    output.extend_from_slice(b": ");
    line(output, value);
    output.push(b'\n');
}

/// A value is one line: a folded header field is unfolded, and nothing can end the answer.
fn line(output: &mut Vec<u8>, value: &str) {
    let plain = |byte: u8| {
        if byte == b'\r' || byte == b'\n' {
            b' '
        } else {
            byte
        }
    };
    output.extend(value.bytes().map(plain));
}

#[cfg(test)]
mod tests {
    use super::*;
    use gatepost_message::{Action, Score, Verdict};

    #[test]
    fn an_answer_is_verdict_fields_and_an_empty_line() {
        let mut verdict = Verdict::new(Action::Reject, "spam\nDONE accept");
        verdict.score = Some(Score {
            value: 15.26,
            required: 5.0,
        });
        verdict.procedure = "/spamcheck".into();
        verdict.tags = vec![("X-Spam-Flag".into(), "YES".into())];
        let text = "one\ntwo".into();
        let mut output = Vec::new();
        let answer = ProcedureAnswer {
            verdict,
            text,
            ..ProcedureAnswer::default()
        };
        write(&mut output, &answer, None);
        let expected = "DONE reject\nscore: 15.3/5.0\nprocedure: /spamcheck\n\
                        reason: spam DONE accept\ntag: X-Spam-Flag: YES\ntext: one\ntext: two\n\n";
        assert_eq!(String::from_utf8(output).as_deref(), Ok(expected));
    }
}
