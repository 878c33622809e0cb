//! The table of averages by sender, in memory and written to a store; AWL and TxRep share it.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::{Mutex, MutexGuard};

/// The most entries in memory; beyond this, the oldest are removed.
pub const REPUTATION_ENTRIES_MAX: usize = 1_000_000;

/// The number of locks over which names are distributed, so that scans seldom wait for one another.
const SHARDS: usize = 16;
/// The share of entries that is removed at once when a shard is full.
const DROPPED_SHARE: usize = 8;

/// The messages of one sender.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SenderHistory {
    /// The number of messages.
    pub count: u32,
    /// The sum of their scores.
    pub total: f64,
    /// The time of the last message, in seconds since 1970.
    pub time: u32,
}

impl SenderHistory {
    /// The average score; `None` if there was no message.
    pub fn mean(self) -> Option<f64> {
        (self.count > 0).then(|| self.total / f64::from(self.count))
    }

    /// Adds a message.
    pub(super) fn add(&mut self, score: f64) {
        if score.is_finite() {
            self.count = self.count.saturating_add(1);
            self.total += score;
            self.time = now_seconds();
        }
    }

    /// The entry as bytes.
    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&self.count.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.time.to_be_bytes());
        bytes[8..].copy_from_slice(&self.total.to_be_bytes());
        bytes
    }

    /// The entry that [`SenderHistory::to_bytes`] wrote; `None` if the bytes are malformed.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (count, rest) = bytes.split_first_chunk::<4>()?;
        let (time, rest) = rest.split_first_chunk::<4>()?;
        let total = f64::from_be_bytes(rest.try_into().ok()?);
        total.is_finite().then_some(Self {
            count: u32::from_be_bytes(*count),
            total,
            time: u32::from_be_bytes(*time),
        })
    }
}

/// The store failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the senders' averages cannot be kept: {0}")]
pub struct ReputationStoreError(pub String);

/// Stores the averages.
pub trait ReputationStore: Send + Sync {
    /// Passes every entry to `visit`.
    fn load(
        &self,
        visit: &mut dyn FnMut(Vec<u8>, SenderHistory),
    ) -> Result<(), ReputationStoreError>;

    /// Accepts entries to store; `None` removes one. It may return before they are durable. Those
    /// of earlier calls that could not be stored are tried again, also if there are no entries.
    fn write(
        &self,
        entries: Vec<(Vec<u8>, Option<SenderHistory>)>,
    ) -> Result<(), ReputationStoreError>;
}

/// A store that discards everything: averages last as long as the process.
#[derive(Debug, Default, Clone, Copy)]
pub struct NoReputationStore;

impl ReputationStore for NoReputationStore {
    fn load(
        &self,
        _visit: &mut dyn FnMut(Vec<u8>, SenderHistory),
    ) -> Result<(), ReputationStoreError> {
        Ok(())
    }

    fn write(
        &self,
        _entries: Vec<(Vec<u8>, Option<SenderHistory>)>,
    ) -> Result<(), ReputationStoreError> {
        Ok(())
    }
}

/// The averages of all senders, shared by all threads through an `Arc`.
pub struct ReputationTable {
    shards: Vec<Mutex<ReputationShard>>,
    spread: RandomState,
    store: Arc<dyn ReputationStore>,
    /// Held while changes are passed to the store, so that a later change of an entry follows the
    /// earlier one.
    keeping: Mutex<()>,
    entries_max: usize,
}

/// The entries of some names, sorted, so that those of one name are adjacent.
#[derive(Default)]
pub(super) struct ReputationShard {
    entries: BTreeMap<Vec<u8>, SenderHistory>,
    /// Changes that are not yet stored; `None` removes an entry.
    changed: BTreeMap<Vec<u8>, Option<SenderHistory>>,
    entries_max: usize,
}

impl ReputationTable {
    /// Loads the contents of `store`.
    pub fn open(
        store: Arc<dyn ReputationStore>,
        entries_max: usize,
    ) -> Result<Self, ReputationStoreError> {
        let table = Self::with_store(store.clone(), entries_max);
        store.load(&mut |key, entry| {
            let mut shard = table.shard(&key);
            shard.put(key, entry, false);
        })?;
        Ok(table)
    }

