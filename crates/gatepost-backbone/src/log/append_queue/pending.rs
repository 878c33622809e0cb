//! The outcome of publications that wait for the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gatepost_store::{ExternalCommit, StoreError, Ticket};
use parking_lot::Mutex;

/// The publications of one flush of a publisher, in all partitions.
pub(crate) struct PendingAppend {
    commit: ExternalCommit,
    /// The publications whose outcome is not known.
    remaining: AtomicUsize,
    failure: Mutex<Option<StoreError>>,
}

impl PendingAppend {
    pub(crate) fn new(publications: usize) -> (Arc<Self>, Ticket) {
        let (commit, ticket) = ExternalCommit::new();
        let pending = Self {
            commit,
            remaining: AtomicUsize::new(publications),
            failure: Mutex::default(),
        };
        (Arc::new(pending), ticket)
    }

    pub(super) fn settle(&self, publications: usize, outcome: Result<(), StoreError>) {
        if let Err(error) = outcome {
            self.failure.lock().get_or_insert(error);
        }
        if self.remaining.fetch_sub(publications, Ordering::AcqRel) == publications {
            let failure = self.failure.lock().take();
            self.commit.decide(failure.map_or(Ok(()), Err));
        }
    }
}
