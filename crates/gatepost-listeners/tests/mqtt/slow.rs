//! Subscribers that stop reading: the effect of each policy on them, on publishers, and on the
//! counters.
//!
//! Publications are large and numbered, so that the kernel's buffers are full after some hundred; a
//! test waits for the state of the session, never for a time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use gatepost_broker::{BrokerSettings, DropCause, Limit, SessionStats, SlowSubscriber};
use gatepost_listeners::mqtt::MqttSettings;
use gatepost_message::Qos;
use gatepost_mqtt::{Connect, Packet, Version};
use gatepost_settings::{ByteSize, Period};

use crate::server::Server;
use crate::wire::{Wire, plain_connect};

const PATIENCE: Duration = Duration::from_mins(1);
const PAYLOAD_BYTES: usize = 64 * 1024;
/// More than the kernel buffers between two sockets of one machine (10 MB by default) and the
/// outbox take.
const PUBLICATIONS: usize = 600;

fn with(policy: SlowSubscriber) -> Server {
    let settings = BrokerSettings {
        slow_subscriber: policy,
        outbox_max: ByteSize::mebibytes(1),
        ..BrokerSettings::default()
    };
    Server::with(settings, MqttSettings::default())
}

fn payload(number: usize) -> Vec<u8> {
    let mut payload = vec![b'.'; PAYLOAD_BYTES];
    payload[..8].copy_from_slice(format!("{number:08}").as_bytes());
    payload
}

/// Publishes all numbers under `topic_of` them, and returns when the server has seen them.
fn publish_all(server: &Server, topic_of: impl Fn(usize) -> &'static str) {
    let mut wire = Wire::connected(server.address, Version::Mqtt5, "publisher");
    for number in 0..PUBLICATIONS {
        let topic = topic_of(number);
        wire.publish(topic, &payload(number), Qos::AtMostOnce, false);
    }
    assert!(wire.is_alive());
}

fn slow_session(server: &Server) -> Option<SessionStats> {
    let sessions = server.broker.stats(0, 100).queues;
    sessions
        .into_iter()
        .find(|session| session.client == "slow")
}

