//! Values that procedures store, such as a greylist's entries, counters and last states.
//!
//! All values are in memory and are written with a delay into the records of the database, so that
//! a judge reads and counts without waiting for the disk. A change is submitted as soon as it is
//! made, and commits keep the order of submission: a caller that later submits a change of its own
//! and waits for it knows that this change is on disk too.
//!
//! Invariants: an expired value is never returned; the number of values, the length of each and the
//! bytes of all are bounded; memory and database agree in order, since both change under one lock.
//! Values age by the store's time, so a clock that jumps far ahead expires none of them.

mod entry;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use gatepost_settings::ByteSize;
use parking_lot::Mutex;

use crate::{Store, StoreChange, StoreError};
pub use entry::StoredValue;
use entry::{ValueEntry, size};

/// The key space of values among the records.
const SPACE: &str = "value";
/// The longest key.
pub const VALUE_KEY_BYTES_MAX: usize = 1024;
/// The longest value.
pub const VALUE_BYTES_MAX: usize = 64 * 1024;
/// Expired values are removed once in this many changes.
const CHANGES_PER_SWEEP: u32 = 1024;
/// The time between two searches of all values for expired ones. All judges wait for a search, and
/// where values expire one by one, each new value would cause one.
const SEARCH_INTERVAL: Duration = Duration::from_secs(1);
/// Rows of expired values that one start removes.
const EXPIRED_ROWS_MAX: usize = 100_000;

/// The reason why a value was not stored.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ValueError {
    /// The maximum number of values is stored already, and none has expired.
    #[error("{0} values are stored, the maximum of procedures.values_max")]
    Full(usize),
    /// The maximum size is reached already, and none has expired.
    #[error("values of {0} are stored, the maximum of procedures.values_bytes_max")]
    FullBytes(ByteSize),
    /// The key or the value is too long.
    #[error("a key has at most {VALUE_KEY_BYTES_MAX} bytes, a value {VALUE_BYTES_MAX}")]
    TooLong,
    /// The space has the maximum number of values that its owner set, and none has expired.
    #[error("{0} values are stored, the maximum of this procedure")]
    FullSpace(usize),
    /// The stored value is not a number.
    #[error("the value is not a number")]
    NoNumber,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// All values. Cheap to clone; all clones share them.
#[derive(Clone)]
pub struct ValueStore(Arc<ValueStoreCore>);

struct ValueStoreCore {
    /// None for values that end with the process.
    store: Option<Store>,
    kept: Mutex<KeptValues>,
    limits: ValueLimits,
}

/// The limits on stored values.
#[derive(Debug, Clone, Copy)]
pub struct ValueLimits {
    /// The maximum number of values.
    pub count_max: usize,
    /// The maximum size of all keys and values together, with a small overhead for each.
    pub bytes_max: ByteSize,
}

struct KeptValues {
    by_key: HashMap<Box<[u8]>, ValueEntry>,
    /// The number of values of each space.
    by_space: HashMap<Box<[u8]>, usize>,
    /// The sum of [`size`] of all of them.
    bytes: u64,
    changes: u32,
    /// No value expires before this time. It may be too early, since values are replaced and
    /// removed, until the next removal of expired values.
    next_expiry_ms: u64,
    /// The last search for expired values.
    searched: Option<Instant>,
}

impl Default for KeptValues {
    fn default() -> Self {
        Self {
            by_key: HashMap::new(),
            by_space: HashMap::new(),
            bytes: 0,
            changes: 0,
            next_expiry_ms: u64::MAX,
            searched: None,
        }
    }
}

impl ValueStore {
    /// Opens the values of this database, with these `limits`, and removes the rows of expired
    /// ones.
    pub fn open(store: &Store, limits: ValueLimits) -> Result<Self, StoreError> {
        let mut expired = Vec::new();
        let kept = Self::read(store, |key| {
            if expired.len() < EXPIRED_ROWS_MAX {
                expired.push(delete(key));
            }
        })?;
        if let Err(error) = store.submit_deferred(expired) {
            tracing::warn!(target: "store", %error, "the next start removes expired values");
        }
        Ok(Self::over(Some(store.clone()), kept, limits))
    }

    /// A copy of the values of this database, for test runs: nothing is written back.
    pub fn copy_of(store: &Store, limits: ValueLimits) -> Result<Self, StoreError> {
        Ok(Self::over(None, Self::read(store, |_| {})?, limits))
    }

    /// An empty set of values that ends with the process.
    pub fn in_memory(limits: ValueLimits) -> Self {
        Self::over(None, KeptValues::default(), limits)
    }

    fn over(store: Option<Store>, kept: KeptValues, limits: ValueLimits) -> Self {
        Self(Arc::new(ValueStoreCore {
            store,
            kept: Mutex::new(kept),
            limits,
        }))
    }

