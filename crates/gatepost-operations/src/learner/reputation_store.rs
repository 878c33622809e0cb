//! Stores the senders' averages as records of the database.

use gatepost_learning::reputation::{ReputationStore, ReputationStoreError, SenderHistory};
use gatepost_store::{Store, StoreChange, StoreError};

use super::record_writer::RecordWriter;

/// The space of the database's records.
const SPACE: &str = "senders";

/// The senders' averages in the database.
pub(super) struct StoredBook(RecordWriter);

impl StoredBook {
    pub(super) fn new(store: Store) -> Self {
        Self(RecordWriter::new(store, SPACE))
    }
}

impl ReputationStore for StoredBook {
    fn load(
        &self,
        visit: &mut dyn FnMut(Vec<u8>, SenderHistory),
    ) -> Result<(), ReputationStoreError> {
        let read = self.0.store().each_record(SPACE, b"", |key, value| {
            if let Some(entry) = SenderHistory::from_bytes(&value) {
                visit(key.to_vec(), entry);
            }
        });
        read.map_err(failed)
    }

    fn write(
        &self,
        entries: Vec<(Vec<u8>, Option<SenderHistory>)>,
    ) -> Result<(), ReputationStoreError> {
        let changes = entries.into_iter().map(|(key, entry)| match entry {
            Some(entry) => StoreChange::PutRecord {
                space: SPACE,
                key: key.into(),
                value: entry.to_bytes().to_vec().into(),
            },
            None => StoreChange::DeleteRecord {
                space: SPACE,
                key: key.into(),
            },
        });
        self.0.write(changes.collect()).map_err(failed)
    }
}

fn failed(error: StoreError) -> ReputationStoreError {
    ReputationStoreError(error.to_string())
}
