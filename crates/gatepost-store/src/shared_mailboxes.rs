//! Mailboxes and the quarantine, which the servers of a cluster share.
//!
//! Each server has all mail in its database and reads it there. The cluster decides which mail that
//! is, and its part is [`SharedMailboxes`].
//!
//! Invariants:
//! - When a ticket of [`SharedMailboxes::deliver`] is committed, every later claim of the mailbox,
//!   on any server, finds the mail in the database of that server.
//! - The same is true of removed mail and the tickets of [`SharedMailboxes::take_out`], and of a
//!   message in quarantine, its claim and its removal.

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use gatepost_message::MessageId;
use parking_lot::Mutex;

use crate::{ExternalCommit, JournalEntry, QuarantineEntry, StoreError, Ticket};

/// A mail and the mailboxes that it goes to.
#[derive(Debug, Clone)]
pub struct MailboxDelivery {
    /// The users.
    pub users: Vec<String>,
    /// The message's id. A mailbox has one mail of an id.
    pub id: MessageId,
    /// The mail, complete.
    pub mail: Bytes,
}

/// A claim to come; `None` if another server has the mailbox or message.
pub type MailboxClaimWait =
    Pin<Box<dyn Future<Output = Result<Option<MailboxClaim>, StoreError>> + Send>>;

/// The cluster, as the owners of mailboxes see it.
pub trait SharedMailboxes: Send + Sync {
    /// Puts a mail into mailboxes: all of them or none.
    fn deliver(&self, delivery: MailboxDelivery) -> Ticket;

    /// Removes mail from a user's mailbox.
    fn take_out(&self, user: String, ids: Vec<MessageId>) -> Ticket;

    /// Claims a user's mailbox.
    fn claim(&self, user: String) -> MailboxClaimWait;

    /// Puts a message into quarantine.
    fn quarantine(&self, entry: QuarantineEntry) -> Ticket;

    /// Takes a message out of quarantine. The journal entry replaces its earlier one, if it has
    /// another verdict now.
    fn unquarantine(&self, id: MessageId, entry: Option<JournalEntry>) -> Ticket;

    /// Claims a message in quarantine, which may be released while the claim is held.
    fn claim_quarantined(&self, id: MessageId) -> MailboxClaimWait;
}

/// The sole use of a mailbox or of a message in quarantine, until it is released or dropped.
#[must_use = "a claim that is dropped excludes no client"]
pub struct MailboxClaim(Option<Box<dyn HeldMailbox>>);

/// A mailbox that a server holds for a client.
pub trait HeldMailbox: Send + Sync {
    /// Begins to give it back; the ticket is committed when other servers may claim it.
    fn release(&mut self) -> Ticket;
}

impl MailboxClaim {
    /// The claim of a server without a cluster.
    pub(crate) const fn local() -> Self {
        Self(None)
    }

    /// The claim of a server of a cluster.
    pub fn held(mailbox: impl HeldMailbox + 'static) -> Self {
        Self(Some(Box::new(mailbox)))
    }

    /// Releases the mailbox; returns when other servers may claim it.
    pub async fn release(&mut self) -> Result<(), StoreError> {
        match self.0.take() {
            None => Ok(()),
            Some(mut mailbox) => mailbox.release().committed().await,
        }
    }
}

/// The messages in quarantine that this server is releasing, without a cluster.
#[derive(Clone, Default)]
pub(crate) struct LocalClaims(Arc<Mutex<HashSet<MessageId>>>);

impl LocalClaims {
    /// Claims a message; `None` if another release has it.
    pub(crate) fn claim(&self, id: MessageId) -> Option<MailboxClaim> {
        let is_new = self.0.lock().insert(id);
        let claims = self.clone();
        is_new.then(|| MailboxClaim::held(LocalClaim { claims, id }))
    }
}

struct LocalClaim {
    claims: LocalClaims,
    id: MessageId,
}

impl HeldMailbox for LocalClaim {
    fn release(&mut self) -> Ticket {
        self.claims.0.lock().remove(&self.id);
        let (released, ticket) = ExternalCommit::new();
        released.decide(Ok(()));
        ticket
    }
}

impl Drop for MailboxClaim {
    fn drop(&mut self) {
        if let Some(mut mailbox) = self.0.take() {
            drop(mailbox.release());
        }
    }
}

/// The cluster of a store, which may be set after the store was opened.
pub(crate) type MailboxCluster = OnceLock<Arc<dyn SharedMailboxes>>;
