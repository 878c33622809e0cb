//! The table of averages by sender, in memory and written to a store; AWL and TxRep share it.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use super::history::SenderHistory;
use super::shard::ReputationShard;
use super::store::{NoReputationStore, ReputationChanges, ReputationStore, ReputationStoreError};
use crate::bayes::LessonPosition;

/// The most entries in memory; beyond this, the oldest are removed.
pub const REPUTATION_ENTRIES_MAX: usize = 1_000_000;

/// The number of locks over which names are distributed, so that scans seldom wait for one another.
const SHARDS: usize = 16;

/// The averages of all senders, shared by all threads through an `Arc`.
pub struct ReputationTable {
    pub(super) shards: Vec<Mutex<ReputationShard>>,
    spread: RandomState,
    store: Arc<dyn ReputationStore>,
    /// Held while changes are passed to the store, so that a later change of an entry follows the
    /// earlier one, and while lessons of a cluster are carried out.
    progress: Mutex<TableProgress>,
    entries_max: usize,
}

/// The progress of a table in the lessons of a cluster.
#[derive(Debug, Default)]
pub(super) struct TableProgress {
    pub(super) position: Option<LessonPosition>,
    /// The store does not have the position yet.
    pub(super) has_moved: bool,
    /// The store has entries that were replaced.
    pub(super) is_replaced: bool,
}

impl TableProgress {
    pub(super) fn move_to(&mut self, position: LessonPosition) {
        self.position = Some(position);
        self.has_moved = true;
    }
}

impl ReputationTable {
    /// Loads the contents of `store`.
    pub fn open(
        store: Arc<dyn ReputationStore>,
        entries_max: usize,
    ) -> Result<Self, ReputationStoreError> {
        let table = Self::with_store(store.clone(), entries_max);
        let position = store.load(&mut |key, entry| {
            let mut shard = table.shard(&key);
            shard.put(key, entry);
        })?;
        table.progress.lock().position = position;
        Ok(table)
    }

    /// Empty averages without a store.
    pub fn in_memory() -> Self {
        Self::with_store(Arc::new(NoReputationStore), REPUTATION_ENTRIES_MAX)
    }

    pub(super) fn with_store(store: Arc<dyn ReputationStore>, entries_max: usize) -> Self {
        let entries_per_shard = (entries_max / SHARDS).max(1);
        let shard = || Mutex::new(ReputationShard::new(entries_per_shard));
        Self {
            shards: std::iter::repeat_with(shard).take(SHARDS).collect(),
            spread: RandomState::new(),
            store,
            progress: Mutex::default(),
            entries_max: entries_per_shard * SHARDS,
        }
    }

    /// The shard of a key's name.
    pub(super) fn shard(&self, key: &[u8]) -> MutexGuard<'_, ReputationShard> {
        let name = key.split(|byte| *byte == b'|').next().unwrap_or_default();
        let index = self.spread.hash_one(name) as usize % SHARDS;
        match self.shards.get(index) {
            Some(shard) => shard.lock(),
            None => unreachable!("an index below the number of shards"),
        }
    }

    /// The history of a key; `None` if there is none.
    pub(super) fn history(&self, key: &[u8]) -> Option<SenderHistory> {
        self.shard(key).get(key)
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.shards
            .iter()
            .map(|shard| shard.lock().entries.len())
            .sum()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The limit on the number of entries.
    pub fn entries_max(&self) -> usize {
        self.entries_max
    }

    /// The average of a sender: the address, and the network as written in keys (`192.0`).
    pub fn entry(&self, name: &str, network: Option<&str>) -> Option<SenderHistory> {
        self.history(&super::key::key(name, network))
    }

    /// The position up to which the table has the lessons of its cluster; `None` if it never was
    /// that of one.
    pub fn position(&self) -> Option<LessonPosition> {
        self.progress.lock().position
    }

    pub(super) fn progress(&self) -> MutexGuard<'_, TableProgress> {
        self.progress.lock()
    }

    /// Passes the changes since the last call to the store. Changes that could not be written are
    /// written again by the next call.
    pub fn keep(&self) -> Result<(), ReputationStoreError> {
        self.write(&mut self.progress.lock())
    }

    /// The same while the progress is locked: all changes together, and the position with them.
    pub(super) fn write(&self, progress: &mut TableProgress) -> Result<(), ReputationStoreError> {
        let take = |shard: &Mutex<ReputationShard>| std::mem::take(&mut shard.lock().changed);
        let changed: Vec<_> = self.shards.iter().map(take).collect();
        let entries = changed.iter().flatten();
        let written = self.store.write(ReputationChanges {
            is_replaced: progress.is_replaced,
            entries: entries.map(|(key, entry)| (key.clone(), *entry)).collect(),
            position: progress.position.filter(|_| progress.has_moved),
        });
        if written.is_ok() {
            (progress.is_replaced, progress.has_moved) = (false, false);
            return written;
        }
        for (shard, changed) in self.shards.iter().zip(changed) {
            let mut shard = shard.lock();
            for (key, entry) in changed {
                shard.changed.entry(key).or_insert(entry);
            }
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(time: u32) -> SenderHistory {
        SenderHistory {
            count: 1,
            total: 2.5,
            time,
        }
    }

    #[test]
    fn the_book_is_bounded_and_drops_the_oldest() {
        let table = ReputationTable::with_store(Arc::new(NoReputationStore), 160);
        for number in 0..1000u32 {
            let key = format!("user{number}@example.org|ip=none").into_bytes();
            table.shard(&key).set(key.clone(), entry(number));
        }
        assert!(table.len() <= table.entries_max());
        assert!(table.entry("user999@example.org", None).is_some());
        assert!(table.entry("user0@example.org", None).is_none());
    }

    #[test]
    fn entries_of_a_name_go_together() {
        let table = ReputationTable::in_memory();
        for key in ["a@x|ip=1.2", "a@x|ip=none", "ab@x|ip=none"] {
            table.shard(key.as_bytes()).set(key.into(), entry(1));
        }
        table.shard(b"a@x|").remove_all(b"a@x|");
        assert_eq!(table.len(), 1);
    }
}
