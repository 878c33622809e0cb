//! State of a mail transaction before its text, and the effects of commands.

use super::path::Mailbox;
use super::recipients::Destination;
use super::reply::SmtpReply;
use crate::forward::BodyEncoding;

/// The client's statements about itself.
#[derive(Debug, Clone)]
pub(super) struct ClientGreeting {
    pub(super) name: String,
    pub(super) extended: bool,
}

/// A mail transaction: sender and recipients, before the text.
#[derive(Debug, Clone, Default)]
pub(super) struct Transaction {
    /// `None` is the null reverse path.
    pub(super) from: Option<Mailbox>,
    pub(super) utf8: bool,
    pub(super) body: BodyEncoding,
    pub(super) size: Option<u64>,
    /// RET and ENVID, for the next hop.
    pub(super) dsn: Vec<String>,
    pub(super) to: Vec<Recipient>,
    /// The bytes received by BDAT so far; `None` before the first chunk.
    pub(super) chunks: Option<Vec<u8>>,
}

/// An accepted recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Recipient {
    pub(super) mailbox: Mailbox,
    pub(super) destination: Destination,
    /// NOTIFY and ORCPT, for the next hop.
    pub(super) dsn: Vec<String>,
}

/// The outcome of a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CommandOutcome {
    Reply(SmtpReply),
    /// The next hop or the mailbox must confirm that it accepts this recipient.
    Ask(Box<Recipient>),
    /// The reply is 354, and the message follows.
    Data(SmtpReply),
    /// This many bytes of the message follow immediately; if there is a `refusal`, it is the reply
    /// to them.
    Chunk {
        size: u64,
        last: bool,
        refusal: Option<SmtpReply>,
    },
    /// After the reply TLS begins.
    StartTls(SmtpReply),
    /// An exchange begins.
    Auth {
        mechanism: String,
        initial: Option<String>,
    },
    /// The connection ends after the reply. The client is still sending and would lose the reply if
    /// the connection were closed, so up to this many bytes are read and discarded first.
    EndDiscarding(SmtpReply, u64),
    /// The connection ends after the reply.
    End(SmtpReply),
}
