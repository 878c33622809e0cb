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
    /// The bytes that the recipients occupy.
    pub(super) recipient_bytes: u64,
    /// The bytes received by BDAT so far; `None` before the first chunk.
    pub(super) chunks: Option<Vec<u8>>,
}

impl Transaction {
    /// The bytes that it occupies in memory.
    pub(super) fn held_bytes(&self) -> u64 {
        self.recipient_bytes + self.chunks.as_ref().map_or(0, Vec::len) as u64
    }
}

/// An accepted recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Recipient {
    pub(super) mailbox: Mailbox,
    pub(super) destination: Destination,
    /// NOTIFY and ORCPT, for the next hop.
    pub(super) dsn: Vec<String>,
}

impl Recipient {
    /// The bytes that it occupies in memory: in the transaction, and in that at the next hop.
    pub(super) fn held_bytes(&self) -> u64 {
        let parameters = self.dsn.iter().map(|text| size_of::<String>() + text.len());
        let texts = self.mailbox.address.len() + parameters.sum::<usize>();
        (size_of::<Self>() + 2 * texts) as u64
    }
}

/// A chunk of a message (RFC 3030, section 2).
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    /// Its size in bytes.
    pub(super) size: u64,
    pub(super) last: bool,
    /// The reply to it, if it is refused.
    pub(super) refusal: Option<SmtpReply>,
    /// The number of replies to a refusal.
    pub(super) replies: usize,
}

/// The outcome of a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CommandOutcome {
    Reply(SmtpReply),
    /// The recipient is accepted if there is memory for it, and the next hop or the mailbox
    /// confirms it.
    Ask(Box<Recipient>),
    /// The reply is 354, and the message follows.
    Data(SmtpReply),
    /// A chunk of the message follows immediately.
    Chunk(Chunk),
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
