//! Tests of the replica, against the database that it copies.

use gatepost_message::{Qos, Topic};
use gatepost_store::{Store, StoreError, WillRow};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::node_stream::change;
use crate::node_stream::change::tests::{changes, copied};

/// The changes with keys that are never used twice, as the broker gives them.
fn with_unique_keys(changes: Vec<StoreChange>) -> Vec<StoreChange> {
    let (mut sequence, mut message) = (0, 0);
    let mut keys = HashSet::new();
    let mut unique = Vec::new();
    for mut change in changes {
        match &mut change {
            StoreChange::Session(SessionChange::Enqueue(row)) => {
                sequence += 1;
                row.sequence = sequence;
            }
            StoreChange::Session(SessionChange::Message { number, .. }) => {
                message += 1;
                *number = message;
            }
            StoreChange::PutRecord { key, .. } => {
                keys.insert(key.clone());
            }
            StoreChange::AddRecord { key, .. } if !keys.insert(key.clone()) => continue,
            _ => {}
        }
        unique.push(change);
    }
    unique
}

/// All rows of a database, read and applied as if a stream began with them.
fn read(store: &Store) -> Result<Replica, StoreError> {
    let mut replica = Replica::default();
    let mut rows = Vec::new();
    store.each_session(|row| rows.push(SessionChange::Put(Box::new(row))))?;
    store.each_subscription(|row| rows.push(SessionChange::Subscribe(Box::new(row))))?;
    store.each_message(|(number, publication)| {
        let publication = Arc::new(publication);
        rows.push(SessionChange::Message {
            number,
            publication,
        });
    })?;
    store.each_delivery(|row| rows.push(SessionChange::Enqueue(Box::new(row))))?;
    store.each_received(|(session, packet)| {
        rows.push(SessionChange::Receive { session, packet });
    })?;
    for change in rows {
        replica.apply(StoreChange::Session(change));
    }
    for space in change::SPACES {
        store.each_record(space, b"", |key, value| {
            replica.apply(StoreChange::PutRecord { space, key, value });
        })?;
    }
    Ok(replica)
}

/// Submits the changes in groups of different sizes, which are commits of their own.
async fn stored(changes: &[StoreChange]) -> Store {
    let store = Store::in_memory().expect("a store");
    let (mut rest, mut size) = (changes, 1);
    while !rest.is_empty() {
        let (group, later) = rest.split_at(size.min(rest.len()));
        let ticket = store.submit(group.iter().cloned()).expect("accepted");
        ticket.committed().await.expect("stored");
        (rest, size) = (later, size % 7 + 2);
    }
    store
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime").block_on(future)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_replica_is_equal_to_the_database(all in vec(changes(), 0..80)) {
        let all = with_unique_keys(all);
        let store = run(stored(&all));
        let mut replica = Replica::default();
        for change in copied(&all) {
            replica.apply(change);
        }
        prop_assert_eq!(&replica, &read(&store).expect("read"));
        prop_assert_eq!(replica.kept(), kept::read(&store).expect("read"));
        let positions = (1..=3).map(|one| position::read(&store, one).expect("read"));
        prop_assert_eq!(replica.positions(3), positions.collect::<Option<Vec<_>>>());
        for (id, claim) in transfer::kept(&store).expect("read") {
            let prefix = transfer::pieces_prefix(id, claim);
            let records = store.records(RELEASED_SPACE, &prefix).expect("read");
            let released = replica.released(id, claim).into_iter().map(|change| match change {
                StoreChange::PutRecord { key, value, .. } => (key, value),
                change => panic!("{change:?}"),
            });
            prop_assert_eq!(released.collect::<Vec<_>>(), records);
        }
        let (sessions, wills) = replica.into_sessions(SystemTime::now());
        prop_assert!(sessions.is_sorted_by_key(|one| one.session.number));
        prop_assert!(wills.is_sorted_by_key(|one| one.number));
    }
}

fn row(number: u64, client: &str) -> SessionRow {
    SessionRow {
        number,
        client: client.to_owned(),
        user: Some("u".to_owned()),
        kind: "mqtt".to_owned(),
        expiry: Duration::from_hours(1),
        ended: None,
        sent: None,
        will: None,
    }
}

fn delivery(session: u64, sequence: u64, message: u64) -> SessionChange {
    SessionChange::Enqueue(Box::new(DeliveryRow {
        session,
        sequence,
        message,
        qos: Qos::AtLeastOnce,
        retain: false,
        released: false,
        identifiers: Vec::new(),
    }))
}

