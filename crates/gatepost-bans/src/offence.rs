//! Offences that count against an address.

use crate::OffencePoints;

/// An offence of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offence {
    /// A login with a wrong user, password or token.
    Login,
    /// Mail to a recipient that does not exist.
    UnknownRecipient,
    /// A connection that ended because its client violated the protocol.
    ProtocolFault,
    /// Mail that the rules found to be spam, from a client that has not logged in.
    Spam,
}

impl Offence {
    /// All kinds, in the order of their counters.
    pub const ALL: [Self; 4] = [
        Self::Login,
        Self::UnknownRecipient,
        Self::ProtocolFault,
        Self::Spam,
    ];

    /// The name in settings and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Login => "login",
            Self::UnknownRecipient => "unknown_recipient",
            Self::ProtocolFault => "protocol_fault",
            Self::Spam => "spam",
        }
    }

    /// The name in a ban's reason.
    const fn words(self) -> &'static str {
        match self {
            Self::Login => "failed logins",
            Self::UnknownRecipient => "unknown recipients",
            Self::ProtocolFault => "protocol faults",
            Self::Spam => "spam messages",
        }
    }

    pub(crate) const fn points(self, points: &OffencePoints) -> u32 {
        match self {
            Self::Login => points.login,
            Self::UnknownRecipient => points.unknown_recipient,
            Self::ProtocolFault => points.protocol_fault,
            Self::Spam => points.spam,
        }
    }
}

/// The number of offences of each kind.
pub(crate) type OffenceCounts = [u32; Offence::ALL.len()];

/// `failed logins: 20, spam messages: 3`
pub(crate) fn reason(counts: &OffenceCounts) -> String {
    let kinds = Offence::ALL.iter().zip(counts);
    let named = kinds.filter(|(_, count)| **count > 0);
    let parts: Vec<String> = named
        .map(|(offence, count)| format!("{}: {count}", offence.words()))
        .collect();
    parts.join(", ")
}
