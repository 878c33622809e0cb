//! Following the bucket: all entries when a connection begins, and every later write.
//!
//! While a server is part of a cluster, nothing else changes the records of the sets in its
//! database: their owners change the bucket. So the follower remembers what it has stored of each
//! entry, and reads the database when a connection begins, and not with each write.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use gatepost_store::{SharedEntry, SharedSet, Store, StoreChange, StoreError};
use tokio::time::MissedTickBehavior;

use super::bucket::{BucketReader, KeyState, RecordBucket};
use super::entry::{self, EntryError, EntryRecords, EntryShape, SharedSets};
use super::followed_bucket;
use super::view::RecordsView;
use crate::error::BackboneError;

/// Writes that are stored in the database together, and changes after which a commit ends.
const STORED_AT_ONCE: usize = 256;
/// Entries that are added without waiting for each other.
const ADDED_AT_ONCE: usize = 64;
/// The interval at which the bucket is looked for.
const CHECKED_EVERY: Duration = Duration::from_secs(10);

/// A reader of the bucket, and the view that it keeps up to date.
pub(crate) struct RecordsFollower {
    view: Arc<RecordsView>,
    store: Store,
    bucket: RecordBucket,
    reader: BucketReader,
    /// The facts about each entry that the database has.
    stored: StoredEntries,
}

/// Entries in the database, by key.
#[derive(Default)]
struct StoredEntries(HashMap<String, EntryShape>);

/// The new state of an entry.
struct EntryUpdate {
    key: String,
    /// 0 for a removed entry.
    revision: u64,
    changes: Vec<StoreChange>,
    /// The facts about the entry after these changes; `None` if it stays as it is.
    stored: Option<EntryShape>,
}

impl RecordsFollower {
    /// Makes the database agree with the bucket. Adds the records of a database that follows no
    /// bucket, or another one, unless the bucket has entries of the same names; also those of a set
    /// that an earlier version of Gatepost did not share.
    pub(crate) async fn begin(
        view: &Arc<RecordsView>,
        store: &Store,
        bucket: RecordBucket,
    ) -> Result<Self, BackboneError> {
        let identity = bucket.identity();
        let (mut states, reader) = bucket.read().await?;
        store.flush().await;
        let own = entries_of(store, view.sets).await?;
        let new = followed_bucket::new_sets(store, &identity, view.sets).map_err(not_stored)?;
        // One after the other, in the order that the owner of the sets has chosen.
        for set in &new {
            add(&entries_in(set, &own), &bucket, &mut states).await?;
        }
        for key in own.keys() {
            let gone = KeyState {
                revision: 0,
                value: None,
            };
            states.entry(key.clone()).or_insert(gone);
        }
        let mut stored = StoredEntries::of(&own);
        let updates = stored.differences(&states, view);
        for set in new.iter().filter(|set| !set.is_generated) {
            report_replaced(&entries_in(set, &own), &states, view.sets);
        }
        let all = updates.iter().filter(|update| update.revision > 0);
        let revisions = all.map(|update| (update.key.clone(), update.revision));
        let revisions: HashMap<String, u64> = revisions.collect();
        let mut updates = updates.into_iter();
        while let Some(some) = next_commit(&mut updates) {
            stored.commit(store, some).await.map_err(not_stored)?;
        }
        if !new.is_empty() {
            let follow = followed_bucket::follow(&identity, view.sets);
            let ticket = store.submit(follow).map_err(not_stored)?;
            ticket.committed().await.map_err(not_stored)?;
        }
        view.begin(bucket.clone(), revisions);
        Ok(Self {
            view: view.clone(),
            store: store.clone(),
            bucket,
            reader,
            stored,
        })
    }

    /// Makes the database agree with the bucket and follows it, until that fails.
    pub(crate) async fn follow(
        view: Arc<RecordsView>,
        store: Store,
        bucket: RecordBucket,
    ) -> BackboneError {
        match Self::begin(&view, &store, bucket).await {
            Ok(follower) => follower.run().await,
            Err(error) => error,
        }
    }

