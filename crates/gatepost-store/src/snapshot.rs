//! Snapshots: the content of the database after one commit, for a copy in another place.
//!
//! Invariant: a snapshot that is opened while a group is passed to the copy (`copying.rs`) has the
//! changes of this group and of all groups before it, and no later ones.

use std::sync::Arc;

use bytes::Bytes;
use gatepost_message::Publication;
use parking_lot::Mutex;

use crate::copying::CopiedCommit;
use crate::store::Store;
use crate::{DeliveryRow, SessionRow, StoreError, SubscriptionRow, open};

/// The content of the database after one commit. Later commits do not change it.
pub struct StoreSnapshot(Store);

impl StoreSnapshot {
    /// The content after a commit that is being passed to the copy.
    pub fn open(commit: &CopiedCommit<'_>) -> Result<Self, StoreError> {
        // Only a database in memory has no folder.
        let folder = commit.folder.ok_or(StoreError::Closed)?;
        let connection = open::open_reading(folder)?;
        // The transaction begins with its first query.
        connection.execute_batch("BEGIN")?;
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
        Ok(Self(Store::of_reader(Arc::new(Mutex::new(connection)))))
    }

    /// Visits every stored session.
    pub fn each_session(&self, visit: impl FnMut(SessionRow)) -> Result<(), StoreError> {
        self.0.each_session(visit)
    }

    /// Visits every subscription of stored sessions.
    pub fn each_subscription(&self, visit: impl FnMut(SubscriptionRow)) -> Result<(), StoreError> {
        self.0.each_subscription(visit)
    }

    /// Visits every stored message with its number.
    pub fn each_message(&self, visit: impl FnMut((u64, Publication))) -> Result<(), StoreError> {
        self.0.each_message(visit)
    }

    /// Visits every packet identifier that a client has not released, with its session.
    pub fn each_received(&self, visit: impl FnMut((u64, u16))) -> Result<(), StoreError> {
        self.0.each_received(visit)
    }

    /// Visits every delivery that is not over, of each session in its order.
    pub fn each_delivery(&self, visit: impl FnMut(DeliveryRow)) -> Result<(), StoreError> {
        self.0.each_delivery(visit)
    }

    /// Visits the records of a key space.
    pub fn each_record(
        &self,
        space: &str,
        visit: impl FnMut(Bytes, Bytes),
    ) -> Result<(), StoreError> {
        self.0.each_record(space, b"", visit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CommitCopy, CommitDecision, StoreChange, StoreSettings};

    /// A copy that keeps the decisions, and opens a snapshot at each commit.
    #[derive(Default)]
    struct Recorder {
        commits: Mutex<Vec<(Vec<StoreChange>, CommitDecision, StoreSnapshot)>>,
    }

    impl CommitCopy for Recorder {
        fn copy(&self, commit: CopiedCommit<'_>) {
            let snapshot = StoreSnapshot::open(&commit).expect("a snapshot");
            let CopiedCommit {
                changes, decision, ..
            } = commit;
            self.commits.lock().push((changes, decision, snapshot));
        }
    }

    fn record(key: &'static str) -> StoreChange {
        StoreChange::PutRecord {
            space: "test",
            key: Bytes::from_static(key.as_bytes()),
            value: Bytes::new(),
        }
    }

    fn keys(snapshot: &StoreSnapshot) -> Vec<Bytes> {
        let mut keys = Vec::new();
        let read = snapshot.each_record("test", |key, _| keys.push(key));
        read.expect("read");
        keys
    }

    #[tokio::test]
    async fn a_group_is_decided_by_its_copy_and_a_snapshot_ends_with_its_commit() {
        let folder = tempfile::tempdir().expect("a folder");
        let (store, _) = Store::open(folder.path(), &StoreSettings::default()).expect("a store");
        let recorder = Arc::new(Recorder::default());
        store.copy_commits_to(recorder.clone());
        let mut tickets = Vec::new();
        for (count, key) in ["a", "b"].into_iter().enumerate() {
            tickets.push(store.submit([record(key)]).expect("accepted"));
            while recorder.commits.lock().len() <= count {
                tokio::task::yield_now().await;
            }
        }
        assert!(tickets.iter().all(|ticket| ticket.outcome().is_none()));
        let commits = std::mem::take(&mut *recorder.commits.lock());
        let found: Vec<_> = commits
            .iter()
            .map(|(_, _, snapshot)| keys(snapshot))
            .collect();
        assert_eq!(found, [vec!["a"], vec!["a", "b"]]);
        let mut commits = commits.into_iter();
        let (_, first, _) = commits.next().expect("a commit");
        first.decide();
        assert!(matches!(tickets[0].outcome(), Some(Ok(()))));
        assert!(tickets[1].outcome().is_none());
        drop(commits);
        assert!(matches!(
            tickets[1].outcome(),
            Some(Err(StoreError::Closed))
        ));
        store.close();
    }
}
