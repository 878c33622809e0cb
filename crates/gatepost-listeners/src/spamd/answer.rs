//! Answers in the format that spamc 4 reads.
//!
//! libspamc splits the `Spam` field at fixed single blanks, so its layout is exact.

use std::fmt::Write;

use gatepost_rules::Report;

use super::request::{SpamdCommand, SpamdHead};

/// BSD's code for a request that cannot be understood.
const EX_PROTOCOL: u8 = 76;

/// The reason why a request fails; the protocol's own codes are those of sysexits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SpamdFailure {
    pub(super) code: u8,
    pub(super) text: String,
}

impl SpamdFailure {
    /// EX_PROTOCOL: the request cannot be understood.
    pub(super) fn protocol(reason: &str) -> Self {
        Self {
            code: EX_PROTOCOL,
            text: format!("Bad header line: ({reason})"),
        }
    }

    /// EX_UNAVAILABLE: understood, but not supported.
    pub(super) fn unavailable(reason: &str) -> Self {
        Self {
            code: 69,
            text: format!("Service Unavailable: {reason}"),
        }
    }

    /// EX_TEMPFAIL: a later attempt may succeed.
    pub(super) fn temporary(reason: &str) -> Self {
        Self {
            code: 75,
            text: format!("Temporary failure: {reason}"),
        }
    }

    /// EX_TIMEOUT, a code of this protocol's own.
    pub(super) fn timeout(reason: &str) -> Self {
        Self {
            code: 79,
            text: format!("Timeout: {reason}"),
        }
    }

    /// Whether the client violated the protocol.
    pub(super) const fn is_protocol_fault(&self) -> bool {
        self.code == EX_PROTOCOL
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let printable = |character: char| {
            if character.is_control() {
                ' '
            } else {
                character
            }
        };
        let text: String = self.text.chars().map(printable).collect();
        format!("SPAMD/1.0 {} {text}\r\n", self.code).into_bytes()
    }
}

pub(super) const PONG: &[u8] = b"SPAMD/1.5 0 PONG\r\n";

/// The changes made by TELL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TellResult {
    Learned,
    Forgotten,
    Nothing,
}

/// The answer to TELL. Unlike other answers it ends with one more empty line.
pub(super) fn of_tell(result: TellResult) -> Vec<u8> {
    let field = match result {
        TellResult::Learned => "DidSet: local\r\n",
        TellResult::Forgotten => "DidRemove: local\r\n",
        TellResult::Nothing => "",
    };
    format!("SPAMD/1.1 0 EX_OK\r\n{field}\r\n\r\n").into_bytes()
}

/// The answer to a request with a message.
pub(super) fn of_report(
    head: &SpamdHead,
    report: &Report,
    is_spam: bool,
    message: &[u8],
) -> Vec<u8> {
    let body = match head.command {
        SpamdCommand::Symbols => report.symbols().into_bytes(),
        SpamdCommand::Report => with_crlf(&report.text()),
        SpamdCommand::ReportIfSpam if is_spam => with_crlf(&report.text()),
        SpamdCommand::Process => report.rewrite(message),
        SpamdCommand::Headers => head_of(report.rewrite(message)),
        _ => Vec::new(),
    };
    let rewrites = matches!(head.command, SpamdCommand::Process | SpamdCommand::Headers);
    if rewrites && !head.since((1, 2)) {
        return [b"SPAMD/1.0 0 EX_OK\r\n", &body[..]].concat();
    }
    let mut answer = String::from("SPAMD/1.1 0 EX_OK\r\n");
    let has_length = head.command != SpamdCommand::Check && (head.since((1, 3)) || rewrites);
    if has_length {
        // Writing to a string cannot fail.
        let _ = write!(answer, "Content-length: {}\r\n", body.len());
    }
    if !rewrites || head.since((1, 3)) {
        answer += &spam_field(head.command, report, is_spam);
    }
    answer += "\r\n";
    let mut answer = answer.into_bytes();
    answer.extend_from_slice(&body);
    if head.command == SpamdCommand::Symbols && !head.since((1, 3)) {
        answer.extend_from_slice(b"\r\n");
    }
    answer
}

fn spam_field(command: SpamdCommand, report: &Report, is_spam: bool) -> String {
    let word = match (command, is_spam) {
        (SpamdCommand::ReportIfSpam, true) => "Yes",
        (SpamdCommand::ReportIfSpam, false) => "No",
        (_, true) => "True",
        (_, false) => "False",
    };
    format!(
        "Spam: {word} ; {:.1} / {:.1}\r\n",
        report.score, report.required
    )
}

/// Converts the lines of the report, which end in LF, to CR LF.
fn with_crlf(text: &str) -> Vec<u8> {
    text.replace("\r\n", "\n")
        .replace('\n', "\r\n")
        .into_bytes()
}

/// The head of a message, up to and including the empty line.
fn head_of(mut message: Vec<u8>) -> Vec<u8> {
    let ends = [&b"\r\n\r\n"[..], b"\n\n"];
    let ends = ends.map(|end| memchr::memmem::find(&message, end).map(|at| at + end.len()));
    if let Some(end) = ends.into_iter().flatten().min() {
        message.truncate(end);
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(command: SpamdCommand, version: (u8, u8), is_spam: bool) -> String {
        let head = SpamdHead {
            command,
            version,
            content_length: None,
            user: None,
            compressed: false,
            class: None,
            set: super::super::request::TellTargets::default(),
            remove: super::super::request::TellTargets::default(),
        };
        let mut report = Report::default();
        report.score = 15.04;
        report.required = 5.0;
        String::from_utf8(of_report(&head, &report, is_spam, b"A: b\r\n\r\nc")).expect("text")
    }

    #[test]
    fn the_layout_is_the_versions() {
        assert_eq!(
            answer(SpamdCommand::Check, (1, 5), true),
            "SPAMD/1.1 0 EX_OK\r\nSpam: True ; 15.0 / 5.0\r\n\r\n"
        );
        assert_eq!(
            answer(SpamdCommand::Symbols, (1, 5), false),
            "SPAMD/1.1 0 EX_OK\r\nContent-length: 0\r\nSpam: False ; 15.0 / 5.0\r\n\r\n"
        );
        assert_eq!(
            answer(SpamdCommand::Symbols, (1, 2), false),
            "SPAMD/1.1 0 EX_OK\r\nSpam: False ; 15.0 / 5.0\r\n\r\n\r\n"
        );
        assert_eq!(
            answer(SpamdCommand::ReportIfSpam, (1, 5), false),
            "SPAMD/1.1 0 EX_OK\r\nContent-length: 0\r\nSpam: No ; 15.0 / 5.0\r\n\r\n"
        );
        assert!(
            answer(SpamdCommand::Process, (1, 2), true)
                .starts_with("SPAMD/1.1 0 EX_OK\r\nContent-length: ")
        );
        assert!(!answer(SpamdCommand::Process, (1, 2), true).contains("Spam: "));
        assert!(answer(SpamdCommand::Process, (1, 1), true).starts_with("SPAMD/1.0 0 EX_OK\r\n"));
        assert!(answer(SpamdCommand::Headers, (1, 5), true).ends_with("\r\n\r\n"));
    }

    #[test]
    fn a_failure_is_one_line() {
        let failure = SpamdFailure::protocol("what\r\nis this");
        assert_eq!(
            failure.bytes(),
            b"SPAMD/1.0 76 Bad header line: (what  is this)\r\n"
        );
    }
}
