//! A row whose key is taken fails its own ticket, and not those that share its commit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gatepost_message::{MessageId, Publication, Qos, Topic};
use gatepost_store::{
    DeliveryRow, SessionChange, Store, StoreChange, StoreError, StoreSettings, Ticket,
};
use rusqlite::Connection;

const PATIENCE: Duration = Duration::from_mins(1);

/// A store, and a second connection that makes its commits wait.
struct Held {
    _folder: tempfile::TempDir,
    store: Store,
    connection: Connection,
}

impl Held {
    /// With a message of the history and a delivery, whose keys are taken.
    async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = StoreSettings {
            reserve: "0B".parse().expect("a size"),
            ..StoreSettings::default()
        };
        let (store, _) = Store::open(folder.path(), &settings).expect("a store");
        let taken = [history(1, "first"), enqueue(1, 1, 1)];
        let ticket = store.submit(taken).expect("taken");
        ticket.committed().await.expect("a commit");
        let connection = Connection::open(folder.path().join("gatepost.db")).expect("open");
        connection.busy_timeout(PATIENCE).expect("a timeout");
        Self {
            _folder: folder,
            store,
            connection,
        }
    }

    /// From now on, submitted changes share one commit.
    fn hold(&self) {
        self.connection
            .execute_batch("BEGIN IMMEDIATE")
            .expect("locked");
        self.submit([history(1_000, "held")]);
        let deadline = Instant::now() + PATIENCE;
        while self.store.waiting_bytes() > 0 {
            assert!(Instant::now() < deadline, "the writer takes the first");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn release(&self) {
        self.connection.execute_batch("ROLLBACK").expect("released");
    }

    fn submit(&self, changes: impl IntoIterator<Item = StoreChange>) -> Ticket {
        self.store.submit(changes).expect("room")
    }

    fn submit_after(&self, change: StoreChange, earlier: &Ticket) -> Ticket {
        let submitted = self.store.submit_after(&mut vec![change], Some(earlier));
        submitted.expect("room")
    }

    fn payloads(&self) -> Vec<String> {
        let history = self.store.history(100, 100).expect("history");
        let mut payloads: Vec<String> = history
            .iter()
            .map(|publication| String::from_utf8_lossy(&publication.payload).into_owned())
            .collect();
        payloads.sort();
        payloads
    }

    fn deliveries(&self) -> Vec<(u64, u64)> {
        let mut keys = Vec::new();
        self.store
            .each_delivery(|row| keys.push((row.sequence, row.message)))
            .expect("deliveries");
        keys
    }
}

fn history(number: u64, payload: &str) -> StoreChange {
    StoreChange::History(Arc::new(Publication {
        id: MessageId::from_number(number),
        ..Publication::new(Topic::new("a").expect("a topic"), payload.to_owned())
    }))
}

fn enqueue(session: u64, sequence: u64, message: u64) -> StoreChange {
    StoreChange::Session(SessionChange::Enqueue(Box::new(DeliveryRow {
        session,
        sequence,
        message,
        qos: Qos::AtLeastOnce,
        retain: false,
        released: false,
        identifiers: Vec::new(),
    })))
}

fn is_collision(outcome: &Result<(), StoreError>) -> bool {
    matches!(outcome, Err(StoreError::Collision { .. }))
}

#[tokio::test]
async fn a_collision_fails_its_own_ticket_and_the_others_are_committed() {
    let held = Held::new().await;
    held.hold();
    let before = held.submit([history(2, "before")]);
    // A submission is refused as a whole, including the changes that would have been possible.
    let colliding = held.submit([history(3, "with it"), history(1, "second")]);
    let deferred = held.store.submit_deferred([history(1, "third")]);
    deferred.expect("room");
    let after = held.submit([history(4, "after")]);
    held.release();
    before.committed().await.expect("a commit");
    let outcome = colliding.committed().await;
    assert!(is_collision(&outcome), "{outcome:?}");
    after.committed().await.expect("a commit");
    assert_eq!(held.payloads(), ["after", "before", "first", "held"]);
    assert!(held.store.readiness().is_ok(), "the disk is well");
}

#[tokio::test]
async fn a_place_in_the_history_that_is_taken_is_a_collision() {
    let held = Held::new().await;
    held.hold();
    let before = held.submit([history(2, "before")]);
    let StoreChange::History(other) = history(3, "at the place of the first") else {
        unreachable!();
    };
    let place = MessageId::from_number(1);
    let colliding = held.submit([StoreChange::HistoryAt(place, other)]);
    held.release();
    before.committed().await.expect("a commit");
    let outcome = colliding.committed().await;
    assert!(is_collision(&outcome), "{outcome:?}");
    assert_eq!(held.payloads(), ["before", "first", "held"]);
}

#[tokio::test]
async fn changes_that_depend_on_a_collision_fail_with_it() {
    let held = Held::new().await;
    held.hold();
    let colliding = held.submit([history(1, "second")]);
    let second = held.submit_after(history(5, "second after"), &colliding);
    let third = held.submit_after(history(6, "third after"), &second);
    let other = held.submit([history(7, "other")]);
    held.release();
    for ticket in [&colliding, &second, &third] {
        let outcome = ticket.committed().await;
        assert!(is_collision(&outcome), "{outcome:?}");
    }
    other.committed().await.expect("a commit");
    assert_eq!(held.payloads(), ["first", "held", "other"]);
    // Known to have failed, it refuses immediately.
    let refused = held
        .store
        .submit_after(&mut vec![history(8, "x")], Some(&colliding));
    assert!(
        matches!(refused, Err(StoreError::Collision { .. })),
        "{refused:?}"
    );
    let next = held.submit_after(history(9, "next"), &other);
    next.committed().await.expect("a commit");
}

/// A row that is written and removed within a group is not written at all; the refused submission
/// must not count its removal as done.
#[tokio::test]
async fn a_refused_removal_leaves_its_row() {
    let held = Held::new().await;
    held.hold();
    let (session, sequence) = (1, 2);
    let dequeue = StoreChange::Session(SessionChange::Dequeue { session, sequence });
    let kept = held.submit([enqueue(session, sequence, 7)]);
    let refused = held.submit([dequeue, enqueue(1, 1, 8)]);
    held.release();
    kept.committed().await.expect("a commit");
    assert!(is_collision(&refused.committed().await));
    assert_eq!(held.deliveries(), [(1, 1), (2, 7)]);
}