    /// The values that have not expired; the keys of others are passed to `visit_expired`.
    fn read(store: &Store, mut visit_expired: impl FnMut(&[u8])) -> Result<KeptValues, StoreError> {
        let now = unix_ms(store.time_for_ages());
        let mut kept = KeptValues::default();
        store.each_record(SPACE, b"", |key, row| match ValueEntry::read(&row) {
            Some(entry) if entry.expires_ms > now => {
                kept.bytes += size(&key, &entry);
                kept.insert(key[..].into(), entry);
            }
            Some(_) => visit_expired(&key),
            // A row that no version of Gatepost wrote is skipped.
            None => {}
        })?;
        Ok(kept)
    }

    /// The time by which values expire: that of the store, which does not follow a clock that jumps
    /// far ahead.
    pub fn time(&self) -> SystemTime {
        let store = self.0.store.as_ref();
        store.map_or_else(SystemTime::now, Store::time_for_ages)
    }

    /// The time at which a value that is set now expires. A slow clock, as after a start
    /// in 1970, makes no value older than it is.
    fn expiry(&self, lifetime: Option<Duration>) -> u64 {
        let store = self.0.store.as_ref();
        lifetime.map_or(u64::MAX, |lifetime| {
            let now = store.map_or_else(SystemTime::now, Store::time_to_store);
            let lifetime_ms = u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX);
            unix_ms(now).saturating_add(lifetime_ms)
        })
    }

    /// The value of `key` in `space`, and the time for which it will be kept.
    pub fn get(&self, space: &str, key: &[u8]) -> Option<(StoredValue, Option<Duration>)> {
        let now = unix_ms(self.time());
        let kept = self.0.kept.lock();
        let entry = kept.by_key.get(&row_key(space, key))?;
        let left = (entry.expires_ms != u64::MAX)
            .then(|| Duration::from_millis(entry.expires_ms.saturating_sub(now)));
        (entry.expires_ms > now).then(|| (entry.value.clone(), left))
    }

    /// Sets a value, with or without an expiry.
    pub fn set(
        &self,
        space: &str,
        key: &[u8],
        value: StoredValue,
        lifetime: Option<Duration>,
    ) -> Result<(), ValueError> {
        self.set_within(space, key, value, lifetime, usize::MAX)
    }

    /// As [`ValueStore::set`], for a space of at most `count_max` values.
    pub fn set_within(
        &self,
        space: &str,
        key: &[u8],
        value: StoredValue,
        lifetime: Option<Duration>,
        count_max: usize,
    ) -> Result<(), ValueError> {
        let now = self.time();
        let entry = ValueEntry {
            value,
            expires_ms: self.expiry(lifetime),
        };
        let key = row_key(space, key);
        let mut kept = self.0.kept.lock();
        if !kept.by_key.contains_key(&key) && kept.count_in(space) >= count_max {
            self.make_room(&mut kept, unix_ms(now))?;
            if kept.count_in(space) >= count_max {
                return Err(ValueError::FullSpace(count_max));
            }
        }
        self.put(&mut kept, key, entry, now)
    }

    /// Adds to a number, which begins at 0; returns the sum. The lifetime applies to a new number:
    /// a counter counts from its first event on, not from its last.
    pub fn add(
        &self,
        space: &str,
        key: &[u8],
        amount: f64,
        lifetime: Option<Duration>,
    ) -> Result<f64, ValueError> {
        let now = self.time();
        let key = row_key(space, key);
        let mut kept = self.0.kept.lock();
        let present = kept.by_key.get(&key);
        let present = present.filter(|entry| entry.expires_ms > unix_ms(now));
        let (before, expires_ms) = match present {
            None => (0.0, self.expiry(lifetime)),
            Some(ValueEntry {
                value: StoredValue::Number(number),
                expires_ms,
            }) => (*number, *expires_ms),
            Some(_) => return Err(ValueError::NoNumber),
        };
        let entry = ValueEntry {
            value: StoredValue::Number(before + amount),
            expires_ms,
        };
        self.put(&mut kept, key, entry, now)?;
        Ok(before + amount)
    }

    /// Removes a value; returns whether there was one.
    pub fn remove(&self, space: &str, key: &[u8]) -> Result<bool, ValueError> {
        let key = row_key(space, key);
        let mut kept = self.0.kept.lock();
        if !kept.by_key.contains_key(&key) {
            return Ok(false);
        }
        self.submit([delete(&key)])?;
        let Some(removed) = kept.by_key.remove(&key) else {
            return Ok(false);
        };
        kept.leave_space(&key);
        kept.bytes -= size(&key, &removed);
        Ok(removed.expires_ms > unix_ms(self.time()))
    }

    /// The number of values, including expired ones that were not read since.
    pub fn count(&self) -> usize {
        self.0.kept.lock().by_key.len()
    }

    fn put(
        &self,
        kept: &mut KeptValues,
        key: Box<[u8]>,
        entry: ValueEntry,
        now: SystemTime,
    ) -> Result<(), ValueError> {
        if key.len() > VALUE_KEY_BYTES_MAX || entry.value.length() > VALUE_BYTES_MAX {
            return Err(ValueError::TooLong);
        }
        kept.changes = kept.changes.wrapping_add(1);
        if kept.changes.is_multiple_of(CHANGES_PER_SWEEP)
            || self.check_room(kept, &key, &entry).is_err()
        {
            self.make_room(kept, unix_ms(now))?;
        }
        let bytes = self.check_room(kept, &key, &entry)?;
        self.submit([StoreChange::PutRecord {
            space: SPACE,
            key: Bytes::copy_from_slice(&key),
            value: entry.write(),
        }])?;
        kept.bytes = bytes;
        kept.insert(key, entry);
        Ok(())
    }

    /// The sum of sizes with this entry, in place of one that has its key.
    fn check_room(
        &self,
        kept: &KeptValues,
        key: &[u8],
        entry: &ValueEntry,
    ) -> Result<u64, ValueError> {
        let ValueLimits {
            count_max,
            bytes_max,
        } = self.0.limits;
        let before = kept.by_key.get(key).map(|before| size(key, before));
        if before.is_none() && kept.by_key.len() >= count_max {
            return Err(ValueError::Full(count_max));
        }
        let before = before.unwrap_or_default();
        let (bytes, own) = (kept.bytes - before, size(key, entry));
        // A change that does not increase the sum is accepted, even if the limit was lowered.
        if own > before && bytes + own > bytes_max.bytes() {
            return Err(ValueError::FullBytes(bytes_max));
        }
        Ok(bytes + own)
    }

    /// Removes expired values. All values are read only if one has expired, and once a second at
    /// most: strangers may fill the store, and each value beyond its limits would cost as much as
    /// all of them.
    fn make_room(&self, kept: &mut KeptValues, now_ms: u64) -> Result<(), ValueError> {
        let is_recent = |searched: Instant| searched.elapsed() < SEARCH_INTERVAL;
        if kept.next_expiry_ms > now_ms || kept.searched.is_some_and(is_recent) {
            return Ok(());
        }
        kept.searched = Some(Instant::now());
        let mut next_expiry_ms = u64::MAX;
        let expired = kept.by_key.extract_if(|_, entry| {
            let has_expired = entry.expires_ms <= now_ms;
            if !has_expired {
                next_expiry_ms = next_expiry_ms.min(entry.expires_ms);
            }
            has_expired
        });
        let expired: Vec<_> = expired.collect();
        kept.next_expiry_ms = next_expiry_ms;
        let mut changes = Vec::with_capacity(expired.len());
        for (key, entry) in expired {
            kept.bytes -= size(&key, &entry);
            kept.leave_space(&key);
            changes.push(delete(&key));
        }
        self.submit(changes)
    }

    fn submit(&self, changes: impl IntoIterator<Item = StoreChange>) -> Result<(), ValueError> {
        if let Some(store) = &self.0.store {
            store.submit(changes)?;
        }
        Ok(())
    }
}

