//! The entries of some names.

use std::collections::BTreeMap;

use super::history::SenderHistory;

/// The share of entries that is removed at once when a shard is full.
const DROPPED_SHARE: usize = 8;

/// The entries of some names, sorted, so that those of one name are adjacent.
#[derive(Default)]
pub(super) struct ReputationShard {
    pub(super) entries: BTreeMap<Vec<u8>, SenderHistory>,
    /// Changes that are not yet stored; `None` removes an entry.
    pub(super) changed: BTreeMap<Vec<u8>, Option<SenderHistory>>,
    entries_max: usize,
}

impl ReputationShard {
    pub(super) fn new(entries_max: usize) -> Self {
        Self {
            entries_max,
            ..Self::default()
        }
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<SenderHistory> {
        self.entries.get(key).copied()
    }

    pub(super) fn set(&mut self, key: Vec<u8>, entry: SenderHistory) {
        self.changed.insert(key.clone(), Some(entry));
        self.put(key, entry);
    }

    /// Changes an entry, which is empty if it was not there.
    pub(super) fn update(&mut self, key: &[u8], change: impl FnOnce(&mut SenderHistory)) {
        let mut entry = self.get(key).unwrap_or_default();
        change(&mut entry);
        self.set(key.to_vec(), entry);
    }

    /// Adds an entry that is stored already.
    pub(super) fn put(&mut self, key: Vec<u8>, entry: SenderHistory) {
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
