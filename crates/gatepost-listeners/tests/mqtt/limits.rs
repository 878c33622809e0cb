//! Each limit, reached: the protocol's answer, and the counter.

use std::time::{Duration, Instant};

use gatepost_broker::{BrokerSettings, Limit};
use gatepost_listeners::mqtt::MqttSettings;
use gatepost_message::{Qos, Topic, TopicFilter};
use gatepost_mqtt::{
    Connect, Packet, PacketId, PacketProperties, Reason, SubscriptionOptions, Version,
};
use gatepost_settings::ByteSize;
use gatepost_store::{StoreChange, StoreSettings};

use crate::disk::{self, Disk};
use crate::server::Server;
use crate::wire::{Wire, plain_connect};

const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) fn with(change: impl FnOnce(&mut BrokerSettings)) -> Server {
    let mut settings = BrokerSettings::default();
    change(&mut settings);
    Server::with(settings, MqttSettings::default())
}

/// The reason of the CONNACK.
fn knock_as(server: &Server, connect: Connect<'_>) -> (Wire, Reason) {
    let mut wire = Wire::open(server.address, Version::Mqtt5);
    wire.send(&Packet::Connect(connect));
    let reason = wire.expect(|packet| match packet {
        Packet::Connack(connack) => connack.reason,
        other => panic!("not a CONNACK: {other:?}"),
    });
    (wire, reason)
}

fn knock(server: &Server, client_id: &str) -> (Wire, Reason) {
    knock_as(server, plain_connect(Version::Mqtt5, client_id))
}

pub(crate) fn enter(server: &Server, client_id: &str) -> Wire {
    let (wire, reason) = knock(server, client_id);
    assert_eq!(reason, Reason::SUCCESS);
    wire
}

/// The reason of the PUBACK.
pub(crate) fn publish(wire: &mut Wire, topic: &str, retain: bool) -> Reason {
    wire.publish(topic, b"x", Qos::AtLeastOnce, retain);
    wire.expect(|packet| match packet {
        Packet::Puback(ack) => ack.reason,
        other => panic!("not a PUBACK: {other:?}"),
    })
}

/// The reason of the SUBACK.
fn subscribe(wire: &mut Wire, text: &str) -> Reason {
    let options = SubscriptionOptions::at(Qos::AtLeastOnce);
    wire.send(&Packet::Subscribe(gatepost_mqtt::Subscribe {
        packet_id: PacketId::new(5).expect("not zero"),
        properties: PacketProperties::EMPTY,
        filters: [gatepost_mqtt::Filter { text, options }]
            .into_iter()
            .collect(),
    }));
    wire.expect(|packet| match packet {
        Packet::Suback(suback) => suback.reasons[0],
        other => panic!("not a SUBACK: {other:?}"),
    })
}

/// The reason of the DISCONNECT that comes next.
fn end_reason(wire: &mut Wire) -> Reason {
    wire.expect(|packet| match packet {
        Packet::Disconnect(outcome) => outcome.reason,
        other => panic!("not a DISCONNECT: {other:?}"),
    })
}

pub(crate) fn is_counted(server: &Server, limit: Limit) -> bool {
    let stats = server.broker.stats(0, 0);
    stats
        .limits
        .iter()
        .any(|&(counted, count)| counted == limit && count > 0)
}

#[test]
fn connections_of_a_listener() {
    for per_address in [false, true] {
        let settings = MqttSettings {
            connections_max: u32::from(!per_address).into(),
            connections_per_address_max: u32::from(per_address),
            ..MqttSettings::default()
        };
        let server = Server::with(BrokerSettings::default(), settings);
        let _first = enter(&server, "first");
        assert_eq!(knock(&server, "second").1, Reason::QUOTA_EXCEEDED);
        assert!(is_counted(&server, Limit::Connections));
    }
}

#[test]
fn sessions() {
    let server = with(|settings| settings.sessions_max = 1);
    let _first = enter(&server, "first");
    assert_eq!(knock(&server, "second").1, Reason::QUOTA_EXCEEDED);
    assert!(is_counted(&server, Limit::Sessions));
}

#[test]
fn connections_of_a_user() {
    let server = with(|settings| settings.connections_per_user_max = 1);
    for name in ["anna", "otto"] {
        server.change(server.users.add(name, "secret".into(), false));
    }
    let connect = |client_id, user_name| {
        let connect = Connect {
            user_name: Some(user_name),
            password: Some(b"secret"),
            ..plain_connect(Version::Mqtt5, client_id)
        };
        knock_as(&server, connect)
    };
    let (mut first, reason) = connect("a", "anna");
    assert_eq!(reason, Reason::SUCCESS);
    assert_eq!(connect("b", "anna").1, Reason::QUOTA_EXCEEDED);
    assert_eq!(connect("c", "otto").1, Reason::SUCCESS);
    assert!(is_counted(&server, Limit::ConnectionsOfUser));
    first.send_bytes(&[0xE0, 0]);
    assert!(first.is_closed());
    let deadline = Instant::now() + PATIENCE;
    while connect("d", "anna").1 != Reason::SUCCESS {
        assert!(Instant::now() < deadline, "the place is free again");
    }
}

