//! Changes of all kinds, and tests of their bytes.

use gatepost_broker::LoggedPublication;
use gatepost_message::{MessageId, Publication, TopicFilter};
use gatepost_store::{DeliveryRow, SubscriptionRow};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::log::identity::LogIdentity;
use crate::log::kept;
use crate::log::position::LogPosition;
use crate::moves::ownership::SessionId;
use crate::moves::transfer;

/// Few, so that changes refer to the same rows.
const NUMBERS: std::ops::Range<u64> = 1..5;
const PACKETS: std::ops::Range<u16> = 1..4;

fn durations() -> impl Strategy<Value = Duration> {
    prop_oneof![
        (0..1_u64 << 40).prop_map(Duration::from_secs),
        Just(Duration::MAX),
    ]
}

fn levels() -> impl Strategy<Value = Qos> {
    prop::sample::select(vec![Qos::AtMostOnce, Qos::AtLeastOnce, Qos::ExactlyOnce])
}

fn filters() -> impl Strategy<Value = TopicFilter> {
    prop::sample::select(vec!["a/+", "#", "$share/g/a/#", "ü"])
        .prop_map(|text| TopicFilter::new(text).expect("a filter"))
}

fn session_rows() -> impl Strategy<Value = SessionRow> {
    let ended = (0..1_u64 << 50).prop_map(|ms| UNIX_EPOCH + Duration::from_millis(ms));
    let will = (NUMBERS, durations()).prop_map(|(message, delay)| WillRow { message, delay });
    (
        (NUMBERS, "[ab]?", option::of("[uv]?"), "[a-zß]{0,4}"),
        durations(),
        option::of(ended),
        option::of(0..1_u64 << 60),
        option::of(will),
    )
        .prop_map(
            |((number, client, user, kind), expiry, ended, sent, will)| SessionRow {
                number,
                client,
                user,
                kind,
                expiry,
                ended,
                sent,
                will,
            },
        )
}

fn subscription_rows() -> impl Strategy<Value = SubscriptionRow> {
    let identifier = option::of(1..u32::MAX);
    (
        NUMBERS,
        filters(),
        levels(),
        any::<bool>(),
        any::<bool>(),
        identifier,
    )
        .prop_map(
            |(session, filter, qos, no_local, retain_as_published, identifier)| SubscriptionRow {
                session,
                filter,
                qos,
                no_local,
                retain_as_published,
                identifier,
            },
        )
}

fn delivery_rows() -> impl Strategy<Value = DeliveryRow> {
    let flags = (any::<bool>(), any::<bool>());
    let identifiers = vec(any::<u32>(), 0..3);
    (NUMBERS, NUMBERS, NUMBERS, levels(), flags, identifiers).prop_map(
        |(session, sequence, message, qos, (retain, released), identifiers)| DeliveryRow {
            session,
            sequence,
            message,
            qos,
            retain,
            released,
            identifiers,
        },
    )
}

fn session_changes() -> impl Strategy<Value = SessionChange> {
    let places = || (NUMBERS, NUMBERS);
    let packets = || (NUMBERS, PACKETS);
    prop_oneof![
        3 => session_rows().prop_map(|row| SessionChange::Put(Box::new(row))),
        1 => NUMBERS.prop_map(|session| SessionChange::End { session }),
        3 => subscription_rows().prop_map(|row| SessionChange::Subscribe(Box::new(row))),
        1 => (NUMBERS, filters())
            .prop_map(|(session, filter)| SessionChange::Unsubscribe { session, filter }),
        3 => (NUMBERS, encoding::tests::publications()).prop_map(|(number, publication)| {
            let publication = Arc::new(publication);
            SessionChange::Message { number, publication }
        }),
        1 => NUMBERS.prop_map(|number| SessionChange::ForgetMessage { number }),
        6 => delivery_rows().prop_map(|row| SessionChange::Enqueue(Box::new(row))),
        2 => places().prop_map(|(session, sequence)| SessionChange::Release { session, sequence }),
        2 => places().prop_map(|(session, sequence)| SessionChange::Dequeue { session, sequence }),
        2 => packets().prop_map(|(session, packet)| SessionChange::Receive { session, packet }),
        1 => packets().prop_map(|(session, packet)| SessionChange::Unreceive { session, packet }),
    ]
}

fn record_changes() -> impl Strategy<Value = StoreChange> {
    let kept = (encoding::tests::publications(), option::of(NUMBERS), 0..4);
    let kept = kept.prop_map(|(mut publication, session, id)| {
        publication.id = MessageId::from_number(id as u64);
        let publication = Arc::new(publication);
        kept::put(&LoggedPublication {
            publication,
            session,
            passed_on: None,
        })
    });
    let position = (0_u16..3, any::<[u64; 2]>(), any::<u32>());
    let position = position.prop_map(|(partition, [stream, sequence], delivered)| {
        let position = LogPosition {
            stream,
            sequence,
            delivered,
        };
        position.put(partition)
    });
    let pieces = || (0_u8..3, 0_u64..3, vec(0_u8..3, 0..2));
    let key = |(id, claim, rest): (u8, u64, Vec<u8>)| {
        let start = transfer::pieces_prefix(SessionId([id; 16]), claim);
        Bytes::from([&start[..], &rest].concat())
    };
    let added = (pieces(), vec(any::<u8>(), 0..9)).prop_map(move |(piece, value)| {
        let (space, key, value) = (RELEASED_SPACE, key(piece), value.into());
        StoreChange::AddRecord { space, key, value }
    });
    let put = (pieces(), vec(any::<u8>(), 0..9)).prop_map(move |(piece, value)| {
        let (space, key, value) = (RELEASED_SPACE, key(piece), value.into());
        StoreChange::PutRecord { space, key, value }
    });
    let removed =
        (0_u64..4).prop_map(|id| kept::remove(&LogIdentity::of_id(MessageId::from_number(id))));
    let all_removed = (prop::sample::select(&SPACES[..]), vec(0_u8..2, 0..3));
    let all_removed = all_removed.prop_map(|(space, prefix)| StoreChange::DeleteRecords {
        space,
        prefix: prefix.into(),
    });
    let ended =
        (0_u8..3, 0_u64..3).prop_map(|(id, claim)| transfer::remove(SessionId([id; 16]), claim));
    prop_oneof![4 => kept, 4 => position, 2 => added, 4 => put, 2 => removed, 1 => all_removed,
        2 => ended]
}

