//! The view that this node has of the bucket, and changes of the bucket.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use gatepost_store::{
    EntryDecision, EntryOutcome, SharedEntry, SharedRecords, SharedSet, StoreChange, StoreError,
};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::bucket::RecordBucket;
use super::entry::{self, EntryRecords, SharedSets};
use crate::unreadable::UnreadableParts;

/// The longest time for which a change that is stored waits until the view has it.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(5);

/// The view of the bucket.
pub(crate) struct RecordsView {
    pub(super) sets: SharedSets,
    /// The revisions of the entries whose records are in the database, by key.
    revisions: Mutex<HashMap<String, u64>>,
    is_complete: AtomicBool,
    /// Present while there is a connection.
    bucket: ArcSwapOption<RecordBucket>,
    /// Counts changes of any set.
    changed: watch::Sender<u64>,
    /// Counts changes of each set, by its name.
    changed_sets: HashMap<&'static str, watch::Sender<u64>>,
    /// Entries that a later version of Gatepost has written.
    pub(crate) unreadable: UnreadableParts,
}

impl RecordsView {
    /// A view without a connection. `is_complete` says whether the database follows a bucket.
    pub(crate) fn new(sets: SharedSets, is_complete: bool) -> Self {
        Self {
            sets,
            revisions: Mutex::default(),
            is_complete: AtomicBool::new(is_complete),
            bucket: ArcSwapOption::empty(),
            changed: watch::Sender::new(0),
            changed_sets: sets
                .iter()
                .map(|set| (set.name, watch::Sender::new(0)))
                .collect(),
            unreadable: UnreadableParts::default(),
        }
    }

    /// The database has the records of these revisions, and no others.
    pub(super) fn begin(&self, bucket: RecordBucket, revisions: HashMap<String, u64>) {
        *self.revisions.lock() = revisions;
        self.is_complete.store(true, Ordering::Release);
        self.bucket.store(Some(Arc::new(bucket)));
        for changed in self.changed_sets.values() {
            count(changed);
        }
        count(&self.changed);
    }

    /// Whether the view follows the bucket, so that entries can be changed.
    pub(crate) fn is_followed(&self) -> bool {
        self.bucket.load().is_some()
    }

    /// Waits until the view follows the bucket.
    pub(crate) async fn followed(&self) {
        let mut changed = self.changed.subscribe();
        // It ends with the view only.
        let _ = changed.wait_for(|_| self.bucket.load().is_some()).await;
    }

    /// The connection ended.
    pub(crate) fn leave(&self) {
        self.bucket.store(None);
    }

    pub(super) fn revision_of(&self, key: &str) -> u64 {
        self.revisions.lock().get(key).copied().unwrap_or_default()
    }

    /// The database has the records of these revisions, too; 0 for a removed entry.
    pub(super) fn advance(&self, revisions: Vec<(String, u64)>) {
        let mut sets = BTreeSet::new();
        let mut known = self.revisions.lock();
        for (key, revision) in revisions {
            sets.extend(
                self.sets
                    .iter()
                    .find(|set| entry::is_in(set, &key))
                    .map(|set| set.name),
            );
            if revision == 0 {
                known.remove(&key);
            } else {
                known.insert(key, revision);
            }
        }
        drop(known);
        for changed in sets.iter().filter_map(|set| self.changed_sets.get(set)) {
            count(changed);
        }
        count(&self.changed);
    }
}

fn count(changed: &watch::Sender<u64>) {
    changed.send_modify(|count| *count += 1);
}

/// The view as the owners of records see it.
pub(crate) struct SharedView(pub(crate) Arc<RecordsView>);

impl SharedRecords for SharedView {
    fn revision(&self, entry: SharedEntry<'_>) -> u64 {
        self.0.revision_of(&entry::key(entry))
    }

    fn commit(
        &self,
        entry: SharedEntry<'_>,
        revision: u64,
        changes: Vec<StoreChange>,
    ) -> EntryDecision {
        let (view, key) = (self.0.clone(), entry::key(entry));
        Box::pin(async move {
            let bucket = view.bucket.load_full();
            let bucket = bucket.ok_or_else(|| refused("the NATS servers cannot be reached"))?;
            let mut changed = view.changed.subscribe();
            let outcome = write(&bucket, &key, revision, changes, view.sets).await?;
            if outcome != Some(revision) {
                // Also before another attempt, which has to begin with the newer records.
                let followed = changed.wait_for(|_| view.revision_of(&key) != revision);
                let _ = tokio::time::timeout(FOLLOWED_WITHIN, followed).await;
            }
            Ok(match outcome {
                Some(_) => EntryOutcome::Stored,
                None => EntryOutcome::Outdated,
            })
        })
    }

    fn is_complete(&self) -> bool {
        self.0.is_complete.load(Ordering::Acquire)
    }

    fn changes(&self, set: &'static SharedSet) -> watch::Receiver<u64> {
        let changed = self.0.changed_sets.get(set.name);
        changed.unwrap_or(&self.0.changed).subscribe()
    }
}

/// Changes the entry in the bucket; returns its revision afterwards, or `None` if the entry had
/// another revision before.
async fn write(
    bucket: &RecordBucket,
    key: &str,
    revision: u64,
    changes: Vec<StoreChange>,
    sets: SharedSets,
) -> Result<Option<u64>, StoreError> {
    let found = bucket.find(key).await.map_err(refused)?;
    let revision_now = found.value.as_ref().map_or(0, |_| found.revision);
    if revision_now != revision {
        return Ok(None);
    }
    let before = found
        .value
        .map(|stored| EntryRecords::decode(key, &stored, sets));
    let before = before.transpose().map_err(refused)?.unwrap_or_default();
    let mut after = before.clone();
    for change in changes {
        after.apply(change);
    }
    if after == before {
        return Ok(Some(revision));
    }
    let value = (!after.is_empty()).then(|| after.encode());
    let value = value.transpose().map_err(refused)?;
    bucket
        .write(key, found.revision, value)
        .await
        .map_err(refused)
}

fn refused(cause: impl ToString) -> StoreError {
    StoreError::Cluster {
        cause: cause.to_string().into(),
    }
}
