//! Groups of changes that share one commit, and the tickets that wait for it.

use std::sync::{Arc, OnceLock};

use tokio::sync::Notify;

use crate::StoreError;

/// The outcome of one commit, shared by all tickets of its changes.
#[derive(Debug, Default)]
pub(crate) struct Group {
    outcome: OnceLock<Result<(), StoreError>>,
    decided: Notify,
}

impl Group {
    /// Called by the writer after the commit or its failure; the first outcome stands.
    pub(crate) fn decide(&self, outcome: Result<(), StoreError>) {
        let _ = self.outcome.set(outcome);
        self.decided.notify_waiters();
    }
}

/// A claim on a commit to come. Cheap to clone; dropping it changes nothing.
#[derive(Debug, Clone)]
pub struct Ticket {
    group: Arc<Group>,
}

impl Ticket {
    pub(crate) fn new(group: Arc<Group>) -> Self {
        Self { group }
    }

    /// The outcome, if it is known already.
    pub fn outcome(&self) -> Option<Result<(), StoreError>> {
        self.group.outcome.get().cloned()
    }

    /// Waits until the changes are on disk, or have failed to get there.
    pub async fn committed(&self) -> Result<(), StoreError> {
        loop {
            let notified = self.group.decided.notified();
            tokio::pin!(notified);
            // Registered before looking, so that a decision in between is not missed.
            notified.as_mut().enable();
            if let Some(outcome) = self.outcome() {
                return outcome;
            }
            notified.await;
        }
    }
}
