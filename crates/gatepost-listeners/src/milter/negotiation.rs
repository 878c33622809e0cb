//! The first packet: the version, the changes that are permitted, and the steps that are sent.
//!
//! A step costs the mail server a round trip unless it is omitted or needs no answer. Messages are
//! judged when they are complete, so only two steps are answered: the end of the message, and each
//! recipient, since a recipient beyond the limit must be refused while the client can still send it
//! with another message.

use super::packet::{self, MilterError};

/// The newest version, supported since sendmail 8.14 and Postfix 2.6.
const VERSION_MAX: u32 = 6;
/// The version with which sendmail 8.10 began.
const VERSION_MIN: u32 = 2;

/// The changes that a filter may make.
pub(super) mod action {
    pub(in super::super) const ADD_HEADERS: u32 = 0x01;
    pub(in super::super) const CHANGE_BODY: u32 = 0x02;
    pub(in super::super) const DELETE_RECIPIENTS: u32 = 0x08;
    pub(in super::super) const CHANGE_HEADERS: u32 = 0x10;
    pub(in super::super) const QUARANTINE: u32 = 0x20;
    pub(super) const SET_MACROS: u32 = 0x100;
}

/// Steps that are left out, or need no answer.
pub(super) mod step {
    pub(super) const NO_UNKNOWN: u32 = 0x100;
    pub(super) const NO_DATA: u32 = 0x200;
    pub(super) const NO_END_OF_HEADERS: u32 = 0x40;
    pub(in super::super) const SILENT_HEADER: u32 = 0x80;
    pub(in super::super) const SKIP: u32 = 0x400;
    pub(in super::super) const SILENT_CONNECT: u32 = 0x1000;
    pub(in super::super) const SILENT_HELO: u32 = 0x2000;
    pub(in super::super) const SILENT_MAIL: u32 = 0x4000;
    pub(in super::super) const SILENT_RECIPIENT: u32 = 0x8000;
    pub(in super::super) const SILENT_DATA: u32 = 0x1_0000;
    pub(in super::super) const SILENT_UNKNOWN: u32 = 0x2_0000;
    pub(in super::super) const SILENT_END_OF_HEADERS: u32 = 0x4_0000;
    pub(in super::super) const SILENT_BODY: u32 = 0x8_0000;
    pub(in super::super) const LEADING_SPACE: u32 = 0x10_0000;
}

const ACTIONS: u32 = action::ADD_HEADERS
    | action::CHANGE_BODY
    | action::DELETE_RECIPIENTS
    | action::CHANGE_HEADERS
    | action::QUARANTINE
    | action::SET_MACROS;

const STEPS: u32 = step::NO_UNKNOWN
    | step::NO_DATA
    | step::NO_END_OF_HEADERS
    | step::SILENT_HEADER
    | step::SKIP
    | step::SILENT_CONNECT
    | step::SILENT_HELO
    | step::SILENT_MAIL
    | step::SILENT_DATA
    | step::SILENT_UNKNOWN
    | step::SILENT_END_OF_HEADERS
    | step::SILENT_BODY
    | step::LEADING_SPACE;

/// The macros that the listener reads, by the number of their step: connect, helo, mail, recipient,
/// end of message. Because they are requested, the mail server needs no macro settings.
const MACROS: [(u32, &str); 5] = [
    (
        0,
        "j _ {daemon_name} {client_addr} {client_name} {client_ptr}",
    ),
    (1, "{tls_version} {cipher}"),
    (2, "i {auth_authen} {auth_type} {mail_addr}"),
    (3, "i {rcpt_addr}"),
    (5, "i {auth_authen}"),
];

/// The options that both sides agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NegotiatedOptions {
    pub(super) version: u32,
    actions: u32,
    steps: u32,
}

impl NegotiatedOptions {
    /// Makes an agreement from the mail server's offer: version, actions, steps, each of 32 bits.
    pub(super) fn from_offer(data: &[u8]) -> Result<Self, MilterError> {
        let mut words = data
            .chunks_exact(4)
            .filter_map(|word| Some(u32::from_be_bytes(word.try_into().ok()?)));
        let (Some(version), Some(actions), Some(steps)) =
            (words.next(), words.next(), words.next())
        else {
            return Err(MilterError::Short('O'));
        };
        if version < VERSION_MIN {
            return Err(MilterError::Version(version));
        }
        Ok(Self {
            version: version.min(VERSION_MAX),
            actions: actions & ACTIONS,
            steps: steps & STEPS,
        })
    }

    /// Whether this change is permitted.
    pub(super) const fn may(&self, action: u32) -> bool {
        self.actions & action != 0
    }

    /// Whether this step is agreed on.
    pub(super) const fn has(&self, step: u32) -> bool {
        self.steps & step != 0
    }

    /// Appends the packet with the listener's side of the agreement.
    pub(super) fn write(&self, output: &mut Vec<u8>) {
        let words = [self.version, self.actions, self.steps].map(u32::to_be_bytes);
        let mut macros = Vec::new();
        if self.may(action::SET_MACROS) {
            for (step, names) in MACROS {
                macros.extend_from_slice(&step.to_be_bytes());
                macros.extend_from_slice(names.as_bytes());
                macros.push(0);
            }
        }
        packet::write(output, b'O', &[words.as_flattened(), &macros]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(version: u32, actions: u32, steps: u32) -> Vec<u8> {
        [version, actions, steps].map(u32::to_be_bytes).concat()
    }

    #[test]
    fn nothing_is_taken_that_was_not_offered() {
        let agreed = NegotiatedOptions::from_offer(&offer(2, 0x1f, 0x7f)).expect("sendmail 8.12");
        assert_eq!(agreed.version, 2);
        assert!(agreed.may(action::ADD_HEADERS) && !agreed.may(action::QUARANTINE));
        assert!(!agreed.has(step::SILENT_BODY) && agreed.has(step::NO_END_OF_HEADERS));
        let mut output = Vec::new();
        agreed.write(&mut output);
        assert_eq!(output.len(), 4 + 1 + 12, "no macros without the offer");

        let agreed = NegotiatedOptions::from_offer(&offer(6, 0x1ff, 0x1f_ffff)).expect("Postfix");
        let mut output = Vec::new();
        agreed.write(&mut output);
        assert!(agreed.has(step::SILENT_CONNECT | step::SILENT_BODY));
        assert!(output.windows(3).any(|bytes| bytes == b"i {"));
        let newer = NegotiatedOptions::from_offer(&offer(7, 0, 0)).expect("a newer one");
        assert_eq!(newer.version, 6);
    }

    #[test]
    fn an_offer_must_be_whole_and_not_ancient() {
        assert_eq!(
            NegotiatedOptions::from_offer(&offer(1, 0, 0)),
            Err(MilterError::Version(1))
        );
        assert_eq!(
            NegotiatedOptions::from_offer(&[0; 11]),
            Err(MilterError::Short('O'))
        );
    }
}
