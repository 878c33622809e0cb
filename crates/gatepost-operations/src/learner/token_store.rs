//! Stores the Bayes tokens as records of the database.

use bytes::Bytes;
use gatepost_learning::bayes::{LearnedRecord, RecordChange, TokenStore, TokenStoreError};
use gatepost_store::{Store, StoreChange, StoreError};

use super::record_writer::RecordWriter;

/// The space of the database's records.
pub(super) const SPACE: &str = "bayes";

/// The Bayes records in the database.
pub(super) struct StoredTokens(RecordWriter);

impl StoredTokens {
    pub(super) fn new(store: Store) -> Self {
        Self(RecordWriter::new(store, SPACE))
    }
}

impl TokenStore for StoredTokens {
    fn load(&self, visit: &mut dyn FnMut(LearnedRecord)) -> Result<(), TokenStoreError> {
        let read = self.0.store().each_record(SPACE, b"", |key, value| {
            if let Some(record) = LearnedRecord::from_row(&key, &value) {
                visit(record);
            }
        });
        read.map_err(failed)
    }

    fn write(&self, records: Vec<LearnedRecord>) -> Result<(), TokenStoreError> {
        let changes = records.iter().map(|record| change(record.to_row()));
        self.0.write(changes.collect()).map_err(failed)
    }

    fn settle(&self) -> Result<(), TokenStoreError> {
        self.0.settle().map_err(failed)
    }
}

fn change(row: RecordChange) -> StoreChange {
    match row {
        RecordChange::Put(key, value) => StoreChange::PutRecord {
            space: SPACE,
            key: key.into(),
            value: value.into(),
        },
        RecordChange::Delete(key) => StoreChange::DeleteRecord {
            space: SPACE,
            key: key.into(),
        },
        RecordChange::DeleteAll => StoreChange::DeleteRecords {
            space: SPACE,
            prefix: Bytes::new(),
        },
    }
}

fn failed(error: StoreError) -> TokenStoreError {
    TokenStoreError(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gatepost_learning::bayes::{Bayes, BayesLimits};

    use super::*;

    #[test]
    fn learned_data_survives_a_restart() {
        let folder = tempfile::tempdir().expect("makes a folder");
        let open = || {
            let (store, _) = Store::open(folder.path(), &gatepost_store::StoreSettings::default())
                .expect("opens");
            let tokens = Arc::new(StoredTokens::new(store.clone()));
            let bayes = Bayes::open(tokens, BayesLimits::default()).expect("loads");
            (store, bayes)
        };
        let backup = "v 3 db_version\nv 2 num_spam\nv 1 num_nonspam\n\
            t\t2\t0\t996978185\t03541effbc\ns\th\tid@sa_generated\n";
        let (store, bayes) = open();
        bayes.import(backup.as_bytes()).expect("imports");
        store.close();
        drop((store, bayes));
        let (_store, bayes) = open();
        let statistics = bayes.statistics();
        assert_eq!((statistics.totals.spam, statistics.totals.ham), (2, 1));
        assert_eq!((statistics.tokens, statistics.messages), (1, 1));
        let mut text = Vec::new();
        bayes.export(&mut text).expect("exports");
        let text = String::from_utf8(text).expect("is text");
        assert!(text.contains("t\t2\t0\t996978185\t03541effbc\ns\th\tid@sa_generated\n"));
    }
}