    /// Empty averages without a store.
    pub fn in_memory() -> Self {
        Self::with_store(Arc::new(NoReputationStore), REPUTATION_ENTRIES_MAX)
    }

    fn with_store(store: Arc<dyn ReputationStore>, entries_max: usize) -> Self {
        let entries_per_shard = (entries_max / SHARDS).max(1);
        let shard = || {
            Mutex::new(ReputationShard {
                entries_max: entries_per_shard,
                ..ReputationShard::default()
            })
        };
        Self {
            shards: std::iter::repeat_with(shard).take(SHARDS).collect(),
            spread: RandomState::new(),
            store,
            keeping: Mutex::default(),
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
        let key = super::key::key(name, network);
        self.shard(&key).get(&key)
    }

    /// Sets the average of an address for all networks; its previous averages are dropped.
    pub fn set_sender(&self, name: &str, points: f64) {
        let key = super::key::key(name, None);
        let mut shard = self.shard(&key);
        shard.remove_all(&super::key::prefix(name));
        let mut entry = SenderHistory::default();
        entry.add(points);
        shard.set(key, entry);
    }

    /// Drops all averages of an address; false if there was none.
    pub fn forget_sender(&self, name: &str) -> bool {
        let prefix = super::key::prefix(name);
        let mut shard = self.shard(&prefix);
        let before = shard.entries.len();
        shard.remove_all(&prefix);
        shard.entries.len() < before
    }

    /// Passes the changes since the last call to the store. Changes that could not be written are
    /// written again by the next call.
    pub fn keep(&self) -> Result<(), ReputationStoreError> {
        let _keeping = self.keeping.lock();
        let mut is_written = false;
        for shard in &self.shards {
            let changed = std::mem::take(&mut shard.lock().changed);
            if changed.is_empty() {
                continue;
            }
            if let Err(error) = self.store.write(changed.clone().into_iter().collect()) {
                let mut shard = shard.lock();
                for (key, entry) in changed {
                    shard.changed.entry(key).or_insert(entry);
                }
                return Err(error);
            }
            is_written = true;
        }
        if is_written {
            return Ok(());
        }
        self.store.write(Vec::new())
    }
}

impl ReputationShard {
    pub(super) fn get(&self, key: &[u8]) -> Option<SenderHistory> {
        self.entries.get(key).copied()
    }

    pub(super) fn set(&mut self, key: Vec<u8>, entry: SenderHistory) {
        self.put(key, entry, true);
    }

    fn put(&mut self, key: Vec<u8>, entry: SenderHistory, changed: bool) {
        if changed {
            self.changed.insert(key.clone(), Some(entry));
        }
        self.entries.insert(key, entry);
        if self.entries.len() > self.entries_max {
            self.drop_oldest();
        }
    }

    pub(super) fn remove(&mut self, key: &[u8]) {
        if self.entries.remove(key).is_some() {
            self.changed.insert(key.to_vec(), None);
        }
    }

    /// Removes all entries whose key has this prefix.
    pub(super) fn remove_all(&mut self, prefix: &[u8]) {
        let keys: Vec<Vec<u8>> = self
            .entries
            .range(prefix.to_vec()..)
            .map(|(key, _)| key)
            .take_while(|key| key.starts_with(prefix))
            .cloned()
            .collect();
        for key in keys {
            self.remove(&key);
        }
    }

    fn drop_oldest(&mut self) {
        let mut by_age: Vec<(u32, Vec<u8>)> = self
            .entries
            .iter()
            .map(|(key, entry)| (entry.time, key.clone()))
            .collect();
        by_age.sort_unstable();
        for (_, key) in by_age
            .into_iter()
            .take(self.entries_max.div_ceil(DROPPED_SHARE))
        {
            self.remove(&key);
        }
    }
}

fn now_seconds() -> u32 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            u32::try_from(since.as_secs()).unwrap_or(u32::MAX)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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

    proptest! {
        #[test]
        fn an_entry_comes_back_from_its_bytes(count: u32, time: u32, total in -1e9f64..1e9) {
            let entry = SenderHistory { count, total, time };
            prop_assert_eq!(SenderHistory::from_bytes(&entry.to_bytes()), Some(entry));
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes: Vec<u8>) {
            let _ = SenderHistory::from_bytes(&bytes);
        }
    }
}
