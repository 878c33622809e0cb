//! A whole message: submitted to the server, and returned to smtpd according to the verdict.

use crate::arguments::CallOptions;
use crate::conversation::{converse, request};
use crate::envelope::ReportedEnvelope;
use crate::exit_code::OnFailure;
use crate::failure::CallFailure;
use crate::wire::{AnswerAction, VerdictAnswer};

/// The field of quarantined mail: `maildir junk` delivers it to the folder Junk.
const JUNK_FIELD: &str = "X-Spam: yes";

/// The response to smtpd's request to accept the message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FilterDecision {
    Take,
    /// Refuse with this reply code and text.
    Refuse(String),
}

/// A message with its decision.
pub(super) struct JudgedMessage {
    pub(super) decision: FilterDecision,
    /// Header fields that are added above it.
    fields: Vec<String>,
    message: Vec<u8>,
}

impl JudgedMessage {
    /// Asks the server; without an answer the sender must try again, unless the caller chose
    /// otherwise.
    pub(super) fn judge(
        arguments: &CallOptions,
        envelope: &ReportedEnvelope,
        message: Vec<u8>,
    ) -> Self {
        let request = request(arguments, envelope, message.len() as u64, true);
        let outcome = converse(arguments, &request, |connection| connection.send(&message));
        match outcome {
            Ok((answer, changed)) => Self::answered(&answer, changed.unwrap_or(message)),
            Err(failure) => {
                eprintln!("gatepost-call: {}: {failure}", arguments.server);
                Self {
                    decision: without_answer(arguments.on_failure, &failure),
                    fields: Vec::new(),
                    message,
                }
            }
        }
    }

    /// The message was too long to be collected.
    pub(super) fn too_long() -> Self {
        Self {
            decision: FilterDecision::Refuse("552 5.3.4 the message is too long".to_owned()),
            fields: Vec::new(),
            message: Vec::new(),
        }
    }

    fn answered(answer: &VerdictAnswer, message: Vec<u8>) -> Self {
        let refuse =
            |code: &str, reason| FilterDecision::Refuse(format!("{code} {}", printable(reason)));
        let mut fields = answer.fields().to_vec();
        let decision = match answer.action {
            AnswerAction::Accept | AnswerAction::Tag => FilterDecision::Take,
            AnswerAction::Quarantine => {
                fields.push(JUNK_FIELD.to_owned());
                FilterDecision::Take
            }
            // A filter cannot accept a message and discard it.
            AnswerAction::Reject | AnswerAction::Drop => {
                refuse("550 5.7.1", answer.reason_or("message refused"))
            }
            AnswerAction::Defer => refuse("451 4.7.1", answer.reason_or("try again later")),
        };
        Self {
            decision,
            fields,
            message,
        }
    }

    /// The message's lines as smtpd expects them, each after `head`, up to the final dot.
    pub(super) fn lines(&self, head: &[u8]) -> Vec<u8> {
        let mut output = Vec::with_capacity(self.message.len() * 2);
        let mut line = |text: &[u8]| {
            output.extend_from_slice(head);
            output.extend_from_slice(text);
            output.push(b'\n');
        };
        for field in &self.fields {
            line(printable(field).as_bytes());
        }
        for text in self.message.split_inclusive(|&byte| byte == b'\n') {
            let text = text.strip_suffix(b"\n").unwrap_or(text);
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            if text.starts_with(b".") {
                line(&[b".", text].concat());
            } else {
                line(text);
            }
        }
        line(b".");
        output
    }
}

/// The last field of the answer to `commit`. A message that was never judged is not accepted.
pub(super) fn result(decision: Option<FilterDecision>) -> String {
    match decision {
        Some(FilterDecision::Take) => "proceed".to_owned(),
        Some(FilterDecision::Refuse(reply)) => format!("reject|{reply}"),
        None => "reject|451 4.3.0 the message was not judged".to_owned(),
    }
}

fn without_answer(choice: Option<OnFailure>, failure: &CallFailure) -> FilterDecision {
    match choice {
        Some(OnFailure::Accept) => FilterDecision::Take,
        Some(OnFailure::Reject) => FilterDecision::Refuse("550 5.7.1 message refused".to_owned()),
        Some(OnFailure::Defer) | None => match failure {
            CallFailure::TimedOut => {
                FilterDecision::Refuse("451 4.3.0 no verdict in time".to_owned())
            }
            _ => FilterDecision::Refuse("451 4.3.0 mail cannot be judged at the moment".to_owned()),
        },
    }
}

/// The text as one line, whatever a procedure wrote.
fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(action: AnswerAction) -> VerdictAnswer {
        VerdictAnswer {
            action,
            reason: "no\nway".to_owned(),
            tags: vec!["X-Tag: 1".to_owned()],
            text: Vec::new(),
            message_bytes: None,
        }
    }

    #[test]
    fn each_verdict_has_its_result() {
        for (action, expected) in [
            (AnswerAction::Accept, "proceed"),
            (AnswerAction::Tag, "proceed"),
            (AnswerAction::Quarantine, "proceed"),
            (AnswerAction::Drop, "reject|550 5.7.1 noway"),
            (AnswerAction::Reject, "reject|550 5.7.1 noway"),
            (AnswerAction::Defer, "reject|451 4.7.1 noway"),
        ] {
            let judged = JudgedMessage::answered(&answer(action), Vec::new());
            assert_eq!(result(Some(judged.decision)), expected, "{action:?}");
        }
        assert!(result(None).starts_with("reject|451 "));
    }

    #[test]
    fn lines_go_back_with_their_dots_and_the_fields_on_top() {
        let message = b"Subject: x\r\n\r\n.hidden\r\n..\n\r\n".to_vec();
        let tagged = JudgedMessage::answered(&answer(AnswerAction::Tag), message);
        let text = String::from_utf8(tagged.lines(b"h|")).expect("text");
        let expected = "h|X-Tag: 1\nh|Subject: x\nh|\nh|..hidden\nh|...\nh|\nh|.\n";
        assert_eq!(text, expected);
        let quarantined = JudgedMessage::answered(&answer(AnswerAction::Quarantine), Vec::new());
        assert_eq!(quarantined.lines(b""), b"X-Spam: yes\n.\n");
    }
}
