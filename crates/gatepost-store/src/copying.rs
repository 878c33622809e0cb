//! Copying of committed changes to another place, such as a stream that other servers read.
//!
//! The writer passes each group of changes to the copy after its commit. The tickets of the group
//! are decided when the copy says so, so a caller that acknowledges after its ticket was committed
//! acknowledges what is in both places.
//!
//! Invariant: groups are passed on in the order of their commits.

use std::sync::{Arc, OnceLock};

use crate::folder::DataFolder;
use crate::group::{CommitGroup, CommitOutcome};
use crate::queue::CommitQueue;
use crate::{StoreChange, StoreError};

/// A place to which committed changes are copied.
pub trait CommitCopy: Send + Sync {
    /// Takes over the changes of a commit. Called on the writer's thread, which it must not block.
    fn copy(&self, commit: CopiedCommit<'_>);
}

/// A commit that is to be copied.
pub struct CopiedCommit<'a> {
    /// The changes, in their order. Some of them may cancel each other.
    pub changes: Vec<StoreChange>,
    /// The decision on the group's tickets.
    pub decision: CommitDecision,
    /// The folder of the database; `None` for one in memory.
    pub(crate) folder: Option<&'a DataFolder>,
}

/// The outcome of a commit that its tickets do not know yet. If it is dropped, they fail.
pub struct CommitDecision {
    queue: Arc<CommitQueue>,
    group: Arc<CommitGroup>,
    outcome: Option<CommitOutcome>,
}

impl CommitDecision {
    pub(crate) const fn new(
        queue: Arc<CommitQueue>,
        group: Arc<CommitGroup>,
        outcome: CommitOutcome,
    ) -> Self {
        Self {
            queue,
            group,
            outcome: Some(outcome),
        }
    }

    /// Reports the outcome of the commit to the tickets.
    pub fn decide(mut self) {
        if let Some(outcome) = self.outcome.take() {
            self.queue.decide(&self.group, outcome);
        }
    }
}

impl Drop for CommitDecision {
    fn drop(&mut self) {
        if self.outcome.is_some() {
            self.group.decide(Err(StoreError::Closed));
        }
    }
}

/// The copy of a store, which may be set after the writer has started.
pub(crate) type SharedCopy = Arc<OnceLock<Arc<dyn CommitCopy>>>;
