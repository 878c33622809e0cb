//! Storage of learned data: a trait, so that this crate needs no database.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::record::{LearnedRecord, RecordChange};

/// The store failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("what was learned cannot be kept: {0}")]
pub struct TokenStoreError(pub String);

/// Stores learned data.
///
/// [`Bayes`](super::Bayes) reads everything once at startup and keeps it in memory; afterwards it
/// only writes. The records of one [`TokenStore::write`] are stored all or not at all.
pub trait TokenStore: Send + Sync {
    /// Passes every stored record to `visit`, in any order.
    fn load(&self, visit: &mut dyn FnMut(LearnedRecord)) -> Result<(), TokenStoreError>;

    /// Accepts records to store. It may return before they are durable. Those of earlier calls that
    /// could not be stored are tried again.
    fn write(&self, records: Vec<LearnedRecord>) -> Result<(), TokenStoreError>;

    /// Waits until all earlier writes are durable; those that could not be stored are tried again.
    fn settle(&self) -> Result<(), TokenStoreError>;
}

/// A store in memory, for tests.
#[derive(Debug, Default)]
pub struct MemoryStore {
    rows: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
}

impl TokenStore for MemoryStore {
    fn load(&self, visit: &mut dyn FnMut(LearnedRecord)) -> Result<(), TokenStoreError> {
        let rows = self.rows.lock().clone();
        rows.iter()
            .filter_map(|(key, value)| LearnedRecord::from_row(key, value))
            .for_each(visit);
        Ok(())
    }

    fn write(&self, records: Vec<LearnedRecord>) -> Result<(), TokenStoreError> {
        let mut rows = self.rows.lock();
        for record in records {
            match record.to_row() {
                RecordChange::Put(key, value) => drop(rows.insert(key, value)),
                RecordChange::Delete(key) => drop(rows.remove(&key)),
                RecordChange::DeleteAll => rows.clear(),
            }
        }
        Ok(())
    }

    fn settle(&self) -> Result<(), TokenStoreError> {
        Ok(())
    }
}

/// A store that discards everything: learned data lasts as long as the process.
#[derive(Debug, Default, Clone, Copy)]
pub struct NoStore;

impl TokenStore for NoStore {
    fn load(&self, _visit: &mut dyn FnMut(LearnedRecord)) -> Result<(), TokenStoreError> {
        Ok(())
    }

    fn write(&self, _records: Vec<LearnedRecord>) -> Result<(), TokenStoreError> {
        Ok(())
    }

    fn settle(&self) -> Result<(), TokenStoreError> {
        Ok(())
    }
}
