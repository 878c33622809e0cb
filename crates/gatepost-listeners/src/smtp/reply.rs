//! Replies: a code, an enhanced code (RFC 3463) and a text. Replies with fixed texts are in
//! [`super::replies`].

use std::borrow::Cow;

use gatepost_gateway::StorageFailure;
use gatepost_message::{Action, Verdict};
use gatepost_users::LoginRefusal;

use crate::forward::{HopError, HopReply};

/// One reply. Written as `550 5.7.1 text`; further lines only in the answer to EHLO.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SmtpReply {
    pub(super) code: u16,
    /// Empty if RFC 2034, section 3 defines none: greeting, HELO, EHLO and 354.
    pub(super) enhanced: &'static str,
    pub(super) text: Cow<'static, str>,
}

/// Longer texts are cut: a reply line has at most 512 octets (RFC 5321, section 4.5.3.1.5).
const TEXT_BYTES_MAX: usize = 450;

impl SmtpReply {
    pub(super) const fn new(code: u16, enhanced: &'static str, text: &'static str) -> Self {
        Self {
            code,
            enhanced,
            text: Cow::Borrowed(text),
        }
    }

    pub(super) const fn with(code: u16, enhanced: &'static str, text: String) -> Self {
        Self {
            code,
            enhanced,
            text: Cow::Owned(text),
        }
    }

    /// Whether it reports a violation of the protocol.
    pub(super) const fn is_error(&self) -> bool {
        self.code >= 500
    }

    /// Whether it refuses a recipient permanently: a local one, or one of the next hop.
    pub(super) fn refuses_recipient(&self) -> bool {
        let is_about_it = |code: &str| code.starts_with("5.1.") || code.starts_with("5.7.1");
        self.code == 550 && (is_about_it(self.enhanced) || is_about_it(&self.text))
    }

    /// Appends the reply's bytes. A text of several lines becomes a reply of several lines.
    pub(super) fn write_to(&self, output: &mut Vec<u8>) {
        use std::io::Write;
        let mut lines = self.text.split('\n').peekable();
        while let Some(line) = lines.next() {
            let separator = if lines.peek().is_some() { '-' } else { ' ' };
            let space = if self.enhanced.is_empty() { "" } else { " " };
            let line = printable(line);
            // Writing to memory cannot fail.
            let _ = write!(
                output,
                "{}{separator}{}{space}{line}\r\n",
                self.code, self.enhanced
            );
        }
    }
}

/// No control character of a reason may end a reply line, and none may be too long.
fn printable(line: &str) -> Cow<'_, str> {
    let fits = line.len() <= TEXT_BYTES_MAX && !line.contains(char::is_control);
    if fits {
        return Cow::Borrowed(line);
    }
    let mut text = String::with_capacity(line.len().min(TEXT_BYTES_MAX));
    for character in line.chars() {
        if text.len() + character.len_utf8() > TEXT_BYTES_MAX - 3 {
            text.push_str("...");
            break;
        }
        text.push(if character.is_control() {
            ' '
        } else {
            character
        });
    }
    Cow::Owned(text)
}

/// The answer to a whole message.
pub(super) fn of_verdict(id: impl std::fmt::Display, verdict: &Verdict) -> SmtpReply {
    let reason = |otherwise: &str| {
        if verdict.reason.is_empty() {
            otherwise.to_owned()
        } else {
            verdict.reason.clone()
        }
    };
    match verdict.action {
        Action::Accept | Action::Tag => SmtpReply::with(250, "2.0.0", format!("{id} accepted")),
        // The sender sees success: quarantine and drop are not reported to senders.
        Action::Drop | Action::Quarantine => SmtpReply::with(250, "2.0.0", format!("{id} taken")),
        Action::Reject => SmtpReply::with(550, "5.7.1", reason("refused")),
        Action::Defer => SmtpReply::with(451, "4.7.1", reason("not now, try again later")),
    }
}

/// The reply to a message that could not be stored: insufficient system storage, or a local error
/// (RFC 5321, section 4.2.3), about the mail system rather than its policy (RFC 3463, section 3.4).
pub(super) fn of_storage_failure(failure: StorageFailure) -> SmtpReply {
    let (code, enhanced) = match failure {
        StorageFailure::DiskFull => (452, "4.3.1"),
        StorageFailure::TooLong => (552, "5.3.4"),
        StorageFailure::Failed => (451, "4.3.0"),
    };
    SmtpReply::with(code, enhanced, failure.to_string())
}

/// The next hop's reply, for the client. If the next hop closes its connection (421), the client's
/// connection continues.
pub(super) fn of_hop(reply: &HopReply) -> SmtpReply {
    let code = match reply.code {
        // A 3xx fits no command that was sent, so it is unknown what the next hop accepted.
        300..=399 | 421 => 451,
        code => code,
    };
    SmtpReply::with(code, "", reply.text())
}

/// The reply if the next hop gave none: the client keeps its mail.
pub(super) fn of_hop_error(error: &HopError) -> SmtpReply {
    let (code, enhanced) = match error {
        // RFC 7505, section 4.1.
        HopError::NoMail(_) => return SmtpReply::with(556, "5.1.10", error.to_string()),
        // RFC 3463, section 3.5: a routing loop.
        HopError::ThisServer(_) => (451, "4.4.6"),
        error if error.is_about_trust() => (451, "4.7.5"),
        _ => (451, "4.4.1"),
    };
    SmtpReply::with(code, enhanced, format!("{error}; try again later"))
}

/// The reason why a login failed (RFC 4954, section 6).
pub(super) fn of_denied(denied: &LoginRefusal) -> SmtpReply {
    let (code, enhanced) = match denied {
        LoginRefusal::Busy | LoginRefusal::TooMany { .. } => (454, "4.7.0"),
        LoginRefusal::Malformed(_) => (501, "5.5.2"),
        LoginRefusal::Anonymous
        | LoginRefusal::Credentials
        | LoginRefusal::Disabled
        | LoginRefusal::Banned { .. } => (535, "5.7.8"),
    };
    SmtpReply::with(code, enhanced, denied.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(reply: &SmtpReply) -> String {
        let mut output = Vec::new();
        reply.write_to(&mut output);
        String::from_utf8(output).expect("text")
    }

    #[test]
    fn several_lines_are_marked_as_such() {
        let reply = SmtpReply::with(250, "", "host\nSIZE 10\nPIPELINING".to_owned());
        assert_eq!(
            written(&reply),
            "250-host\r\n250-SIZE 10\r\n250 PIPELINING\r\n"
        );
    }

    #[test]
    fn a_reason_cannot_forge_a_line_nor_overrun_it() {
        let reason = format!("spam\r\n250 2.0.0 ok {}", "x".repeat(600));
        let reply = of_verdict("id", &Verdict::new(Action::Reject, reason));
        let text = written(&reply);
        assert!(
            text.starts_with("550-5.7.1 spam \r\n550 5.7.1 250 2.0.0 ok xxx"),
            "{text}"
        );
        assert!(
            text.lines()
                .all(|line| line.len() <= 510 && line.starts_with("550"))
        );
    }
}
