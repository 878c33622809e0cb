//! What a session that outlives its connection writes to the store, and when what it sends may
//! leave.
//!
//! Every change of such a session is a row; changes gather ([`Kept::changes`]) and are submitted
//! once for each batch, in the order in which they were made. What a publisher adds to a session
//! goes with the publisher's own changes, so that its acknowledgement waits for all of it.
//!
//! Invariants:
//! - Nothing is sent before its row is submitted, or the removal could overtake the row.
//! - A delivery at QoS 2 is sent only once its row is committed: were it forgotten, the publisher
//!   would publish again and the client get it twice. At QoS 1 that is allowed, and not waiting
//!   spares most rows the disk.
//! - A publication is stored once; [`Stored`] counts who still needs it.

use std::collections::HashMap;
use std::future::Future;
use std::num::NonZeroU16;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use gatepost_message::{MessageId, Publication};
use gatepost_store::{Change, SessionChange, StoreError, Ticket};
use parking_lot::Mutex;

use crate::session::Session;
use crate::trace::Trace;

/// A publication in the store, for as long as a delivery or a will refers to it.
pub(crate) struct Stored {
    pub(crate) number: u64,
    references: AtomicUsize,
    submitted: OnceLock<Submitted>,
}

enum Submitted {
    /// With this commit.
    With(Ticket),
    /// By an earlier run of the server.
    Before,
    /// The store would not take it.
    Refused,
}

/// How far a stored publication has come.
pub(crate) enum Standing {
    /// Its rows are not yet handed to the store.
    Gathered,
    /// They are, and this tells when they are on disk.
    Submitted(Ticket),
    /// They are on disk.
    Committed,
    /// They could not be written; whoever published was told so.
    Failed,
}

impl Stored {
    /// Stores a publication. The maker holds one reference.
    pub(crate) fn new(publication: &Arc<Publication>, changes: &mut Vec<Change>) -> Arc<Self> {
        // Ids are never given twice, over restarts too; one publication may go out under several
        // topics with one id, so that id itself will not do.
        let number = MessageId::next().number();
        changes.push(Change::Session(SessionChange::Message {
            number,
            publication: publication.clone(),
        }));
        Arc::new(Self {
            number,
            references: AtomicUsize::new(1),
            submitted: OnceLock::new(),
        })
    }

    /// What an earlier run stored; the finder holds one reference.
    pub(crate) fn found(number: u64) -> Arc<Self> {
        Arc::new(Self {
            number,
            references: AtomicUsize::new(1),
            submitted: OnceLock::from(Submitted::Before),
        })
    }

    /// Another one needs it.
    pub(crate) fn hold(&self) {
        self.references.fetch_add(1, Ordering::Relaxed);
    }

    /// One needs it no more; the last one forgets it.
    pub(crate) fn let_go(&self, changes: &mut Vec<Change>) {
        if self.references.fetch_sub(1, Ordering::AcqRel) == 1 {
            changes.push(Change::Session(SessionChange::ForgetMessage {
                number: self.number,
            }));
        }
    }

    pub(crate) fn was_submitted(&self, ticket: &Result<Ticket, StoreError>) {
        let _ = self.submitted.set(match ticket {
            Ok(ticket) => Submitted::With(ticket.clone()),
            Err(_) => Submitted::Refused,
        });
    }

    pub(crate) fn standing(&self) -> Standing {
        match self.submitted.get() {
            None => Standing::Gathered,
            Some(Submitted::Before) => Standing::Committed,
            Some(Submitted::Refused) => Standing::Failed,
            Some(Submitted::With(ticket)) => match ticket.outcome() {
                None => Standing::Submitted(ticket.clone()),
                Some(Ok(())) => Standing::Committed,
                Some(Err(_)) => Standing::Failed,
            },
        }
    }
}

type Commit = Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send>>;

/// The stored side of a session.
pub(crate) struct Kept {
    /// Names its rows.
    pub(crate) number: u64,
    /// What is not yet submitted.
    pub(crate) changes: Vec<Change>,
    /// The will's row.
    pub(crate) will: Option<Arc<Stored>>,
    /// The commit that the next delivery waits for; polled by the connection's own task.
    pub(crate) awaited: Option<Commit>,
    /// The commit of the session's own row.
    pub(crate) foundation: Option<Ticket>,
}

impl Kept {
    pub(crate) fn new(number: u64) -> Self {
        Self {
            number,
            changes: Vec::new(),
            will: None,
            awaited: None,
            foundation: None,
        }
    }

    pub(crate) fn push(&mut self, change: SessionChange) {
        self.changes.push(Change::Session(change));
    }

    /// Lets the connection's task wait for this commit.
    pub(crate) fn await_commit(&mut self, ticket: Ticket) {
        if self.awaited.is_none() {
            self.awaited = Some(Box::pin(async move { ticket.committed().await }));
        }
    }
}

/// Where a delivery's rows gather: the batch of a publisher, or of a connection that is sent
/// what topics kept.
#[derive(Default)]
pub(crate) struct Gathering {
    pub(crate) changes: Vec<Change>,
    /// The publications of this batch that are stored.
    stored: Vec<Arc<Stored>>,
    /// The last publication, for the next session that needs it.
    last: Option<(Arc<Publication>, Arc<Stored>)>,
    /// Where the way of the present publication is noted, if it is traced.
    pub(crate) trace: Option<Arc<Trace>>,
}

impl Gathering {
    /// The stored form of `publication`; made at the first call of each batch.
    pub(crate) fn stored(&mut self, publication: &Arc<Publication>) -> Arc<Stored> {
        match &self.last {
            Some((last, stored)) if Arc::ptr_eq(last, publication) => stored.clone(),
            _ => {
                let stored = Stored::new(publication, &mut self.changes);
                self.stored.push(stored.clone());
                self.last = Some((publication.clone(), stored.clone()));
                stored
            }
        }
    }

    /// The changes were handed to the store, or refused. What nobody needs any more is forgotten
    /// by the changes that are left here.
    pub(crate) fn was_submitted(&mut self, ticket: &Result<Ticket, StoreError>) {
        self.last = None;
        for stored in self.stored.drain(..) {
            stored.was_submitted(ticket);
            stored.let_go(&mut self.changes);
        }
    }
}

/// Exactly-once publications that are being judged: which packet identifier becomes durable with
/// them. Nearly always empty.
#[derive(Default)]
pub(crate) struct Claims {
    count: AtomicUsize,
    by_message: Mutex<HashMap<MessageId, (Arc<Session>, NonZeroU16)>>,
}

impl Claims {
    pub(crate) fn insert(&self, message: MessageId, claim: (Arc<Session>, NonZeroU16)) {
        let mut by_message = self.by_message.lock();
        by_message.insert(message, claim);
        self.count.store(by_message.len(), Ordering::Release);
    }

    /// The claim on this message, which is then fulfilled.
    pub(crate) fn take(&self, message: MessageId) -> Option<(Arc<Session>, NonZeroU16)> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut by_message = self.by_message.lock();
        let claim = by_message.remove(&message);
        self.count.store(by_message.len(), Ordering::Release);
        claim
    }
}
