//! Changes that a persistent session writes to the store, and the order of storing and sending.
//!
//! Every change of such a session is a row; changes are collected ([`PersistentSession::changes`])
//! and submitted once for each batch, in the order in which they were made. A publisher's changes
//! to a session are submitted with the publisher's own changes, so that its acknowledgement waits
//! for all of them.
//!
//! Invariants:
//! - Nothing is sent before its row is submitted, or the removal could overtake the row.
//! - A delivery at QoS 2 is sent only once its row is committed: if the row were lost, the
//!   publisher would publish again and the client would receive the message twice. At QoS 1 that is
//!   permitted, and without waiting most rows never reach the disk. A session that ends with its
//!   connection has no rows; its deliveries at QoS 2 wait for the other changes of the publisher's
//!   batch.
//! - After a failed commit the memory and the disk converge: deliveries, receipts and retained
//!   messages of the failed batch are undone, and the session's own changes are submitted again.
//! - A publication is stored once; [`StoredMessage`] counts the references to it.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use gatepost_message::{MessageId, Publication};
use gatepost_store::{SessionChange, SessionRow, Store, StoreChange, StoreError, Ticket};

use crate::trace::Trace;

/// The progress of the changes of one batch; set when they were submitted.
#[derive(Default)]
pub(crate) struct BatchCommit(OnceLock<BatchSubmission>);

enum BatchSubmission {
    /// The changes are part of this commit.
    With(Ticket),
    /// The changes were stored before this run of the server, or there were none.
    Before,
    /// The store refused the changes.
    Refused,
}

/// The progress of stored changes.
pub(crate) enum CommitStatus {
    /// The changes are not yet submitted to the store.
    Collected,
    /// The changes are submitted; the ticket completes when they are on disk.
    Submitted(Ticket),
    /// The changes are on disk.
    Committed,
    /// The changes could not be written, and the publisher received a failure.
    Failed,
}

impl BatchCommit {
    fn before() -> Self {
        Self(OnceLock::from(BatchSubmission::Before))
    }

    /// Records that the batch was submitted; `None` if there was nothing to store.
    pub(crate) fn was_submitted(&self, ticket: Option<&Result<Ticket, StoreError>>) {
        let _ = self.0.set(match ticket {
            Some(Ok(ticket)) => BatchSubmission::With(ticket.clone()),
            Some(Err(_)) => BatchSubmission::Refused,
            None => BatchSubmission::Before,
        });
    }

    pub(crate) fn status(&self) -> CommitStatus {
        match self.0.get() {
            None => CommitStatus::Collected,
            Some(BatchSubmission::Before) => CommitStatus::Committed,
            Some(BatchSubmission::Refused) => CommitStatus::Failed,
            Some(BatchSubmission::With(ticket)) => match ticket.outcome() {
                None => CommitStatus::Submitted(ticket.clone()),
                Some(Ok(())) => CommitStatus::Committed,
                Some(Err(_)) => CommitStatus::Failed,
            },
        }
    }
}

/// A publication in the store, for as long as a delivery or a will refers to it.
pub(crate) struct StoredMessage {
    pub(crate) number: u64,
    references: AtomicUsize,
    commit: BatchCommit,
}

impl StoredMessage {
    /// Stores a publication. The caller holds one reference.
    pub(crate) fn new(publication: &Arc<Publication>, changes: &mut Vec<StoreChange>) -> Arc<Self> {
        // Numbers are never reused, even after a restart. The message id is not sufficient, since
        // one message may be published under several topics.
        let number = MessageId::next().number();
        changes.push(StoreChange::Session(SessionChange::Message {
            number,
            publication: publication.clone(),
        }));
        Arc::new(Self {
            number,
            references: AtomicUsize::new(1),
            commit: BatchCommit::default(),
        })
    }

    /// A publication that an earlier process stored; the caller holds one reference.
    pub(crate) fn found(number: u64) -> Arc<Self> {
        Arc::new(Self {
            number,
            references: AtomicUsize::new(1),
            commit: BatchCommit::before(),
        })
    }

