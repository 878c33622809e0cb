//! Each limit, reached: the protocol's answer, and the counter.

mod queues;
mod retained;

use std::time::{Duration, Instant};

use gatepost_broker::{BrokerSettings, Limit};
use gatepost_listeners::mqtt::MqttSettings;
use gatepost_message::Qos;
use gatepost_mqtt::{
    Connect, Packet, PacketId, PacketProperties, Reason, SubscriptionOptions, Version,
};
use gatepost_settings::ByteSize;

use crate::server::Server;
use crate::wire::{Wire, plain_connect};
use queues::leave_session;

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

/// The reason of the next packet, which is a DISCONNECT.
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
    let (_first, reason) = connect("a", "anna");
    assert_eq!(reason, Reason::SUCCESS);
    assert_eq!(connect("b", "anna").1, Reason::QUOTA_EXCEEDED);
    assert_eq!(connect("c", "otto").1, Reason::SUCCESS);
    assert!(is_counted(&server, Limit::ConnectionsOfUser));
    // A client that returns before the server has noticed that its connection was lost.
    let (mut first, reason) = connect("a", "anna");
    assert_eq!(reason, Reason::SUCCESS);
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

#[test]
fn a_quota_of_zero_counts_as_one() {
    let settings = MqttSettings {
        receive_max: 0,
        ..MqttSettings::default()
    };
    let server = Server::with(BrokerSettings::default(), settings);
    let mut wire = enter(&server, "publisher");
    assert!(wire.is_alive(), "it is read");
    for _ in 0..3 {
        let reason = publish(&mut wire, "a", false);
        assert_eq!(reason, Reason::NO_MATCHING_SUBSCRIBERS);
    }
}