fn await_session(server: &Server, what: &str, is_so: impl Fn(&SessionStats) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !slow_session(server).is_some_and(|session| is_so(&session)) {
        assert!(
            Instant::now() < deadline,
            "{what}: {:?}",
            slow_session(server)
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn dropped_for(session: &SessionStats, cause: DropCause) -> usize {
    let found = session.dropped_by.iter().find(|(known, _)| *known == cause);
    found.map_or(0, |(_, count)| *count as usize)
}

/// Reads until `count` publications were received.
fn read(wire: &mut Wire, count: usize) -> Vec<(String, usize)> {
    let number = |payload: &[u8]| {
        let text = std::str::from_utf8(&payload[..8]).expect("a number");
        text.parse().expect("a number")
    };
    (0..count)
        .map(|_| {
            wire.expect(|packet| match packet {
                Packet::Publish(publish) => (publish.topic.to_owned(), number(publish.payload)),
                other => panic!("not a PUBLISH: {other:?}"),
            })
        })
        .collect()
}

fn subscriber(server: &Server) -> Wire {
    let mut wire = Wire::connected(server.address, Version::Mqtt5, "slow");
    wire.subscribe("#", Qos::AtMostOnce);
    wire
}

#[test]
fn drop_newest_keeps_the_first_messages() {
    let server = with(SlowSubscriber::DropNewest);
    let mut slow = subscriber(&server);
    publish_all(&server, |_| "a");
    let session = slow_session(&server).expect("it is there");
    let dropped = dropped_for(&session, DropCause::OutboxFull);
    assert!(dropped > 0);
    assert_eq!(session.dropped as usize, dropped, "all have the one cause");
    let got = read(&mut slow, PUBLICATIONS - dropped);
    let expected: Vec<_> = (0..PUBLICATIONS - dropped)
        .map(|number| ("a".to_owned(), number))
        .collect();
    assert_eq!(got, expected);
    assert!(slow.is_alive(), "nothing else came");
}

#[test]
fn messages_of_an_outbox_are_counted_as_its_bytes_are() {
    let settings = BrokerSettings {
        slow_subscriber: SlowSubscriber::DropNewest,
        outbox_max: ByteSize::mebibytes(1_024),
        outbox_messages_max: 5,
        ..BrokerSettings::default()
    };
    let server = Server::with(settings, MqttSettings::default());
    let mut slow = subscriber(&server);
    publish_all(&server, |_| "a");
    let session = slow_session(&server).expect("it is there");
    assert!(session.queued <= 5, "{session:?}");
    let dropped = dropped_for(&session, DropCause::OutboxFull);
    assert!(dropped > 0);
    let got = read(&mut slow, PUBLICATIONS - dropped);
    assert!(got.is_sorted());
    assert!(slow.is_alive(), "nothing else came");
    let stats = server.broker.stats(0, 0);
    let reached = stats
        .limits
        .iter()
        .find(|(limit, _)| *limit == Limit::Outbox);
    assert!(reached.is_some_and(|(_, count)| *count > 0));
}

#[test]
fn drop_oldest_keeps_the_last_messages() {
    let server = with(SlowSubscriber::DropOldest);
    let mut slow = subscriber(&server);
    publish_all(&server, |_| "a");
    let session = slow_session(&server).expect("it is there");
    let dropped = dropped_for(&session, DropCause::OutboxFull);
    assert!(dropped > 0);
    let got = read(&mut slow, PUBLICATIONS - dropped);
    assert!(got.is_sorted(), "in order");
    assert_eq!(
        got.last().map(|(_, number)| *number),
        Some(PUBLICATIONS - 1)
    );
    assert!(slow.is_alive(), "nothing else came");
}

#[test]
fn newest_only_keeps_the_last_of_each_topic() {
    let server = with(SlowSubscriber::NewestOnly);
    let mut slow = subscriber(&server);
    publish_all(&server, |number| ["a", "b"][number % 2]);
    let session = slow_session(&server).expect("it is there");
    let dropped = dropped_for(&session, DropCause::Superseded);
    assert!(dropped > 0);
    let got = read(&mut slow, PUBLICATIONS - dropped);
    let newest: BTreeMap<String, usize> = got.iter().cloned().collect();
    let expected = [("a", PUBLICATIONS - 2), ("b", PUBLICATIONS - 1)];
    let expected = expected.map(|(topic, number)| (topic.to_owned(), number));
    assert_eq!(newest, BTreeMap::from(expected));
    assert!(slow.is_alive(), "nothing else came");
}

#[test]
fn disconnect_ends_the_connection() {
    let server = with(SlowSubscriber::Disconnect);
    let mut slow = subscriber(&server);
    publish_all(&server, |_| "a");
    while slow.receive().is_some() {}
    let stats = server.broker.stats(0, 0);
    let stalled = stats
        .dropped
        .iter()
        .find(|(cause, _)| *cause == DropCause::Stalled);
    assert!(stalled.is_some_and(|(_, count)| *count > 0));
}

#[test]
fn slow_publisher_loses_nothing() {
    let server = with(SlowSubscriber::SlowPublisher);
    let mut slow = subscriber(&server);
    std::thread::scope(|scope| {
        let publishing = scope.spawn(|| publish_all(&server, |_| "a"));
        await_session(&server, "its outbox is full", |session| {
            session.queued_bytes > 1024 * 1024
        });
        // The publisher may exceed the bound only by the bytes that had been read already.
        assert!(!publishing.is_finished(), "the publisher waits");
        let got = read(&mut slow, PUBLICATIONS);
        assert!(got.is_sorted());
        publishing.join().expect("it ends");
    });
    assert_eq!(server.broker.stats(0, 0).dropped_total(), 0);
}

#[test]
fn a_client_that_does_not_acknowledge_slows_the_publisher() {
    let settings = BrokerSettings {
        queue_messages_max: 100,
        inflight_max: 10,
        ..BrokerSettings::default()
    };
    let server = Server::with(settings, MqttSettings::default());
    let mut slow = Wire::connected(server.address, Version::Mqtt311, "slow");
    slow.subscribe("a", Qos::AtLeastOnce);
    let count = 500;
    std::thread::scope(|scope| {
        let publishing = scope.spawn(|| {
            let mut wire = Wire::connected(server.address, Version::Mqtt5, "publisher");
            for _ in 0..count {
                wire.publish("a", b"x", Qos::AtLeastOnce, false);
                let reason = wire.expect(|packet| match packet {
                    Packet::Puback(ack) => ack.reason,
                    other => panic!("not a PUBACK: {other:?}"),
                });
                assert!(!reason.is_error(), "{reason}");
            }
        });
        await_session(&server, "its queue is half full", |session| {
            session.queued > 50
        });
        assert!(!publishing.is_finished(), "the publisher waits");
        for _ in 0..count {
            let packet_id = slow.expect(|packet| match packet {
                Packet::Publish(publish) => publish.packet_id.expect("QoS 1"),
                other => panic!("not a PUBLISH: {other:?}"),
            });
            slow.send(&Packet::Puback(gatepost_mqtt::Ack::success(packet_id)));
        }
        publishing.join().expect("all are acknowledged");
    });
    assert_eq!(server.broker.stats(0, 0).dropped_total(), 0);
}

#[test]
fn newest_only_applies_to_queued_messages_of_an_absent_client() {
    let server = with(SlowSubscriber::NewestOnly);
    let connect = Connect {
        clean_start: false,
        ..plain_connect(Version::Mqtt311, "slow")
    };
    let mut slow = Wire::open(server.address, Version::Mqtt311);
    slow.send(&Packet::Connect(connect));
    slow.receive().expect("a CONNACK");
    slow.subscribe("#", Qos::AtLeastOnce);
    slow.send_bytes(&[0xE0, 0]);
    assert!(slow.is_closed());
    let mut wire = Wire::connected(server.address, Version::Mqtt5, "publisher");
    for number in 0..10 {
        let topic = ["a", "b"][number % 2];
        let text = format!("{number:08}");
        wire.publish(topic, text.as_bytes(), Qos::AtLeastOnce, false);
        wire.receive().expect("a PUBACK");
    }
    let mut slow = Wire::open(server.address, Version::Mqtt311);
    slow.send(&Packet::Connect(connect));
    assert_eq!(slow.receive().expect("a CONNACK")[2], 1, "session present");
    let got = read(&mut slow, 2);
    assert_eq!(got, [("a".to_owned(), 8), ("b".to_owned(), 9)]);
    let session = slow_session(&server).expect("it is there");
    assert_eq!(dropped_for(&session, DropCause::Superseded), 8);
}

#[test]
fn the_users_policy_overrides_the_listeners_and_that_the_brokers() {
    let of_user = [("anna".to_owned(), SlowSubscriber::NewestOnly)];
    let broker = BrokerSettings {
        slow_subscriber: SlowSubscriber::DropNewest,
        slow_subscriber_of_user: of_user.into(),
        ..BrokerSettings::default()
    };
    let listener = MqttSettings {
        slow_subscriber: Some(SlowSubscriber::DropOldest),
        ..MqttSettings::default()
    };
    let expected = [
        (None, None, SlowSubscriber::DropNewest),
        (None, listener.slow_subscriber, SlowSubscriber::DropOldest),
        (
            Some("otto"),
            listener.slow_subscriber,
            SlowSubscriber::DropOldest,
        ),
        (
            Some("anna"),
            listener.slow_subscriber,
            SlowSubscriber::NewestOnly,
        ),
    ];
    for (user, of_listener, policy) in expected {
        let settings = MqttSettings {
            slow_subscriber: of_listener,
            ..listener.clone()
        };
        let server = Server::with(broker.clone(), settings);
        if let Some(user) = user {
            server.change(server.users.add(user, "secret".into(), false));
        }
        let mut wire = Wire::open(server.address, Version::Mqtt5);
        wire.send(&Packet::Connect(Connect {
            user_name: user,
            password: user.map(|_| &b"secret"[..]),
            ..plain_connect(Version::Mqtt5, "slow")
        }));
        assert_eq!(wire.receive().expect("a CONNACK")[3], 0);
        let session = slow_session(&server).expect("it is there");
        assert_eq!(session.policy, policy, "{user:?} at {of_listener:?}");
    }
}

#[test]
fn a_subscriber_that_acknowledges_now_and_then_does_not_hold_its_publishers() {
    let settings = BrokerSettings {
        queue_messages_max: 100,
        inflight_max: 10,
        patience: Period::seconds(1),
        ..BrokerSettings::default()
    };
    let server = Server::with(settings, MqttSettings::default());
    let mut slow = Wire::connected(server.address, Version::Mqtt5, "slow");
    slow.subscribe("a", Qos::AtLeastOnce);
    std::thread::scope(|scope| {
        let publishing = scope.spawn(|| {
            let mut wire = Wire::connected(server.address, Version::Mqtt5, "publisher");
            for _ in 0..500 {
                wire.publish("a", b"x", Qos::AtLeastOnce, false);
                let bytes = loop {
                    if let Some(bytes) = wire.try_receive() {
                        break bytes.expect("a PUBACK");
                    }
                };
                assert_eq!(bytes[0], 0x40);
            }
        });
        // Always something, never enough: it is given up all the same.
        let mut acknowledged = 0;
        let reason = loop {
            let packet_id = slow.expect(|packet| match packet {
                Packet::Publish(publish) => Ok(publish.packet_id.expect("QoS 1")),
                Packet::Disconnect(outcome) => Err(outcome.reason),
                other => panic!("not expected: {other:?}"),
            });
            match packet_id {
                Err(reason) => break reason,
                Ok(packet_id) => {
                    std::thread::sleep(Duration::from_millis(200));
                    acknowledged += 1;
                    slow.send(&Packet::Puback(gatepost_mqtt::Ack::success(packet_id)));
                }
            }
        };
        assert_eq!(reason, gatepost_mqtt::Reason::QUOTA_EXCEEDED);
        assert!(acknowledged < 200, "{acknowledged}");
        publishing.join().expect("all are acknowledged");
    });
}