    /// Adds a reference.
    pub(crate) fn add_reference(&self) {
        self.references.fetch_add(1, Ordering::Relaxed);
    }

    /// Releases a reference; the last one deletes the row.
    pub(crate) fn release_reference(&self, changes: &mut Vec<StoreChange>) {
        if self.references.fetch_sub(1, Ordering::AcqRel) == 1 {
            changes.push(StoreChange::Session(SessionChange::ForgetMessage {
                number: self.number,
            }));
        }
    }

    pub(crate) fn commit_status(&self) -> CommitStatus {
        self.commit.status()
    }
}

/// A commit that a connection's own task waits for.
pub(crate) type AwaitedCommit = Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send>>;

/// Changes of a session that were submitted and whose outcome is not known yet.
struct PendingCommit {
    ticket: Ticket,
    changes: Vec<StoreChange>,
}

/// The stored side of a session.
///
/// Changes of the session itself are kept until their commit is known: those that could not be
/// stored are submitted again, before later ones, so that the disk reaches the state of the memory.
pub(crate) struct PersistentSession {
    /// The number that identifies its rows.
    pub(crate) number: u64,
    /// Changes that are not yet submitted.
    pub(crate) changes: Vec<StoreChange>,
    /// Pending commits, oldest first. Each may only be stored after the one before it, so if one
    /// fails, the later ones have failed too.
    submitted: VecDeque<PendingCommit>,
    /// The commit of effects without which nothing more may be stored, until it has succeeded.
    pub(crate) prerequisite: Option<Result<Ticket, StoreError>>,
    /// An empty buffer for the next submission.
    spare: Vec<StoreChange>,
    /// The will's row.
    pub(crate) will: Option<Arc<StoredMessage>>,
}

impl PersistentSession {
    pub(crate) fn new(number: u64) -> Self {
        Self {
            number,
            changes: Vec::new(),
            submitted: VecDeque::new(),
            prerequisite: None,
            spare: Vec::new(),
            will: None,
        }
    }

    pub(crate) fn push(&mut self, change: SessionChange) {
        self.changes.push(StoreChange::Session(change));
    }

    /// Sets the session's own row; one that is not submitted yet is replaced.
    pub(crate) fn push_row(&mut self, row: SessionRow) {
        let is_row =
            |change: &StoreChange| matches!(change, StoreChange::Session(SessionChange::Put(_)));
        self.changes.retain(|change| !is_row(change));
        self.push(SessionChange::Put(Box::new(row)));
    }

    /// Submits the changes to the store, beginning with those that failed before. The ticket is for
    /// all changes of the session so far, whichever task submitted them; `None` if all of them are
    /// on disk. Most of them are ends of deliveries, which no caller waits for: until someone waits
    /// for the ticket, they wait for the commit of others.
    pub(crate) fn submit(&mut self, store: &Store) -> Option<Result<Ticket, StoreError>> {
        self.take_back_failed();
        if self.changes.is_empty() {
            return self.last_ticket().map(|ticket| Ok(ticket.clone()));
        }
        if let Some(error) = self.unmet_prerequisite() {
            return Some(Err(error));
        }
        let mut copy = std::mem::take(&mut self.spare);
        copy.extend(self.changes.iter().cloned());
        let earlier = self.submitted.back().map(|last| &last.ticket);
        let submitted = store.submit_later(&mut self.changes, earlier);
        if let Ok(ticket) = &submitted {
            self.submitted.push_back(PendingCommit {
                ticket: ticket.clone(),
                changes: copy,
            });
        } else {
            copy.clear();
            self.spare = copy;
        }
        Some(submitted)
    }

    /// The reason why nothing may be stored now. A prerequisite whose outcome is not known yet does
    /// no harm: if it fails, all later submissions fail with it.
    pub(crate) fn unmet_prerequisite(&mut self) -> Option<StoreError> {
        let outcome = match self.prerequisite.as_ref()? {
            Ok(ticket) => ticket.outcome()?,
            Err(error) => Err(error.clone()),
        };
        if outcome.is_ok() {
            self.prerequisite = None;
        }
        outcome.err()
    }

