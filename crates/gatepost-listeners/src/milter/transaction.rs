//! A message as the mail server has told it so far, and who sends it.

use std::net::SocketAddr;

use gatepost_message::Peer;

use super::negotiation::Agreement;

/// The SMTP client at the mail server.
#[derive(Debug, Clone, Default)]
pub(super) struct Host {
    pub(super) name: String,
    pub(super) address: Option<SocketAddr>,
    pub(super) helo: Option<String>,
}

/// A message on its way.
#[derive(Debug, Clone, Default)]
pub(super) struct Transaction {
    pub(super) sender: Option<String>,
    /// As the mail server wrote them, with their angle brackets: that is how they are deleted.
    pub(super) recipients: Vec<String>,
    pub(super) head: Vec<u8>,
    pub(super) body: Vec<u8>,
    pub(super) excess: Option<Excess>,
}

/// Which limit a message exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Excess {
    Size,
    Recipients,
}

/// A whole message with all that is known of it.
#[derive(Debug)]
pub(super) struct Whole {
    pub(super) agreement: Agreement,
    pub(super) host: Host,
    pub(super) user: Option<String>,
    /// The mail server's own name, and its id for the message.
    pub(super) server: Option<String>,
    pub(super) queue_id: Option<String>,
    pub(super) transaction: Transaction,
}

impl Host {
    pub(super) fn peer(&self) -> Peer {
        self.address.map_or(Peer::Local, Peer::Address)
    }
}
