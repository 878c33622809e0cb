//! Groups of changes that share one commit, and the tickets that wait for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use tokio::sync::Notify;

use crate::StoreError;

/// A commit: the submissions that were left out of it, by ascending number and with the reason of
/// each, or the reason why there was no commit.
pub(crate) type CommitOutcome = Result<Vec<(u32, StoreError)>, StoreError>;

/// The reason why this submission was left out.
pub(crate) fn failure_in(left_out: &[(u32, StoreError)], submission: u32) -> Option<&StoreError> {
    let found = left_out.binary_search_by_key(&submission, |(number, _)| *number);
    found.ok().map(|index| &left_out[index].1)
}

/// A queue in which groups wait for their commit.
pub(crate) trait GroupQueue: Send + Sync {
    /// Commits this group at once, if it still waits.
    fn request(&self, group: &CommitGroup);
}

/// The outcome of one commit, shared by all tickets of its changes.
#[derive(Debug, Default)]
pub(crate) struct CommitGroup {
    outcome: OnceLock<CommitOutcome>,
    decided: Notify,
    /// Whether the commit is to be made at once.
    is_requested: AtomicBool,
    /// The queue in which the group waits; `None` if it waits in none.
    queue: Option<Weak<dyn GroupQueue>>,
}

impl CommitGroup {
    /// A group that waits in this queue until the first of its tickets is awaited.
    pub(crate) fn in_queue(queue: Weak<dyn GroupQueue>) -> Self {
        Self {
            queue: Some(queue),
            ..Self::default()
        }
    }

    /// Called by the queue, when it commits the group at once.
    pub(crate) fn note_urgent(&self) {
        self.is_requested.store(true, Ordering::Relaxed);
    }

    /// Requests the commit, the first time that it is called.
    fn request(&self) {
        if self.is_requested.swap(true, Ordering::Relaxed) {
            return;
        }
        if let Some(queue) = self.queue.as_ref().and_then(Weak::upgrade) {
            queue.request(self);
        }
    }

    /// Called by the writer after the commit or its failure; the first outcome is final.
    pub(crate) fn decide(&self, outcome: CommitOutcome) {
        let _ = self.outcome.set(outcome);
        self.decided.notify_waiters();
    }
}

/// The commit of data that is stored outside the database, such as in a log that several servers
/// share. If it is dropped undecided, its tickets fail.
#[derive(Debug)]
pub struct ExternalCommit(Arc<CommitGroup>);

impl ExternalCommit {
    /// A commit to come, and the ticket for it.
    pub fn new() -> (Self, Ticket) {
        let group = Arc::new(CommitGroup::default());
        let ticket = Ticket::of_all(group.clone());
        (Self(group), ticket)
    }

    /// Reports the outcome to the tickets; the first one is final.
    pub fn decide(&self, outcome: Result<(), StoreError>) {
        self.0.decide(outcome.map(|()| Vec::new()));
    }
}

impl Drop for ExternalCommit {
    fn drop(&mut self) {
        self.decide(Err(StoreError::Closed));
    }
}

/// A claim on a commit to come. Cheap to clone; dropping it changes nothing.
#[derive(Debug, Clone)]
pub struct Ticket {
    group: Arc<CommitGroup>,
    /// The submission's number within the group; `None` for the commit as such.
    submission: Option<u32>,
}

impl Ticket {
    pub(crate) fn of_submission(group: Arc<CommitGroup>, number: u32) -> Self {
        Self {
            group,
            submission: Some(number),
        }
    }

    pub(crate) fn of_all(group: Arc<CommitGroup>) -> Self {
        Self {
            group,
            submission: None,
        }
    }

    /// The number within this group, if the submission is one of it.
    pub(crate) fn number_in(&self, group: &Arc<CommitGroup>) -> Option<u32> {
        self.submission.filter(|_| Arc::ptr_eq(&self.group, group))
    }

    /// The reason why the changes were not stored, if that is known already.
    pub(crate) fn failure(&self) -> Option<&StoreError> {
        match self.group.outcome.get()? {
            Err(error) => Some(error),
            Ok(left_out) => failure_in(left_out, self.submission?),
        }
    }

    /// The outcome, if it is known already.
    pub fn outcome(&self) -> Option<Result<(), StoreError>> {
        self.group.outcome.get()?;
        Some(self.failure().cloned().map_or(Ok(()), Err))
    }

    /// Waits until the changes are on disk or have failed. Changes that waited for the commit of
    /// others are committed at once.
    pub async fn committed(&self) -> Result<(), StoreError> {
        loop {
            let notified = self.group.decided.notified();
            tokio::pin!(notified);
            // Registered before the check, so that a decision in between is not missed.
            notified.as_mut().enable();
            if let Some(outcome) = self.outcome() {
                return outcome;
            }
            self.group.request();
            notified.await;
        }
    }
}