    /// The commit of the last changes whose outcome is not known.
    pub(crate) fn last_ticket(&self) -> Option<&Ticket> {
        self.submitted.back().map(|last| &last.ticket)
    }

    /// Whether there are changes that are not on disk and that no other task will submit.
    pub(crate) fn has_unsubmitted(&mut self) -> bool {
        self.take_back_failed();
        !self.changes.is_empty()
    }

    fn take_back_failed(&mut self) {
        while let Some(first) = self.submitted.front() {
            match first.ticket.outcome() {
                None => return,
                Some(Ok(())) => {
                    if let Some(PendingCommit { mut changes, .. }) = self.submitted.pop_front() {
                        changes.clear();
                        self.spare = changes;
                    }
                }
                Some(Err(_)) => {
                    let mut failed = Vec::new();
                    for submission in self.submitted.drain(..) {
                        failed.extend(submission.changes);
                    }
                    failed.append(&mut self.changes);
                    self.changes = failed;
                    return;
                }
            }
        }
    }
}

/// The sessions that receive a publication, of those with a matching subscription: see `nodes.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Audience {
    #[default]
    All,
    /// All except persistent sessions at QoS 1 and 2.
    NotPersistent,
    /// Persistent sessions at QoS 1 and 2.
    Persistent,
}

/// The rows of one batch of deliveries: of a publisher, or of a connection that receives retained
/// messages.
#[derive(Default)]
pub(crate) struct ChangeBatch {
    pub(crate) changes: Vec<StoreChange>,
    /// The publications of this batch that are stored.
    stored: Vec<Arc<StoredMessage>>,
    /// The commit that the sender's acknowledgement waits for, shared by all parts that must be
    /// undone if it fails.
    commit: Option<Arc<BatchCommit>>,
    /// The commit of the changes, if they are of retained messages.
    pub(crate) retaining: Option<Arc<BatchCommit>>,
    /// Whether the changes record that the sender's publications were received, so that it will not
    /// repeat them.
    pub(crate) ends_sending: bool,
    /// The sessions that the present publication goes to.
    pub(crate) audience: Audience,
    /// The last publication, for the next session that needs it.
    last: Option<(Arc<Publication>, Arc<StoredMessage>)>,
    /// The trace of the present publication, if it is traced.
    pub(crate) trace: Option<Arc<Trace>>,
}

impl ChangeBatch {
    /// The stored form of `publication`; made at the first call of each batch.
    pub(crate) fn stored(&mut self, publication: &Arc<Publication>) -> Arc<StoredMessage> {
        match &self.last {
            Some((last, stored)) if Arc::ptr_eq(last, publication) => stored.clone(),
            _ => {
                let stored = StoredMessage::new(publication, &mut self.changes);
                self.stored.push(stored.clone());
                self.last = Some((publication.clone(), stored.clone()));
                stored
            }
        }
    }

    /// Whether nothing waits for its submission.
    pub(crate) const fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.commit.is_none()
    }

    /// The commit of the present batch.
    pub(crate) fn commit(&mut self) -> Arc<BatchCommit> {
        self.commit.get_or_insert_with(Arc::default).clone()
    }

    /// The commit of the retained messages that the present batch changes.
    pub(crate) fn retaining_commit(&mut self) -> Arc<BatchCommit> {
        self.retaining.get_or_insert_with(Arc::default).clone()
    }

    /// Records that the changes were submitted or refused; `None` if there were none.
    /// `acknowledged` is the commit that the sender's acknowledgement waits for. Changes that
    /// remove unreferenced messages remain in this batch.
    pub(crate) fn was_submitted(
        &mut self,
        ticket: Option<&Result<Ticket, StoreError>>,
        acknowledged: Option<&Result<Ticket, StoreError>>,
    ) {
        self.last = None;
        self.ends_sending = false;
        if let Some(commit) = self.commit.take() {
            commit.was_submitted(acknowledged);
        }
        for stored in self.stored.drain(..) {
            stored.commit.was_submitted(ticket);
            stored.release_reference(&mut self.changes);
        }
    }
}
