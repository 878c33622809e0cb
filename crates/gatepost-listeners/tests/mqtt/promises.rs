//! The state that a CONNACK confirms is on disk when it arrives; and the server's properties in it.

use std::time::{Duration, Instant};

use gatepost_broker::BrokerSettings;
use gatepost_listeners::mqtt::MqttSettings;
use gatepost_message::Qos;
use gatepost_mqtt::{Connect, Packet, Version};
use gatepost_settings::Period;

use crate::server::Server;
use crate::wire::{Wire, plain_connect};

const PATIENCE: Duration = Duration::from_mins(1);

/// Connects to a session that outlives the connection; returns whether it was present.
fn lasting(server: &Server, client_id: &str, clean_start: bool) -> (Wire, bool) {
    let mut wire = Wire::open(server.address, Version::Mqtt311);
    wire.send(&Packet::Connect(Connect {
        clean_start,
        ..plain_connect(Version::Mqtt311, client_id)
    }));
    let connack = wire.receive().expect("a CONNACK");
    assert_eq!(connack[3], 0, "taken");
    (wire, connack[2] == 1)
}

fn stored_clients(server: &Server) -> Vec<String> {
    let mut clients = Vec::new();
    let visit = |row: gatepost_store::SessionRow| clients.push(row.client);
    server.store.each_session(visit).expect("readable");
    clients
}

#[test]
fn a_session_is_stored_before_its_client_is_greeted() {
    let server = Server::start();
    for number in 0..50 {
        let name = format!("client-{number}");
        let (_wire, present) = lasting(&server, &name, false);
        assert!(!present);
        assert!(stored_clients(&server).contains(&name), "{name}");
    }
}

#[test]
fn mqtt_3_1_2_4_a_session_is_removed_before_the_connack() {
    let server = Server::start();
    for _ in 0..50 {
        let (mut wire, _) = lasting(&server, "again", false);
        wire.subscribe("a", Qos::AtLeastOnce);
        let (_wire, present) = lasting(&server, "again", true);
        assert!(!present);
        assert!(stored_clients(&server).is_empty());
    }
}

#[test]
fn a_greeting_precedes_queued_messages() {
    let server = Server::start();
    let (mut wire, _) = lasting(&server, "absent", false);
    wire.subscribe("a", Qos::AtLeastOnce);
    drop(wire);
    let mut publisher = Wire::connected(server.address, Version::Mqtt5, "publisher");
    for _ in 0..50 {
        publisher.publish("a", b"x", Qos::AtLeastOnce, false);
        publisher.receive().expect("a PUBACK");
        let (mut wire, present) = lasting(&server, "absent", false);
        assert!(present, "the CONNACK comes first");
        let packet_id = wire.expect(|packet| match packet {
            Packet::Publish(publish) => publish.packet_id.expect("QoS 1"),
            other => panic!("not a PUBLISH: {other:?}"),
        });
        wire.send(&Packet::Puback(gatepost_mqtt::Ack::success(packet_id)));
        assert!(wire.is_alive());
    }
}

#[test]
fn the_load_is_published_as_averages() {
    let settings = BrokerSettings {
        sys_interval: Period::seconds(1),
        ..BrokerSettings::default()
    };
    let server = Server::with(settings, MqttSettings::default());
    let mut wire = Wire::connected(server.address, Version::Mqtt5, "watcher");
    wire.subscribe("work", Qos::AtMostOnce);
    wire.subscribe("$SYS/broker/load/#", Qos::AtMostOnce);
    wire.publish("work", b"x", Qos::AtMostOnce, false);
    let mut missing = Vec::new();
    for sum in [
        "connections",
        "publish/received",
        "publish/sent",
        "bytes/received",
        "bytes/sent",
    ] {
        for span in ["1min", "5min", "15min"] {
            missing.push(format!("$SYS/broker/load/{sum}/{span}"));
        }
    }
    let deadline = Instant::now() + PATIENCE;
    while !missing.is_empty() {
        assert!(Instant::now() < deadline, "{missing:?}");
        let Some(bytes) = wire.try_receive().flatten() else {
            continue;
        };
        let frame = gatepost_mqtt::Frame::split(&bytes, usize::MAX)
            .expect("valid")
            .expect("whole");
        if let Ok(Packet::Publish(publish)) = Packet::decode(Version::Mqtt5, frame)
            && publish.topic != "work"
        {
            let text = std::str::from_utf8(publish.payload).expect("text");
            let average: f64 = text.parse().expect("a number");
            missing.retain(|topic| topic != publish.topic || average <= 0.0);
        }
    }
}
