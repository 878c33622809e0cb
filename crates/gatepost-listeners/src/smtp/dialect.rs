//! The differences between LMTP (RFC 2033) and SMTP: another greeting, and after the message one
//! reply for each accepted recipient, so that the refusal of one mailbox is not that of another.

use gatepost_message::Listener;

use super::command::GreetingVerb;
use super::reply::SmtpReply;

/// The protocol that a listener speaks: SMTP or LMTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    Smtp,
    Lmtp,
}

/// The transmission of a message, as far as its Received field describes it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Transmission {
    /// With SMTPUTF8.
    pub(super) is_utf8: bool,
    /// After EHLO.
    pub(super) is_extended: bool,
    /// Inside TLS.
    pub(super) is_encrypted: bool,
    /// From a client that has logged in.
    pub(super) is_authenticated: bool,
}

impl Dialect {
    pub(super) const fn listener(self) -> Listener {
        match self {
            Self::Smtp => Listener::Smtp,
            Self::Lmtp => Listener::Lmtp,
        }
    }

    /// The protocol's name in the greeting.
    pub(super) const fn banner(self) -> &'static str {
        match self {
            Self::Smtp => "ESMTP",
            Self::Lmtp => "LMTP",
        }
    }

    /// The protocol's name in a Received field (RFC 3848, RFC 6531, section 4.3): S for TLS, A for
    /// a login.
    pub(super) const fn trace_name(self, transmission: Transmission) -> &'static str {
        let names = match (self, transmission.is_utf8, transmission.is_extended) {
            (Self::Lmtp, true, _) => ["UTF8LMTP", "UTF8LMTPS", "UTF8LMTPA", "UTF8LMTPSA"],
            (Self::Lmtp, false, _) => ["LMTP", "LMTPS", "LMTPA", "LMTPSA"],
            (Self::Smtp, true, _) => ["UTF8SMTP", "UTF8SMTPS", "UTF8SMTPA", "UTF8SMTPSA"],
            (Self::Smtp, false, true) => ["ESMTP", "ESMTPS", "ESMTPA", "ESMTPSA"],
            (Self::Smtp, false, false) => ["SMTP"; 4],
        };
        names[transmission.is_encrypted as usize + 2 * transmission.is_authenticated as usize]
    }

    /// RFC 2033, section 4.1: LMTP has only LHLO, which SMTP does not have.
    pub(super) const fn speaks(self, verb: GreetingVerb) -> bool {
        match self {
            Self::Smtp => matches!(verb, GreetingVerb::Helo | GreetingVerb::Ehlo),
            Self::Lmtp => matches!(verb, GreetingVerb::Lhlo),
        }
    }

    pub(super) const fn wrong_hello(self) -> SmtpReply {
        match self {
            Self::Smtp => SmtpReply::new(500, "5.5.1", "this is SMTP; send EHLO"),
            Self::Lmtp => SmtpReply::new(500, "5.5.1", "this is LMTP; send LHLO"),
        }
    }

    /// The number of replies to a message for so many recipients (RFC 2033, section 4.2).
    pub(super) fn replies_for(self, recipients: usize) -> usize {
        match self {
            Self::Smtp => 1,
            Self::Lmtp => recipients.max(1),
        }
    }

    pub(super) const fn help(self) -> &'static str {
        match self {
            Self::Smtp => "commands: EHLO HELO MAIL RCPT DATA BDAT RSET NOOP VRFY HELP QUIT",
            Self::Lmtp => "commands: LHLO MAIL RCPT DATA BDAT RSET NOOP VRFY HELP QUIT",
        }
    }
}
