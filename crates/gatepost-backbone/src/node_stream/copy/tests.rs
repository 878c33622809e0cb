use std::path::Path;
use std::sync::Arc;

use gatepost_message::{Publication, Qos, Topic};
use gatepost_store::{DeliveryRow, SessionRow, Store, StoreSettings, Ticket};

use super::*;

const BOUNDS: CopyBounds = CopyBounds {
    changes: 100,
    bytes: 1024 * 1024,
};

struct CopiedStore {
    store: Store,
    copy: Arc<NodeCopy>,
}

impl CopiedStore {
    fn open(folder: &Path) -> Self {
        let (store, _) = Store::open(folder, &StoreSettings::default()).expect("a store");
        let copy = Arc::new(NodeCopy::with_bounds(BOUNDS));
        store.copy_commits_to(copy.clone());
        Self { store, copy }
    }

    fn submit(&self, changes: impl IntoIterator<Item = SessionChange>) -> Ticket {
        let changes = changes.into_iter().map(StoreChange::Session);
        self.store.submit(changes).expect("submitted")
    }

    /// Opens a snapshot, as the writer of the stream does. The commit is awaited.
    async fn open_snapshot(&self, number: u64) -> Ticket {
        let snapshot = self.copy.request_snapshot();
        let ticket = self.submit([put(number)]);
        snapshot.await.expect("a snapshot");
        ticket
    }

    /// Waits until this many awaited commits are copied.
    async fn copied(&self, awaited: usize) {
        while self.copy.awaited() < awaited {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// A session: an awaited change.
fn put(number: u64) -> SessionChange {
    SessionChange::Put(Box::new(SessionRow {
        number,
        client: format!("client-{number}"),
        user: None,
        kind: "mqtt".to_owned(),
        expiry: Duration::from_hours(1),
        ended: None,
        sent: None,
        will: None,
    }))
}

/// A delivery with its message, for which nothing waits.
fn deliver(sequence: u64, payload: usize) -> [SessionChange; 2] {
    let topic = Topic::new("a").expect("a topic");
    let publication = Arc::new(Publication::new(topic, vec![0; payload]));
    let row = DeliveryRow {
        session: 1,
        sequence,
        message: sequence,
        qos: Qos::AtLeastOnce,
        retain: false,
        released: false,
        identifiers: Vec::new(),
    };
    let number = sequence;
    [
        SessionChange::Message {
            number,
            publication,
        },
        SessionChange::Enqueue(Box::new(row)),
    ]
}

fn end_delivery(sequence: u64) -> [SessionChange; 2] {
    let (session, number) = (1, sequence);
    [
        SessionChange::Dequeue { session, sequence },
        SessionChange::ForgetMessage { number },
    ]
}

#[tokio::test]
async fn a_snapshot_decides_what_was_committed_before_it_although_too_much_follows() {
    let folder = tempfile::tempdir().expect("a folder");
    let copied = CopiedStore::open(folder.path());
    let early = copied.submit([put(1)]);
    copied.copied(1).await;
    let opening = copied.open_snapshot(2).await;
    // While the snapshot is written, more is committed than may wait.
    let late = copied.submit([put(3)]);
    copied.copied(3).await;
    let deliveries = (0..100).flat_map(|sequence| deliver(sequence, 1));
    let lazy = copied.submit(deliveries);
    lazy.committed()
        .await
        .expect("nothing waits for the stream");
    let is_decided = |ticket: &Ticket| ticket.outcome().is_some();
    assert!(!is_decided(&early) && !is_decided(&opening));
    copied.copy.snapshot_stored();
    assert!(is_decided(&early) && is_decided(&opening) && !is_decided(&late));
    assert!(matches!(copied.copy.next().await, NextCopy::Overflow));
    let reopening = copied.open_snapshot(4).await;
    copied.copy.snapshot_stored();
    assert!(is_decided(&late) && is_decided(&reopening));
    assert_eq!(copied.copy.awaited(), 0);
}

#[tokio::test]
async fn changes_that_cancel_each_other_cause_no_other_snapshot() {
    let folder = tempfile::tempdir().expect("a folder");
    let copied = CopiedStore::open(folder.path());
    let _opening = copied.open_snapshot(1).await;
    for sequence in 0..500 {
        let changes = deliver(sequence, 1).into_iter();
        let ticket = copied.submit(changes.chain(end_delivery(sequence)));
        ticket.committed().await.expect("stored");
    }
    copied.copy.snapshot_stored();
    let awaited = copied.submit([put(2)]);
    copied.copied(1).await;
    while copied.copy.awaited() > 0 {
        let next = copied.copy.next().await;
        assert!(matches!(next, NextCopy::Changes(_)));
        copied.copy.stored();
    }
    awaited.committed().await.expect("the stream has it");
}

#[tokio::test]
async fn the_bytes_of_what_waits_are_bounded() {
    let folder = tempfile::tempdir().expect("a folder");
    let copied = CopiedStore::open(folder.path());
    let _opening = copied.open_snapshot(1).await;
    let deliveries = (0..10).flat_map(|sequence| deliver(sequence, 200_000));
    let ticket = copied.submit(deliveries);
    ticket.committed().await.expect("stored");
    let state = copied.copy.state.lock();
    assert!(matches!(state.phase, CopyPhase::Pending));
    assert_eq!((state.changes, state.bytes), (0, 0));
}
