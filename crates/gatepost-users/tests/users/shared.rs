//! Changes that a cluster decides about.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use gatepost_store::{
    EntryDecision, EntryOutcome, SharedEntry, SharedRecords, SharedSet, StoreChange, StoreError,
};
use tokio::sync::watch;

use super::*;

/// A cluster of which another server is first, so many times: each time it grants anna a topic.
struct BusyCluster {
    store: Store,
    is_complete: AtomicBool,
    is_silent: AtomicBool,
    others: AtomicUsize,
    changes: watch::Sender<u64>,
}

impl BusyCluster {
    fn of(store: &Store) -> Arc<Self> {
        let cluster = Arc::new(Self {
            store: store.clone(),
            is_complete: AtomicBool::new(true),
            is_silent: AtomicBool::new(false),
            others: AtomicUsize::new(0),
            changes: watch::Sender::new(0),
        });
        store.share_records(cluster.clone());
        cluster
    }
}

impl SharedRecords for BusyCluster {
    fn revision(&self, _: SharedEntry<'_>) -> u64 {
        0
    }

    fn commit(&self, entry: SharedEntry<'_>, _: u64, changes: Vec<StoreChange>) -> EntryDecision {
        if self.is_silent.load(Ordering::Relaxed) {
            return Box::pin(std::future::pending());
        }
        let store = self.store.clone();
        let left = self.others.load(Ordering::Relaxed);
        for change in &changes {
            if let StoreChange::PutRecord { space, key, value } = change {
                let name = (entry.set.entry_of)(space, key, value);
                assert_eq!(name.as_deref(), Some(entry.name));
            }
        }
        let (made, outcome) = if left == 0 {
            (changes, EntryOutcome::Stored)
        } else {
            self.others.store(left - 1, Ordering::Relaxed);
            let rule = StoreChange::PutRecord {
                space: "grant",
                key: format!("anna\0allow\0other/{left}").into(),
                value: "{\"access\":[\"publish\"]}".into(),
            };
            (vec![rule], EntryOutcome::Outdated)
        };
        Box::pin(async move {
            store.submit(made)?.committed().await?;
            Ok(outcome)
        })
    }

    fn is_complete(&self) -> bool {
        self.is_complete.load(Ordering::Relaxed)
    }

    fn changes(&self, _: &'static SharedSet) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

#[tokio::test]
async fn a_change_is_computed_again_if_another_server_was_first() {
    let store = Store::in_memory().expect("a store");
    let cluster = BusyCluster::of(&store);
    let users = Users::open(store, &settings()).expect("users");
    users
        .add("Anna", "some secret".into(), false)
        .await
        .expect("added");
    users.remove("anna").await.expect("removed");
    users
        .add("anna", "some secret".into(), false)
        .await
        .expect("added");
    cluster.others.store(2, Ordering::Relaxed);
    users
        .remove("anna")
        .await
        .expect("removed with the rules that others made");
    assert!(users.list().is_empty() && users.rules("anna").is_empty());

    users
        .add("anna", "some secret".into(), false)
        .await
        .expect("added");
    cluster.others.store(1_000, Ordering::Relaxed);
    let changed = users
        .grant("anna", Effect::Allow, AccessSet::ALL, "own")
        .await;
    assert!(
        matches!(changed, Err(UsersError::Store(StoreError::Cluster { .. }))),
        "{changed:?}"
    );
}

#[tokio::test]
async fn a_server_that_does_not_know_the_users_yet_admits_nobody() {
    let store = Store::in_memory().expect("a store");
    let cluster = BusyCluster::of(&store);
    cluster.is_complete.store(false, Ordering::Relaxed);
    let users = Users::open(store, &settings()).expect("users");
    let origin = origin();
    let anonymous = users.authenticate(Credentials::Anonymous, &origin).await;
    assert!(anonymous.is_err() && !users.are_known());
    cluster.is_complete.store(true, Ordering::Relaxed);
    let following = users.clone();
    let mut changes = users.changes();
    changes.mark_unchanged();
    let follower = tokio::spawn(async move { following.follow().await });
    while cluster.changes.receiver_count() == 0 {
        tokio::task::yield_now().await;
    }
    cluster.changes.send_modify(|count| *count += 1);
    let changed = tokio::time::timeout(std::time::Duration::from_mins(1), changes.changed());
    changed
        .await
        .expect("in time")
        .expect("the server is there");
    let anonymous = users.authenticate(Credentials::Anonymous, &origin).await;
    assert!(anonymous.is_ok() && users.are_known());
    follower.abort();
}

#[tokio::test]
async fn a_login_does_not_wait_for_the_cluster() {
    let store = Store::in_memory().expect("a store");
    let cluster = BusyCluster::of(&store);
    let users = Users::open(store, &settings()).expect("users");
    let hash = "$2b$04$HLvV8qZpeoLVbsFU3sfBtu4xT4uhPOGk/z/IMcZ.g/JwkgdQHf8Ce";
    users.import("anna", hash, false).await.expect("added");
    cluster.is_silent.store(true, Ordering::Relaxed);
    let origin = origin();
    // The first login replaces the hash of the other server, when the cluster answers.
    let login = users.authenticate(password("anna", "correct horse"), &origin);
    let login = tokio::time::timeout(std::time::Duration::from_mins(1), login);
    assert!(login.await.expect("in time").is_ok());
}
