//! All averages as bytes, for a server that joins a cluster.
//!
//! A snapshot is a version, then entries: the key after its length in two bytes, and the history in
//! 16 bytes.
//!
//! The averages of different servers can be added: each message was counted by the server that had
//! received it. So a server that joins a cluster for the first time adds its own to those of the
//! cluster.

use super::history::SenderHistory;
use super::lesson::{SenderChange, append_name, name, take};
use super::store::ReputationStoreError;
use super::table::ReputationTable;
use crate::bayes::LessonPosition;

/// The version of the encoding.
const VERSION: u8 = 1;
/// The reason why averages are not replaced by those of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SenderBackupError {
    /// A later version has written the snapshot.
    #[error("the version {0} of a snapshot of senders is not known")]
    Version(u8),
    /// No version writes it.
    #[error("a snapshot of senders is malformed")]
    Malformed,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] ReputationStoreError),
}

impl ReputationTable {
    /// All entries as a snapshot, and the position up to which they have the lessons of a cluster.
    pub fn export(&self) -> (Vec<u8>, Option<LessonPosition>) {
        let progress = self.progress();
        let mut bytes = vec![VERSION];
        for shard in &self.shards {
            for (key, entry) in &shard.lock().entries {
                append_name(key, &mut bytes);
                bytes.extend_from_slice(&entry.to_bytes());
            }
        }
        (bytes, progress.position)
    }

    /// Replaces all entries by those of a snapshot. Returns the changes that add the earlier ones
    /// to those of the cluster, if this table never was that of one.
    pub fn replace(
        &self,
        snapshot: &[u8],
        position: LessonPosition,
    ) -> Result<Vec<SenderChange>, SenderBackupError> {
        let entries = entries_of(snapshot)?;
        let mut progress = self.progress();
        let is_of_cluster = progress.position.is_some();
        let mut earlier = Vec::new();
        for shard in &self.shards {
            let mut shard = shard.lock();
            shard.changed.clear();
            let entries = std::mem::take(&mut shard.entries);
            if !is_of_cluster {
                let add = |(key, entry): (_, SenderHistory)| {
                    SenderChange::Add(key, entry.count, entry.total)
                };
                earlier.extend(entries.into_iter().map(add));
            }
        }
        for (key, entry) in entries {
            self.shard(&key).set(key.clone(), entry);
        }
        progress.is_replaced = true;
        progress.move_to(position);
        self.write(&mut progress)?;
        Ok(earlier)
    }
}