impl KeptValues {
    fn insert(&mut self, key: Box<[u8]>, entry: ValueEntry) {
        if !self.by_key.contains_key(&key) {
            *self.by_space.entry(space_of(&key).into()).or_default() += 1;
        }
        self.next_expiry_ms = self.next_expiry_ms.min(entry.expires_ms);
        self.by_key.insert(key, entry);
    }

    /// The value with this key was removed.
    fn leave_space(&mut self, key: &[u8]) {
        if let Some(count) = self.by_space.get_mut(space_of(key)) {
            *count -= 1;
            if *count == 0 {
                self.by_space.remove(space_of(key));
            }
        }
    }

    fn count_in(&self, space: &str) -> usize {
        let count = self.by_space.get(space.as_bytes());
        count.copied().unwrap_or_default()
    }
}

fn delete(key: &[u8]) -> StoreChange {
    StoreChange::DeleteRecord {
        space: SPACE,
        key: Bytes::copy_from_slice(key),
    }
}

/// A space has no NUL in its name, so no two pairs make the same key.
fn row_key(space: &str, key: &[u8]) -> Box<[u8]> {
    [space.as_bytes(), b"\0", key].concat().into()
}

fn space_of(row_key: &[u8]) -> &[u8] {
    row_key.split(|byte| *byte == 0).next().unwrap_or_default()
}

fn unix_ms(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as u64
}

#[cfg(test)]
mod tests;
