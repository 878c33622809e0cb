//! Following the bucket: all entries when a connection begins, and every later write.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use gatepost_store::{SharedEntry, SharedSet, Store, StoreChange, StoreError};
use tokio::time::MissedTickBehavior;

use super::bucket::{BucketReader, KeyState, RecordBucket};
use super::entry::{self, EntryError, EntryRecords, SharedSets};
use super::followed_bucket;
use super::view::RecordsView;
use crate::error::BackboneError;

/// Writes that are stored in the database together.
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
        let (mut changes, revisions) = differences(&states, &own, view);
        if !new.is_empty() {
            for set in new.into_iter().filter(|set| !set.is_generated) {
                report_replaced(&entries_in(set, &own), &states, view.sets);
            }
            changes.extend(followed_bucket::follow(&identity, view.sets));
        }
        store_all(store, changes).await.map_err(not_stored)?;
        let live = revisions.into_iter().filter(|(_, revision)| *revision > 0);
        view.begin(bucket.clone(), live.collect::<HashMap<_, _>>());
        Ok(Self {
            view: view.clone(),
            store: store.clone(),
            bucket,
            reader,
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
        let own = entries_of(&self.store, self.view.sets).await?;
        let (changes, revisions) = differences(&states, &own, &self.view);
        store_all(&self.store, changes).await.map_err(not_stored)?;
        self.view.advance(revisions);
        Ok(())
    }
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
    let is_in = |key: &str| {
        key.strip_prefix(set.name)
            .is_some_and(|rest| rest.starts_with('.'))
    };
    entries.iter().filter(|(key, _)| is_in(key)).collect()
}

/// The changes that make the database agree with these states of keys, and the revisions that it
/// has then. An entry that this server cannot read stays as it is, with its revision: changes of it
/// are refused.
fn differences(
    states: &BTreeMap<String, KeyState>,
    own: &BTreeMap<String, EntryRecords>,
    view: &RecordsView,
) -> (Vec<StoreChange>, Vec<(String, u64)>) {
    let none = EntryRecords::default();
    let (mut changes, mut revisions) = (Vec::new(), Vec::new());
    for (key, state) in states {
        let records = match &state.value {
            None => Ok(EntryRecords::default()),
            Some(stored) => EntryRecords::decode(key, stored, view.sets),
        };
        match records {
            Ok(records) => {
                view.unreadable.clear(key);
                changes.extend(records.changes_from(own.get(key).unwrap_or(&none)));
            }
            Err(error @ EntryError::Later(_)) => {
                view.unreadable.note(key, &error);
            }
            Err(error) => {
                tracing::error!(target: "backbone", key, %error, "an entry stays as it was here");
            }
        }
        let revision = state.value.as_ref().map_or(0, |_| state.revision);
        revisions.push((key.clone(), revision));
    }
    (changes, revisions)
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

async fn store_all(store: &Store, changes: Vec<StoreChange>) -> Result<(), StoreError> {
    let mut changes = changes.into_iter().peekable();
    while changes.peek().is_some() {
        let some: Vec<StoreChange> = changes.by_ref().take(STORED_AT_ONCE).collect();
        store.submit(some)?.committed().await?;
    }
    Ok(())
}

fn not_stored(error: StoreError) -> BackboneError {
    BackboneError::request("storing the shared records", error)
}