fn entries_of(snapshot: &[u8]) -> Result<Vec<(Vec<u8>, SenderHistory)>, SenderBackupError> {
    let mut rest = match snapshot.split_first() {
        Some((&VERSION, rest)) => rest,
        Some((&other, _)) => return Err(SenderBackupError::Version(other)),
        None => return Err(SenderBackupError::Malformed),
    };
    let mut entries = Vec::new();
    while !rest.is_empty() {
        let mut entry = || {
            let key = name(&mut rest)?;
            let history: [u8; 16] = take(&mut rest)?;
            Some((key, SenderHistory::from_bytes(&history)?))
        };
        entries.push(entry().ok_or(SenderBackupError::Malformed)?);
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;
    use proptest::prelude::*;

    use super::super::lesson::tests::change;
    use super::super::store::{ReputationChanges, ReputationStore};
    use super::super::{REPUTATION_ENTRIES_MAX, SenderLesson};
    use super::*;

    /// A store in memory.
    #[derive(Default)]
    struct MemoryBook(Mutex<Stored>);

    type Stored = (
        std::collections::BTreeMap<Vec<u8>, SenderHistory>,
        Option<LessonPosition>,
    );

    impl ReputationStore for MemoryBook {
        fn load(
            &self,
            visit: &mut dyn FnMut(Vec<u8>, SenderHistory),
        ) -> Result<Option<LessonPosition>, ReputationStoreError> {
            let stored = self.0.lock();
            for (key, entry) in &stored.0 {
                visit(key.clone(), *entry);
            }
            Ok(stored.1)
        }

        fn write(&self, changes: ReputationChanges) -> Result<(), ReputationStoreError> {
            let mut stored = self.0.lock();
            if changes.is_replaced {
                stored.0.clear();
            }
            for (key, entry) in changes.entries {
                match entry {
                    Some(entry) => stored.0.insert(key, entry),
                    None => stored.0.remove(&key),
                };
            }
            stored.1 = changes.position.or(stored.1);
            Ok(())
        }
    }

    fn open(store: &Arc<MemoryBook>) -> ReputationTable {
        ReputationTable::open(store.clone(), REPUTATION_ENTRIES_MAX).expect("read")
    }

    fn content(table: &ReputationTable) -> Vec<(Vec<u8>, SenderHistory)> {
        let mut entries = entries_of(&table.export().0).expect("a snapshot");
        entries.sort_by(|(one, _), (other, _)| one.cmp(other));
        entries
    }

    fn at(sequence: usize) -> LessonPosition {
        LessonPosition {
            stream: 7,
            sequence: sequence as u64,
        }
    }

    proptest! {
        #[test]
        fn all_nodes_have_the_averages_of_one_server(
            changes in proptest::collection::vec(change(), 0..24),
            place: usize,
        ) {
            let lessons: Vec<SenderLesson> = (1_u32..)
                .zip(changes.chunks(2))
                .map(|(time, changes)| SenderLesson { number: 0, time, changes: changes.to_vec() })
                .collect();
            let one = ReputationTable::in_memory();
            for lesson in &lessons {
                one.carry_out(&lesson.changes, lesson.time);
            }
            let place = place.checked_rem(lessons.len()).unwrap_or(0);
            let (first, rest) = lessons.split_at(place);
            // A node that is restarted continues after its position.
            let store = Arc::new(MemoryBook::default());
            open(&store).apply(first, at(place)).expect("stored");
            let restarted = open(&store);
            prop_assert_eq!(restarted.position(), Some(at(place)));
            restarted.apply(rest, at(lessons.len())).expect("stored");
            // A node that is new takes the averages of another one.
            let other = ReputationTable::in_memory();
            other.apply(first, at(place)).expect("stored");
            let (snapshot, position) = other.export();
            let store = Arc::new(MemoryBook::default());
            let earlier = open(&store).replace(&snapshot, position.expect("of a cluster"));
            prop_assert_eq!(earlier.expect("stored"), []);
            let new = open(&store);
            new.apply(rest, at(lessons.len())).expect("stored");
            prop_assert_eq!(content(&restarted), content(&one));
            prop_assert_eq!(content(&new), content(&one));
        }

        #[test]
        fn any_bytes_are_no_snapshot_or_one(mut bytes: Vec<u8>) {
            let _ = entries_of(&bytes);
            bytes.insert(0, VERSION);
            let _ = entries_of(&bytes);
        }
    }

    #[test]
    fn a_server_adds_its_averages_when_it_joins_for_the_first_time_only() {
        let add = |count, total| SenderChange::Add(b"a@x|ip=none".to_vec(), count, total);
        let store = Arc::new(MemoryBook::default());
        let table = open(&store);
        table.carry_out(&[add(2, 6.0)], 1);
        table.keep().expect("stored");
        let cluster = ReputationTable::in_memory();
        cluster.carry_out(&[add(1, -3.0)], 2);
        let snapshot = cluster.export().0;
        let earlier = table.replace(&snapshot, at(4)).expect("stored");
        assert_eq!(earlier, [add(2, 6.0)]);
        assert_eq!(content(&table), content(&cluster));
        // A server that has left its cluster still has the averages of one.
        store.0.lock().1 = Some(LessonPosition {
            stream: 0,
            sequence: 0,
        });
        let table = open(&store);
        assert_eq!(table.replace(&snapshot, at(5)).expect("stored"), []);
        assert_eq!(
            table.replace(&[2], at(6)),
            Err(SenderBackupError::Version(2))
        );
        assert_eq!(
            table.replace(&[VERSION, 0], at(6)),
            Err(SenderBackupError::Malformed)
        );
        assert_eq!(table.position(), Some(at(5)));
    }
}
