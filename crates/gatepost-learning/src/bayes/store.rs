//! Where what was learned is kept: a trait, so that this crate needs no database.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::record::{Record, Row};

/// The keeper has failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("what was learned cannot be kept: {0}")]
pub struct TokenStoreError(pub String);

/// Keeps what was learned.
///
/// [`Bayes`](super::Bayes) reads everything once at its start and holds it in memory; afterwards it
/// only writes. Each [`TokenStore::write`] takes the facts of one moment: they are to be kept all
/// or not at all.
pub trait TokenStore: Send + Sync {
    /// Hands everything that is kept to `visit`, in any order.
    fn load(&self, visit: &mut dyn FnMut(Record)) -> Result<(), TokenStoreError>;

    /// Takes facts to keep. Need not wait until they are safe.
    fn write(&self, records: Vec<Record>) -> Result<(), TokenStoreError>;

    /// Waits until all that was written before is safe.
    fn settle(&self) -> Result<(), TokenStoreError>;
}

/// A keeper in memory, for tests and trials.
#[derive(Debug, Default)]
pub struct MemoryStore {
    rows: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
}

impl TokenStore for MemoryStore {
    fn load(&self, visit: &mut dyn FnMut(Record)) -> Result<(), TokenStoreError> {
        let rows = self.rows.lock().clone();
        rows.iter()
            .filter_map(|(key, value)| Record::from_row(key, value))
            .for_each(visit);
        Ok(())
    }

    fn write(&self, records: Vec<Record>) -> Result<(), TokenStoreError> {
        let mut rows = self.rows.lock();
        for record in records {
            match record.to_row() {
                Row::Put(key, value) => drop(rows.insert(key, value)),
                Row::Delete(key) => drop(rows.remove(&key)),
                Row::DeleteAll => rows.clear(),
            }
        }
        Ok(())
    }

    fn settle(&self) -> Result<(), TokenStoreError> {
        Ok(())
    }
}

/// A keeper that keeps nothing: what is learned lasts as long as the process.
#[derive(Debug, Default, Clone, Copy)]
pub struct NoStore;

impl TokenStore for NoStore {
    fn load(&self, _visit: &mut dyn FnMut(Record)) -> Result<(), TokenStoreError> {
        Ok(())
    }

    fn write(&self, _records: Vec<Record>) -> Result<(), TokenStoreError> {
        Ok(())
    }

    fn settle(&self) -> Result<(), TokenStoreError> {
        Ok(())
    }
}
