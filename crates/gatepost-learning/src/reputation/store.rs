//! The interface to the store of the averages.

use super::history::SenderHistory;
use crate::bayes::LessonPosition;

/// The store failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the senders' averages cannot be kept: {0}")]
pub struct ReputationStoreError(pub String);

/// Changes that are stored together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReputationChanges {
    /// All earlier entries are removed first.
    pub is_replaced: bool,
    /// Entries by their keys; `None` removes one.
    pub entries: Vec<(Vec<u8>, Option<SenderHistory>)>,
    /// The position up to which the entries have the lessons of a cluster, if it has changed.
    pub position: Option<LessonPosition>,
}

/// Stores the averages.
pub trait ReputationStore: Send + Sync {
    /// Passes every entry to `visit`; returns the position in the lessons of a cluster.
    fn load(
        &self,
        visit: &mut dyn FnMut(Vec<u8>, SenderHistory),
    ) -> Result<Option<LessonPosition>, ReputationStoreError>;

    /// Accepts changes to store. It may return before they are durable. Those of earlier calls that
    /// could not be stored are tried again, also if there are no new ones.
    fn write(&self, changes: ReputationChanges) -> Result<(), ReputationStoreError>;
}

/// A store that discards everything: averages last as long as the process.
#[derive(Debug, Default, Clone, Copy)]
pub struct NoReputationStore;

impl ReputationStore for NoReputationStore {
    fn load(
        &self,
        _visit: &mut dyn FnMut(Vec<u8>, SenderHistory),
    ) -> Result<Option<LessonPosition>, ReputationStoreError> {
        Ok(None)
    }

    fn write(&self, _changes: ReputationChanges) -> Result<(), ReputationStoreError> {
        Ok(())
    }
}