#[test]
fn connects_in_a_second() {
    let server = with(|settings| settings.connects_per_second_max = 1);
    let refused = (0..1000)
        .map(|_| knock(&server, "again").1)
        .find(|&reason| reason != Reason::SUCCESS);
    assert_eq!(refused, Some(Reason::CONNECTION_RATE_EXCEEDED));
    assert!(is_counted(&server, Limit::ConnectRate));
}

#[test]
fn publications_in_a_second() {
    let server = with(|settings| settings.publishes_per_second_max = 5);
    let mut wire = enter(&server, "fast");
    for _ in 0..1000 {
        wire.publish("a", b"x", Qos::AtMostOnce, false);
    }
    assert_eq!(end_reason(&mut wire), Reason::MESSAGE_RATE_TOO_HIGH);
    assert!(is_counted(&server, Limit::PublishRate));
}

#[test]
fn depth_and_length_of_topics() {
    let server = with(|settings| {
        settings.topic_levels_max = 2;
        settings.topic_bytes_max = 8;
    });
    let mut wire = enter(&server, "deep");
    assert_eq!(subscribe(&mut wire, "a/#"), Reason(1));
    assert_eq!(subscribe(&mut wire, "a/b/#"), Reason::TOPIC_FILTER_INVALID);
    assert_eq!(
        subscribe(&mut wire, "123456789"),
        Reason::TOPIC_FILTER_INVALID
    );
    assert!(is_counted(&server, Limit::Topic));
    for topic in ["a/b/c", "123456789"] {
        let mut wire = enter(&server, "publisher");
        wire.publish(topic, b"x", Qos::AtLeastOnce, false);
        assert_eq!(end_reason(&mut wire), Reason::TOPIC_NAME_INVALID, "{topic}");
    }
}

#[test]
fn subscriptions_of_a_session() {
    let server = with(|settings| settings.subscriptions_per_session_max = 1);
    let mut wire = enter(&server, "many");
    assert_eq!(subscribe(&mut wire, "a"), Reason(1));
    assert_eq!(subscribe(&mut wire, "b"), Reason::QUOTA_EXCEEDED);
    assert_eq!(subscribe(&mut wire, "a"), Reason(1), "counted once");
    assert!(is_counted(&server, Limit::Subscriptions));
}

#[test]
fn retained_messages() {
    let server = with(|settings| settings.retained_messages_max = 1);
    let mut wire = enter(&server, "keeper");
    assert_eq!(
        publish(&mut wire, "a", true),
        Reason::NO_MATCHING_SUBSCRIBERS
    );
    assert_eq!(publish(&mut wire, "b", true), Reason::QUOTA_EXCEEDED);
    assert_eq!(
        publish(&mut wire, "a", true),
        Reason::NO_MATCHING_SUBSCRIBERS
    );
    assert!(is_counted(&server, Limit::Retained));
}