    /// Follows until that fails.
    pub(crate) async fn run(mut self) -> BackboneError {
        let mut checks = tokio::time::interval(CHECKED_EVERY);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let followed = tokio::select! {
                read = self.reader.next() => match read {
                    Ok(first) => self.store_with(first).await,
                    Err(error) => Err(error),
                },
                _ = checks.tick() => self.bucket.check().await,
            };
            if let Err(error) = followed {
                return error;
            }
        }
    }

    /// Stores a write, and those that have arrived after it.
    async fn store_with(&mut self, first: (String, KeyState)) -> Result<(), BackboneError> {
        let mut states = BTreeMap::from([first]);
        while states.len() < STORED_AT_ONCE
            && let Some(read) = self.reader.try_next()
        {
            let (key, state) = read?;
            states.insert(key, state);
        }
        // Those that were read when the connection began may be read again.
        states.retain(|key, state| state.revision > self.view.revision_of(key));
        if states.is_empty() {
            return Ok(());
        }
        let mut updates = self.stored.differences(&states, &self.view).into_iter();
        while let Some(some) = next_commit(&mut updates) {
            let committed = self.stored.commit(&self.store, some).await;
            self.view.advance(committed.map_err(not_stored)?);
        }
        Ok(())
    }
}

impl StoredEntries {
    fn of(entries: &BTreeMap<String, EntryRecords>) -> Self {
        let entries = entries.iter();
        Self(
            entries
                .map(|(key, records)| (key.clone(), records.shape()))
                .collect(),
        )
    }

    /// The updates that make the database agree with these states of keys. An entry that this
    /// server cannot read stays as it is, with its revision: changes of it are refused.
    fn differences(
        &self,
        states: &BTreeMap<String, KeyState>,
        view: &RecordsView,
    ) -> Vec<EntryUpdate> {
        let none = EntryShape::default();
        let mut updates = Vec::with_capacity(states.len());
        for (key, state) in states {
            let records = match &state.value {
                None => Ok(EntryRecords::default()),
                Some(stored) => EntryRecords::decode(key, stored, view.sets),
            };
            let mut update = EntryUpdate {
                key: key.clone(),
                revision: state.value.as_ref().map_or(0, |_| state.revision),
                changes: Vec::new(),
                stored: None,
            };
            match records {
                Ok(records) => {
                    view.unreadable.clear(key);
                    let earlier = self.0.get(key).unwrap_or(&none);
                    let (changes, shape) = records.changes_from(earlier);
                    (update.changes, update.stored) = (changes, Some(shape));
                }
                Err(error @ EntryError::Later(_)) => {
                    view.unreadable.note(key, &error);
                }
                Err(error) => {
                    tracing::error!(target: "backbone", key, %error,
                        "an entry stays as it was here");
                }
            }
            updates.push(update);
        }
        updates
    }

    /// Stores updates in one commit; returns the revisions that the database has then. If the
    /// commit fails, it is not known what the database has, so the follower ends.
    async fn commit(
        &mut self,
        store: &Store,
        updates: Vec<EntryUpdate>,
    ) -> Result<Vec<(String, u64)>, StoreError> {
        let (mut changes, mut rest) = (Vec::new(), Vec::with_capacity(updates.len()));
        for mut update in updates {
            changes.append(&mut update.changes);
            rest.push(update);
        }
        if !changes.is_empty() {
            store.submit(changes)?.committed().await?;
        }
        let mut revisions = Vec::with_capacity(rest.len());
        for update in rest {
            match update.stored {
                Some(shape) if shape.is_empty() => {
                    self.0.remove(&update.key);
                }
                Some(shape) => {
                    self.0.insert(update.key.clone(), shape);
                }
                None => {}
            }
            revisions.push((update.key, update.revision));
        }
        Ok(revisions)
    }
}

/// The updates of the next commit: whole entries, with [`STORED_AT_ONCE`] changes or somewhat more.
fn next_commit(updates: &mut impl Iterator<Item = EntryUpdate>) -> Option<Vec<EntryUpdate>> {
    let mut changes = 0;
    let mut some = Vec::new();
    while changes < STORED_AT_ONCE
        && let Some(update) = updates.next()
    {
        changes += update.changes.len();
        some.push(update);
    }
    (!some.is_empty()).then_some(some)
}

