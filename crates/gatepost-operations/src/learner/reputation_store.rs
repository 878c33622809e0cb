//! Stores the senders' averages as records of the database.

use bytes::Bytes;
use gatepost_learning::bayes::LessonPosition;
use gatepost_learning::reputation::{
    ReputationChanges, ReputationStore, ReputationStoreError, SenderHistory,
};
use gatepost_store::{Store, StoreChange, StoreError};

use super::record_writer::RecordWriter;

/// The space of the database's records.
const SPACE: &str = "senders";
/// The key of the position in the lessons of a cluster: no key of a sender, which contains `|ip=`.
/// Its value is a version, the stream and the sequence, which no earlier version takes for an
/// average.
const POSITION_KEY: &[u8] = b"position";
const POSITION_VERSION: u8 = 1;

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
    ) -> Result<Option<LessonPosition>, ReputationStoreError> {
        let mut position = None;
        let read = self.0.store().each_record(SPACE, b"", |key, value| {
            if &key[..] == POSITION_KEY {
                position = position_of(&value);
            } else if let Some(entry) = SenderHistory::from_bytes(&value) {
                visit(key.to_vec(), entry);
            }
        });
        read.map_err(failed)?;
        Ok(position)
    }

    fn write(&self, changes: ReputationChanges) -> Result<(), ReputationStoreError> {
        let cleared = changes.is_replaced.then(|| StoreChange::DeleteRecords {
            space: SPACE,
            prefix: Bytes::new(),
        });
        let entries = changes.entries.into_iter().map(|(key, entry)| match entry {
            Some(entry) => put(key, entry.to_bytes().to_vec()),
            None => StoreChange::DeleteRecord {
                space: SPACE,
                key: key.into(),
            },
        });
        let position = changes.position.map(position_record);
        let all = cleared.into_iter().chain(entries).chain(position);
        self.0.write(all.collect()).map_err(failed)
    }
}

/// The change by which a server leaves its cluster, if it is part of one. It keeps a position, of
/// no stream: its averages remain those of a cluster, and are not added when it joins again.
pub(super) fn leaving(store: &Store) -> Result<Option<StoreChange>, StoreError> {
    const OF_NO_STREAM: LessonPosition = LessonPosition {
        stream: 0,
        sequence: 0,
    };
    let position = store.record(SPACE, POSITION_KEY)?;
    let position = position.and_then(|value| position_of(&value));
    let is_of_cluster = position.is_some_and(|position| position != OF_NO_STREAM);
    Ok(is_of_cluster.then(|| position_record(OF_NO_STREAM)))
}

fn position_record(position: LessonPosition) -> StoreChange {
    let mut value = vec![POSITION_VERSION];
    value.extend_from_slice(&position.stream.to_be_bytes());
    value.extend_from_slice(&position.sequence.to_be_bytes());
    put(POSITION_KEY.to_vec(), value)
}

fn put(key: Vec<u8>, value: Vec<u8>) -> StoreChange {
    StoreChange::PutRecord {
        space: SPACE,
        key: key.into(),
        value: value.into(),
    }
}

fn position_of(value: &[u8]) -> Option<LessonPosition> {
    let (&POSITION_VERSION, rest) = value.split_first()? else {
        return None;
    };
    let (stream, sequence) = rest.split_first_chunk()?;
    Some(LessonPosition {
        stream: u64::from_be_bytes(*stream),
        sequence: u64::from_be_bytes(sequence.try_into().ok()?),
    })
}

fn failed(error: StoreError) -> ReputationStoreError {
    ReputationStoreError(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gatepost_learning::reputation::{ReputationTable, SenderChange, SenderLesson};

    use super::*;

    #[test]
    fn averages_and_their_position_survive_a_restart() {
        let folder = tempfile::tempdir().expect("makes a folder");
        let open = || {
            let settings = gatepost_store::StoreSettings::default();
            let (store, _) = Store::open(folder.path(), &settings).expect("opens");
            let book = Arc::new(StoredBook::new(store.clone()));
            let table = ReputationTable::open(book, 1_000).expect("loads");
            (store, table)
        };
        let lesson = |name, points| SenderLesson {
            number: 1,
            time: 2,
            changes: vec![SenderChange::of_person(name, Some(points))],
        };
        let at = |sequence| LessonPosition {
            stream: 9,
            sequence,
        };
        let (store, table) = open();
        assert_eq!(table.position(), None);
        let lessons = [lesson("a@example.org", 3.0), lesson("b@example.org", 4.0)];
        table.apply(&lessons, at(2)).expect("passed on");
        store.close();
        drop((store, table));
        let (store, table) = open();
        assert_eq!((table.position(), table.len()), (Some(at(2)), 2));
        let entry = table.entry("a@example.org", None).expect("known");
        assert_eq!((entry.mean(), entry.time), (Some(3.0), 2));
        let (snapshot, _) = ReputationTable::in_memory().export();
        table.replace(&snapshot, at(5)).expect("passed on");
        store.close();
        drop((store, table));
        let (_store, table) = open();
        assert_eq!((table.position(), table.len()), (Some(at(5)), 0));
    }
}
