//! The values that the examples have.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use gatepost_broker::SessionName;
use gatepost_message::{MessageId, Properties, Publication, Qos, Topic, TopicFilter};
use gatepost_store::{
    DeliveryRow, SessionChange, SessionRow, SharedSet, StoreChange, SubscriptionRow, WillRow,
};

use crate::encoding::BundleOrigin;
use crate::log::position::{LogPosition, POSITION_SPACE};
use crate::moves::transfer::RELEASED_SPACE;
use crate::records::entry::SharedSets;

pub(super) const ORIGIN: BundleOrigin = BundleOrigin {
    node: 3,
    run: 1_700_000_000_000,
    number: 7,
};

pub(super) fn filter(text: &str) -> TopicFilter {
    TopicFilter::new(text).expect("a filter")
}

pub(super) fn plain() -> Publication {
    let mut publication = Publication::new(Topic::new("a/b").expect("a topic"), "on");
    publication.id = MessageId::from_number(0x0123_4567_89ab_cdef);
    publication.qos = Qos::AtLeastOnce;
    publication
}

/// A publication with every optional part.
pub(super) fn full() -> Publication {
    let properties = Properties {
        payload_is_text: Some(true),
        content_type: Some("text/plain".to_owned()),
        expiry_seconds: Some(60),
        response_topic: Some("answers".to_owned()),
        correlation_data: Some(Bytes::from_static(&[0, 255])),
        user: vec![("unit".to_owned(), "°C".to_owned())],
    };
    Publication {
        qos: Qos::ExactlyOnce,
        retain: true,
        properties: Some(Box::new(properties)),
        ..plain()
    }
}

pub(super) fn session_name() -> SessionName {
    SessionName {
        user: Some(Arc::from("anna")),
        client_id: Arc::from("meter"),
    }
}

pub(super) fn position() -> LogPosition {
    LogPosition {
        stream: 5,
        sequence: 9,
        delivered: 3,
    }
}

pub(super) fn subscription() -> SubscriptionRow {
    SubscriptionRow {
        session: 7,
        filter: filter("$share/g/a/#"),
        qos: Qos::ExactlyOnce,
        no_local: true,
        retain_as_published: false,
        identifier: Some(9),
    }
}

pub(super) fn delivery() -> DeliveryRow {
    DeliveryRow {
        session: 7,
        sequence: 4,
        message: plain().id.number(),
        qos: Qos::ExactlyOnce,
        retain: false,
        released: true,
        identifiers: vec![3, 4],
    }
}

/// Each change of sessions, with its name. A variant that is added does not compile here before it
/// has a name.
pub(super) fn session_changes() -> Vec<(&'static str, SessionChange)> {
    let row = SessionRow {
        number: 7,
        client: "meter".to_owned(),
        user: Some("anna".to_owned()),
        kind: "mqtt".to_owned(),
        expiry: Duration::from_hours(1),
        ended: Some(UNIX_EPOCH + Duration::from_secs(1_700_000_000)),
        sent: Some(5),
        will: Some(WillRow {
            message: 2,
            delay: Duration::from_secs(30),
        }),
    };
    let (session, sequence, packet, number) = (7, 4, 65_535, 2);
    let all = vec![
        SessionChange::Put(Box::new(row)),
        SessionChange::End { session },
        SessionChange::Subscribe(Box::new(subscription())),
        SessionChange::Unsubscribe {
            session,
            filter: filter("a/+"),
        },
        SessionChange::Message {
            number,
            publication: Arc::new(full()),
        },
        SessionChange::ForgetMessage { number },
        SessionChange::Enqueue(Box::new(delivery())),
        SessionChange::Release { session, sequence },
        SessionChange::Dequeue { session, sequence },
        SessionChange::Receive { session, packet },
        SessionChange::Unreceive { session, packet },
    ];
    let name = |change: &SessionChange| match change {
        SessionChange::Put(_) => "put",
        SessionChange::End { .. } => "end",
        SessionChange::Subscribe(_) => "subscribe",
        SessionChange::Unsubscribe { .. } => "unsubscribe",
        SessionChange::Message { .. } => "message",
        SessionChange::ForgetMessage { .. } => "forget-message",
        SessionChange::Enqueue(_) => "enqueue",
        SessionChange::Release { .. } => "release",
        SessionChange::Dequeue { .. } => "dequeue",
        SessionChange::Receive { .. } => "receive",
        SessionChange::Unreceive { .. } => "unreceive",
    };
    all.into_iter()
        .map(|change| (name(&change), change))
        .collect()
}

pub(super) fn record_changes() -> Vec<(&'static str, StoreChange)> {
    let (key, value) = (Bytes::from_static(&[0, 1]), Bytes::from_static(b"value"));
    let (space, prefix) = (RELEASED_SPACE, key.clone());
    vec![
        (
            "put-record",
            StoreChange::PutRecord {
                space: POSITION_SPACE,
                key: key.clone(),
                value,
            },
        ),
        (
            "delete-record",
            StoreChange::DeleteRecord {
                space: POSITION_SPACE,
                key,
            },
        ),
        (
            "delete-records",
            StoreChange::DeleteRecords { space, prefix },
        ),
    ]
}

static SET: SharedSet = SharedSet {
    name: "access",
    is_generated: false,
    spaces: &["user"],
    entry_of: |_, _, _| Some("anna".to_owned()),
};
static LISTS: SharedSet = SharedSet {
    name: "sender_list",
    spaces: &["sender_list"],
    ..SET
};
/// The sets of the shared records.
pub(super) const SETS: SharedSets = &[&SET, &LISTS];