fn replica(changes: impl IntoIterator<Item = SessionChange>) -> Replica {
    let mut replica = Replica::default();
    for change in changes {
        replica.apply(StoreChange::Session(change));
    }
    replica
}

#[test]
fn sessions_have_their_deliveries_and_wills() {
    let publication = Arc::new(Publication::new(Topic::new("a").expect("a topic"), "x"));
    let ended = SystemTime::UNIX_EPOCH + Duration::from_secs(9);
    let mut disconnected = row(2, "b");
    (disconnected.ended, disconnected.sent) = (Some(ended), Some(4));
    disconnected.will = Some(WillRow {
        message: 7,
        delay: Duration::from_secs(3),
    });
    let (found, _) = replica([
        SessionChange::Put(Box::new(disconnected)),
        SessionChange::Put(Box::new(row(1, "a"))),
        SessionChange::Message {
            number: 7,
            publication: publication.clone(),
        },
        delivery(1, 6, 7),
        delivery(1, 5, 7),
        delivery(1, 4, 8),
        delivery(3, 1, 7),
    ])
    .into_sessions(SystemTime::UNIX_EPOCH + Duration::from_mins(1));
    let numbers: Vec<_> = found.iter().map(|one| one.session.number).collect();
    assert_eq!(numbers, [1, 2]);
    let (first, second) = (&found[0], &found[1]);
    let deliveries = first.session.deliveries.iter();
    let sequences: Vec<_> = deliveries.map(|one| one.row.sequence).collect();
    assert_eq!(sequences, [5, 6], "the message of the first is missing");
    assert!(Arc::ptr_eq(
        &first.session.deliveries[0].publication,
        &publication
    ));
    assert_eq!(
        (first.session.sent, first.ended, &first.will),
        (u64::MAX, None, &None)
    );
    let will = Some((publication, Duration::from_secs(3)));
    assert_eq!(
        (second.session.sent, second.ended, &second.will),
        (4, Some(ended), &will)
    );
}

#[test]
fn the_later_session_of_a_name_counts() {
    let mut of_none = row(3, "a");
    of_none.user = None;
    let (found, _) = replica([
        SessionChange::Put(Box::new(row(4, "a"))),
        SessionChange::Put(Box::new(row(1, "a"))),
        SessionChange::Put(Box::new(of_none)),
    ])
    .into_sessions(SystemTime::UNIX_EPOCH + Duration::from_mins(1));
    let found = found.iter().map(|one| one.session.number);
    assert_eq!(found.collect::<Vec<_>>(), [3, 4]);
}

#[test]
fn an_expired_session_does_not_hide_the_live_one_of_its_name() {
    let time = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    let with_will = |mut row: SessionRow| {
        let delay = Duration::ZERO;
        let message = row.number + 10;
        row.will = Some(WillRow { message, delay });
        row
    };
    let mut live = with_will(row(2, "a"));
    live.ended = Some(time(10));
    // The session that keeps an earlier will of the client.
    let mut keeper = with_will(row(3, "a"));
    (keeper.ended, keeper.expiry) = (Some(time(5)), Duration::ZERO);
    let superseded = with_will(row(1, "a"));
    let mut changes = Vec::new();
    for row in [live, keeper, superseded] {
        let topic = Topic::new(&format!("of/{}", row.number)).expect("a topic");
        changes.push(SessionChange::Message {
            number: row.number + 10,
            publication: Arc::new(Publication::new(topic, "x")),
        });
        changes.push(SessionChange::Put(Box::new(row)));
    }
    let found = |fenced| {
        let (sessions, wills) = replica(changes.clone()).into_sessions(fenced);
        let sessions = sessions.iter().map(|one| one.session.number);
        let wills = wills.iter().map(|one| {
            let number = one.number;
            assert_eq!(one.publication.topic.as_str(), format!("of/{number}"));
            number
        });
        (sessions.collect::<Vec<_>>(), wills.collect::<Vec<_>>())
    };
    assert_eq!(found(time(60)), (vec![2], vec![1, 3]));
}

#[test]
fn a_replica_is_empty_when_all_rows_are_removed() {
    let mut replica = replica([
        SessionChange::Put(Box::new(row(1, "a"))),
        delivery(1, 1, 1),
        SessionChange::End { session: 1 },
        delivery(1, 2, 1),
    ]);
    assert_ne!(replica, Replica::default());
    let (session, sequence) = (1, 2);
    replica.apply(StoreChange::Session(SessionChange::Dequeue {
        session,
        sequence,
    }));
    assert_eq!(replica, Replica::default());
    assert_eq!(replica.positions(1), None);
    assert!(replica.released(SessionId([0; 16]), 0).is_empty());
}