/// Copied changes of all kinds, which refer to few rows.
pub(crate) fn changes() -> impl Strategy<Value = StoreChange> {
    prop_oneof![
        3 => session_changes().prop_map(StoreChange::Session),
        1 => record_changes(),
    ]
}

/// The changes as another node reads them.
pub(crate) fn copied(changes: &[StoreChange]) -> Vec<StoreChange> {
    let mut input = Input::new(bytes(changes));
    let mut read_back = Vec::new();
    while !input.is_empty() {
        read_back.push(read(&mut input).expect("a change"));
    }
    read_back
}

fn bytes(changes: &[StoreChange]) -> Bytes {
    let mut buffer = BytesMut::new();
    for change in changes {
        push(&mut buffer, change);
    }
    buffer.freeze()
}

proptest! {
    #[test]
    fn written_changes_read_back(written in vec(changes(), 0..9)) {
        let read_back = copied(&written);
        let expected = written.into_iter().map(|change| match change {
            StoreChange::AddRecord { space, key, value } => {
                StoreChange::PutRecord { space, key, value }
            }
            change => change,
        });
        let expected: Vec<_> = expected.collect();
        prop_assert_eq!(format!("{read_back:?}"), format!("{expected:?}"));
    }

    #[test]
    fn no_bytes_cause_a_panic(tag in 0..DELETE_RECORDS + 2, rest in vec(any::<u8>(), 0..99)) {
        let mut bytes = vec![tag];
        bytes.extend(rest);
        let _ = read(&mut Input::new(bytes.into()));
    }

    #[test]
    fn damage_causes_no_panic(change in changes(), at: usize, to: u8) {
        let mut damaged = bytes(&[change]).to_vec();
        let at = at % damaged.len();
        damaged[at] = to;
        let _ = read(&mut Input::new(damaged.into()));
    }

    #[test]
    fn an_incomplete_change_is_refused(change in changes(), cut: usize) {
        let whole = bytes(&[change]);
        let cut = whole.slice(..cut % whole.len());
        let found = read(&mut Input::new(cut)).expect_err("it is cut off");
        prop_assert_eq!(found, EncodingError::Truncated);
    }
}

#[test]
fn only_what_belongs_to_sessions_is_copied() {
    let record = |space| StoreChange::PutRecord {
        space,
        key: Bytes::from_static(b"k"),
        value: Bytes::new(),
    };
    let removal = |space| StoreChange::DeleteRecord {
        space,
        key: Bytes::from_static(b"k"),
    };
    let delivery = |qos| {
        let session = SessionChange::Enqueue(Box::new(DeliveryRow {
            session: 1,
            sequence: 1,
            message: 1,
            qos,
            retain: false,
            released: false,
            identifiers: Vec::new(),
        }));
        StoreChange::Session(session)
    };
    let end = StoreChange::Session(SessionChange::End { session: 1 });
    let dequeue = StoreChange::Session(SessionChange::Dequeue {
        session: 1,
        sequence: 1,
    });
    let unreceive = StoreChange::Session(SessionChange::Unreceive {
        session: 1,
        packet: 1,
    });
    let cases = [
        (record("users"), false, false),
        (removal("users"), false, false),
        (record(POSITION_SPACE), true, false),
        (record(KEPT_SPACE), true, true),
        (removal(KEPT_SPACE), true, false),
        (record(RELEASED_SPACE), true, true),
        (removal(RELEASED_SPACE), true, true),
        (delivery(Qos::AtLeastOnce), true, false),
        (delivery(Qos::ExactlyOnce), true, true),
        (end, true, true),
        (dequeue, true, false),
        (unreceive, true, true),
    ];
    for (change, copied, awaited) in cases {
        let found = (is_copied(&change), is_awaited(&change));
        assert_eq!(found, (copied, awaited), "{change:?}");
        assert_eq!(bytes(std::slice::from_ref(&change)).is_empty(), !copied);
    }
}

#[test]
fn a_change_shares_no_memory_with_what_it_was_read_from() {
    let topic = gatepost_message::Topic::new("a").expect("a topic");
    let publication = Arc::new(Publication::new(topic, vec![1; 100]));
    let message = SessionChange::Message {
        number: 1,
        publication,
    };
    let whole = bytes(&[StoreChange::Session(message)]);
    let read_back = read(&mut Input::new(whole.clone())).expect("a change");
    let StoreChange::Session(SessionChange::Message { publication, .. }) = read_back else {
        panic!("{read_back:?}");
    };
    let payload = publication.payload.as_ptr();
    assert!(!whole.as_ptr_range().contains(&payload));
}