#[test]
fn bytes_of_retained_messages() {
    let server = with(|settings| settings.retained_bytes_max = ByteSize(12));
    let mut wire = enter(&server, "keeper");
    let mut keep = |topic: &str, bytes: usize| {
        wire.publish(topic, &vec![b'x'; bytes], Qos::AtLeastOnce, true);
        wire.expect(|packet| match packet {
            Packet::Puback(ack) => ack.reason,
            other => panic!("not a PUBACK: {other:?}"),
        })
    };
    let kept = Reason::NO_MATCHING_SUBSCRIBERS;
    assert_eq!(keep("a", 6), kept);
    assert_eq!(
        keep("b", 6),
        Reason::QUOTA_EXCEEDED,
        "14 bytes are too many"
    );
    assert_eq!(keep("b", 4), kept);
    assert_eq!(keep("a", 7), Reason::QUOTA_EXCEEDED, "nor in place of 6");
    assert_eq!(keep("a", 1), kept, "a smaller one makes room");
    assert_eq!(keep("b", 9), kept);
    // A replaced message goes when the commit of its successor is known.
    let deadline = Instant::now() + PATIENCE;
    while server.broker.stats(0, 0).retained_bytes != 12 {
        assert!(Instant::now() < deadline, "topics and payloads");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(is_counted(&server, Limit::Retained));
}

/// A session whose client is away, and that subscribes to `a` at QoS 1.
fn leave_session(server: &Server) {
    let mut absent = enter_again(server, "absent");
    absent.subscribe("a", Qos::AtLeastOnce);
    absent.send_bytes(&[0xE0, 0]);
    assert!(absent.is_closed());
}

#[test]
fn bytes_of_the_queue_of_a_session() {
    let server = with(|settings| settings.queue_bytes_max = ByteSize(12));
    leave_session(&server);
    let mut wire = enter(&server, "publisher");
    let reasons = [6, 4, 1].map(|bytes| {
        wire.publish("a", &vec![b'x'; bytes], Qos::AtLeastOnce, false);
        wire.expect(|packet| match packet {
            Packet::Puback(ack) => ack.reason,
            other => panic!("not a PUBACK: {other:?}"),
        })
    });
    let expected = [Reason::SUCCESS, Reason::SUCCESS, Reason::QUOTA_EXCEEDED];
    assert_eq!(
        reasons, expected,
        "12 bytes wait, topics included, and no more"
    );
    assert!(is_counted(&server, Limit::Queue));
}

#[test]
fn the_queue_of_a_session() {
    let server = with(|settings| settings.queue_messages_max = 2);
    leave_session(&server);
    let mut wire = enter(&server, "publisher");
    let reasons = [(); 3].map(|()| publish(&mut wire, "a", false));
    let expected = [Reason::SUCCESS, Reason::SUCCESS, Reason::QUOTA_EXCEEDED];
    assert_eq!(reasons, expected, "no answer promises what is dropped");
    assert!(is_counted(&server, Limit::Queue));
}

/// MQTT 3.1.1 cannot say that a publication was not taken: its connection ends \[MQTT-4.8.0-2\].
#[test]
fn an_mqtt_3_1_1_publisher_is_not_acknowledged_beyond_a_limit() {
    let retaining = with(|settings| settings.retained_messages_max = 1);
    publish(&mut enter(&retaining, "keeper"), "b", true);
    let queueing = with(|settings| settings.queue_messages_max = 1);
    leave_session(&queueing);
    publish(&mut enter(&queueing, "first"), "a", false);
    for (server, retain) in [(&retaining, true), (&queueing, false)] {
        for qos in [Qos::AtLeastOnce, Qos::ExactlyOnce] {
            let mut wire = Wire::connected(server.address, Version::Mqtt311, "publisher");
            wire.publish("a", b"x", qos, retain);
            assert!(wire.is_closed(), "retained: {retain}, {qos:?}");
        }
    }
}

/// Were the repetition refused like the publication, its sender would never get further. Its
/// subscribers have it, at QoS 2 once.
#[test]
fn an_mqtt_3_1_1_publisher_gets_beyond_what_cannot_be_retained() {
    for qos in [Qos::AtLeastOnce, Qos::ExactlyOnce] {
        let server = with(|settings| settings.retained_messages_max = 1);
        publish(&mut enter(&server, "keeper"), "b", true);
        let mut subscriber = enter(&server, "subscriber");
        subscriber.subscribe("a", qos);
        let mut wire = enter_again(&server, "publisher");
        wire.publish("a", b"first", qos, true);
        assert!(wire.is_closed(), "the client learns of it: {qos:?}");
        let mut wire = enter_again(&server, "publisher");
        wire.publish_again("a", b"first", qos, true);
        let answer = wire.receive().expect("PUBACK or PUBREC");
        assert_eq!(answer[0] >> 4, if qos == Qos::AtLeastOnce { 4 } else { 5 });
        wire.publish("a", b"next", Qos::AtMostOnce, false);
        let mut payloads = Vec::new();
        while payloads.last().map(String::as_str) != Some("next") {
            subscriber.expect(|packet| match packet {
                Packet::Publish(publish) => {
                    payloads.push(String::from_utf8_lossy(publish.payload).into_owned());
                }
                other => panic!("not a PUBLISH: {other:?}"),
            });
        }
        let times = if qos == Qos::AtLeastOnce { 2 } else { 1 };
        assert_eq!(payloads.len(), times + 1, "{payloads:?}");
        assert!(is_counted(&server, Limit::Retained));
    }
}

/// With MQTT 3.1.1 and a session that outlives its connection.
fn enter_again(server: &Server, client_id: &str) -> Wire {
    let mut wire = Wire::open(server.address, Version::Mqtt311);
    wire.send(&Packet::Connect(Connect {
        clean_start: false,
        ..plain_connect(Version::Mqtt311, client_id)
    }));
    wire.receive().expect("a CONNACK");
    wire
}

/// A publication that would wait for the disk above `store.waiting_max` is refused.
#[test]
fn bytes_that_wait_for_the_disk() {
    let (disk, store) = Disk::with(StoreSettings {
        waiting_max: ByteSize(0),
        ..disk::settings()
    });
    let (broker, mqtt) = (BrokerSettings::default(), MqttSettings::default());
    let server = Server::with_store(broker, mqtt, None, store);
    disk.hold();
    // One commit is under way, and one group may always wait. The broker's own changes may be
    // either of them: more is submitted until a group waits longer than a writer needs to take it.
    let topic = Topic::new("waiting").expect("a topic");
    let deadline = Instant::now() + PATIENCE;
    let mut taken = Instant::now();
    while taken.elapsed() < Duration::from_millis(500) {
        assert!(Instant::now() < deadline, "a group waits");
        // Refused as soon as one waits.
        let _ = server.store.submit([StoreChange::Unretain(topic.clone())]);
        std::thread::sleep(Duration::from_millis(10));
        if server.store.waiting_bytes() == 0 {
            taken = Instant::now();
        }
    }
    let mut wire = enter(&server, "publisher");
    assert_eq!(publish(&mut wire, "a", true), Reason::QUOTA_EXCEEDED);
    for qos in [Qos::AtLeastOnce, Qos::ExactlyOnce] {
        let mut wire = Wire::connected(server.address, Version::Mqtt311, "older");
        wire.publish("a", b"x", qos, true);
        assert!(wire.is_closed(), "{qos:?} is not acknowledged");
    }
    let kept = server
        .broker
        .retained(&TopicFilter::new("#").expect("a filter"));
    assert!(kept.is_empty(), "what was refused is not there");
    disk.release();
}

#[test]
fn memory() {
    let server = with(|settings| settings.memory_max = ByteSize(1));
    // The housekeeper looks once a second; earlier clients are connected.
    let early = knock(&server, "early");
    let deadline = Instant::now() + PATIENCE;
    while knock(&server, "late").1 != Reason::QUOTA_EXCEEDED {
        assert!(Instant::now() < deadline, "connections are refused");
    }
    if let (mut wire, Reason::SUCCESS) = early {
        assert_eq!(publish(&mut wire, "a", false), Reason::QUOTA_EXCEEDED);
    }
    assert!(is_counted(&server, Limit::Memory));
}

#[test]
fn a_large_connect_is_refused_before_the_login() {
    let server = Server::with_users(MqttSettings {
        connect_max: ByteSize::kibibytes(4),
        ..MqttSettings::default()
    });
    let password = vec![b'x'; 60_000];
    for version in [Version::Mqtt311, Version::Mqtt5] {
        let mut wire = Wire::open(server.address, version);
        wire.send(&Packet::Connect(Connect {
            user_name: Some("anna"),
            password: Some(&password),
            ..plain_connect(version, "large")
        }));
        assert_eq!(wire.receive(), None, "{version}: closed, not answered");
        // Only the length was read: the server does not wait for the announced bytes.
        let mut wire = Wire::open(server.address, version);
        wire.send_bytes(&[0x10, 0xFF, 0xFF, 0xFF, 0x7F]);
        assert_eq!(wire.receive(), None, "{version}: closed at once");
    }
}

#[test]
fn retained_messages_count_with_their_properties() {
    let server = with(|settings| settings.retained_bytes_max = ByteSize::kibibytes(100));
    let mut wire = enter(&server, "large");
    let value = "v".repeat(60_000);
    let mut retain = |topic: &str| {
        let mut properties = gatepost_mqtt::PropertiesBuffer::new();
        properties
            .push(&gatepost_mqtt::Property::UserProperty(("name", &value)))
            .expect("short enough");
        wire.send(&Packet::Publish(gatepost_mqtt::Publish {
            dup: false,
            qos: Qos::AtLeastOnce,
            retain: true,
            topic,
            packet_id: PacketId::new(9),
            properties: properties.as_properties(),
            payload: b"x",
        }));
        wire.expect(|packet| match packet {
            Packet::Puback(ack) => ack.reason,
            other => panic!("not a PUBACK: {other:?}"),
        })
    };
    assert!(!retain("a").is_error());
    assert_eq!(retain("b"), Reason::QUOTA_EXCEEDED);
    assert!(!retain("a").is_error(), "in place of the first");
    let stats = server.broker.stats(0, 0);
    assert_eq!(stats.retained, 1);
    assert!(stats.retained_bytes > 60_000, "{}", stats.retained_bytes);
}

#[test]
fn filters_of_a_session_are_bounded_in_bytes() {
    let server = with(|settings| {
        settings.subscription_bytes_per_session_max = ByteSize::kibibytes(100);
    });
    let mut wire = enter(&server, "long");
    let long = |name: &str| format!("{name}/{}", "x".repeat(60_000));
    assert!(!subscribe(&mut wire, &long("a")).is_error());
    assert_eq!(subscribe(&mut wire, &long("b")), Reason::QUOTA_EXCEEDED);
    assert!(!subscribe(&mut wire, &long("a")).is_error(), "again");
    assert!(!subscribe(&mut wire, "short").is_error());
    assert!(is_counted(&server, Limit::Subscriptions));
}