/// The entries in the database, by key. Read on a thread of the blocking pool: there may be many
/// users, and the thread of the backbone forwards messages.
async fn entries_of(
    store: &Store,
    sets: SharedSets,
) -> Result<BTreeMap<String, EntryRecords>, BackboneError> {
    let store = store.clone();
    let reading = tokio::task::spawn_blocking(move || read_entries(&store, sets));
    let read = reading.await;
    let read = read.map_err(|error| BackboneError::request("reading the database", error))?;
    read.map_err(|error| BackboneError::request("reading the database", error))
}

fn read_entries(
    store: &Store,
    sets: SharedSets,
) -> Result<BTreeMap<String, EntryRecords>, StoreError> {
    let mut entries: BTreeMap<String, EntryRecords> = BTreeMap::new();
    for set in sets {
        for space in set.spaces {
            store.each_record(space, b"", |record, value| {
                if let Some(name) = (set.entry_of)(space, &record, &value) {
                    let key = entry::key(SharedEntry { set, name: &name });
                    entries.entry(key).or_default().put(space, record, value);
                }
            })?;
        }
    }
    Ok(entries)
}

/// The entries of a set.
fn entries_in<'a>(
    set: &SharedSet,
    entries: &'a BTreeMap<String, EntryRecords>,
) -> Vec<(&'a String, &'a EntryRecords)> {
    let entries = entries.iter();
    entries.filter(|(key, _)| entry::is_in(set, key)).collect()
}

/// Adds entries that the bucket does not have.
async fn add(
    own: &[(&String, &EntryRecords)],
    bucket: &RecordBucket,
    states: &mut BTreeMap<String, KeyState>,
) -> Result<(), BackboneError> {
    let missing = own.iter().filter_map(|(key, records)| {
        let known = states.get(*key);
        let is_there = known.is_some_and(|state| state.value.is_some());
        let revision = known.map_or(0, |state| state.revision);
        (!is_there).then(|| add_one(bucket, key, records, revision))
    });
    // Collected, since the states change.
    let missing: Vec<_> = missing.collect();
    let mut added = stream::iter(missing).buffer_unordered(ADDED_AT_ONCE);
    let mut count = 0;
    while let Some(state) = added.next().await {
        let (key, state) = state?;
        states.insert(key, state);
        count += 1;
    }
    if count > 0 {
        tracing::info!(target: "backbone", entries = count,
            "users, rules or senders of this server were added to those of the cluster");
    }
    Ok(())
}

/// Adds an entry; returns the state of its key, which is another one if another node was first.
async fn add_one(
    bucket: &RecordBucket,
    key: &str,
    records: &EntryRecords,
    revision: u64,
) -> Result<(String, KeyState), BackboneError> {
    let value = records.encode().map_err(|error| {
        BackboneError::request("adding users to the cluster", format!("{key}: {error}"))
    })?;
    let written = bucket.write(key, revision, Some(value.clone())).await?;
    let state = match written {
        Some(revision) => KeyState {
            revision,
            value: Some(value),
        },
        None => bucket.find(key).await?,
    };
    Ok((key.to_owned(), state))
}

/// Reports that records of a server that joins were replaced by those of the cluster.
fn report_replaced(
    own: &[(&String, &EntryRecords)],
    states: &BTreeMap<String, KeyState>,
    sets: SharedSets,
) {
    let replaced = own.iter().filter(|(key, records)| {
        let state = states.get(*key);
        let stored = state.and_then(|state| state.value.as_ref());
        let stored = stored.map(|stored| EntryRecords::decode(key, stored, sets));
        stored.is_some_and(|stored| stored.as_ref() != Ok(*records))
    });
    for (key, _) in replaced {
        tracing::info!(target: "backbone", key,
            "this server had another entry of this name; that of the cluster is in force");
    }
}

fn not_stored(error: StoreError) -> BackboneError {
    BackboneError::request("storing the shared records", error)
}

#[cfg(test)]
mod tests;
