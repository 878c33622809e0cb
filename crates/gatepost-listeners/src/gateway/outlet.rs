//! Where publications go. The broker is the outlet of the server; tests have one that notes.

use gatepost_message::{MessageId, Publication};
use gatepost_store::{StoreError, Ticket};

/// What became of one publication.
#[derive(Debug, Default)]
pub struct Handed {
    /// Subscribers that it was handed to.
    pub deliveries: u64,
    /// What must be on disk before the sender may be told that it was taken.
    pub ticket: Option<Result<Ticket, StoreError>>,
}

/// Where a message goes that is no subscriber.
#[derive(Debug, Clone, Copy)]
pub enum Elsewhere<'a> {
    /// The mailbox of this user.
    Mailbox(&'a str),
    /// The next hop.
    NextHop {
        /// For whom.
        recipient: &'a str,
        /// Whether it took the message.
        is_taken: bool,
        /// Its reply, or why there was none.
        said: &'a str,
    },
}

/// Takes publications, without waiting.
pub trait Outlet: Send + Sync {
    /// Hands `publication` to everyone who subscribed to its topic.
    fn publish(&self, publication: Publication) -> Handed;

    /// The same, remembering for a while to whom it goes and what becomes of it there, under the
    /// id of `message`.
    fn publish_traced(&self, publication: Publication, message: MessageId) -> Handed {
        let _ = message;
        self.publish(publication)
    }

    /// Remembers beside it what became of `message` elsewhere.
    fn note_elsewhere(&self, message: MessageId, elsewhere: Elsewhere<'_>) {
        let _ = (message, elsewhere);
    }
}
