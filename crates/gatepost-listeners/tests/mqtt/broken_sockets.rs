//! Clients that close their socket while messages are on their way: the kernel resets such a
//! connection, and what the client sent before counts all the same.

use std::time::{Duration, Instant};

use gatepost_broker::{BrokerSettings, SlowSubscriber};
use gatepost_listeners::mqtt::MqttSettings;
use gatepost_message::Qos;
use gatepost_mqtt::{Connect, Packet, PacketProperties, Reason, ReasonedPacket, Version, Will};
use gatepost_settings::ByteSize;

use crate::server::Server;
use crate::wire::{Wire, plain_connect};

const PATIENCE: Duration = Duration::from_mins(1);
static PAYLOAD: [u8; 64 * 1024] = [b'.'; 64 * 1024];
/// More than the kernel buffers between two sockets of one machine (10 MB by default) take.
const PUBLICATIONS: usize = 400;
/// The server notices a reset by reading or by writing, as it happens.
const ROUNDS: usize = 20;

fn mortal(server: &Server) -> Wire {
    let mut client = Wire::open(server.address, Version::Mqtt5);
    client.send(&Packet::Connect(Connect {
        will: Some(Will {
            topic: "wills",
            payload: b"will",
            qos: Qos::AtMostOnce,
            retain: false,
            properties: PacketProperties::EMPTY,
        }),
        ..plain_connect(Version::Mqtt5, "mortal")
    }));
    assert_eq!(client.receive().expect("a CONNACK")[0], 0x20);
    client.subscribe("flood", Qos::AtMostOnce);
    client
}

/// A server on which a subscriber that does not read does not slow publishers.
fn server() -> Server {
    let settings = BrokerSettings {
        slow_subscriber: SlowSubscriber::DropNewest,
        outbox_max: ByteSize::mebibytes(1),
        ..BrokerSettings::default()
    };
    Server::with(settings, MqttSettings::default())
}

/// Publishes until the client's socket takes no more.
fn flood(publisher: &mut Wire) {
    for _ in 0..PUBLICATIONS {
        publisher.publish("flood", &PAYLOAD, Qos::AtMostOnce, false);
    }
    assert!(publisher.is_alive());
}

/// Waits until the server has noticed that the client has gone.
fn await_end(server: &Server, client: &str) {
    let deadline = Instant::now() + PATIENCE;
    let is_connected = || {
        let sessions = server.broker.stats(0, 100).queues;
        let mut of_client = sessions.iter().filter(|session| session.client == client);
        of_client.any(|session| session.connected)
    };
    while is_connected() {
        assert!(Instant::now() < deadline, "its connection ends");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn mqtt_3_14_4_3_a_disconnect_before_a_reset_removes_the_will() {
    let server = server();
    let mut observer = Wire::connected(server.address, Version::Mqtt5, "observer");
    observer.subscribe("wills", Qos::AtMostOnce);
    let mut publisher = Wire::connected(server.address, Version::Mqtt5, "publisher");
    for round in 0..ROUNDS {
        let mut client = mortal(&server);
        flood(&mut publisher);
        client.send(&Packet::Disconnect(ReasonedPacket::new(
            Reason::SUCCESS,
            PacketProperties::EMPTY,
        )));
        drop(client);
        await_end(&server, "mortal");
        publisher.publish("wills", b"marker", Qos::AtMostOnce, false);
        observer.expect(|packet| match packet {
            Packet::Publish(publish) => {
                assert_eq!(publish.payload, b"marker", "round {round}");
            }
            other => panic!("not a PUBLISH: {other:?}"),
        });
    }
}

/// Connects with the session of an earlier connection, if there is one.
fn reader(server: &Server) -> Wire {
    let mut client = Wire::open(server.address, Version::Mqtt311);
    client.send(&Packet::Connect(Connect {
        clean_start: false,
        ..plain_connect(Version::Mqtt311, "reader")
    }));
    assert_eq!(client.receive().expect("a CONNACK")[0], 0x20);
    client
}

#[test]
fn an_acknowledgement_before_a_reset_counts() {
    let server = server();
    let mut publisher = Wire::connected(server.address, Version::Mqtt311, "publisher");
    for round in 0..ROUNDS {
        let mut client = reader(&server);
        client.subscribe("job", Qos::AtLeastOnce);
        client.subscribe("flood", Qos::AtMostOnce);
        publisher.publish("job", b"job", Qos::AtLeastOnce, false);
        publisher.expect(|packet| assert!(matches!(packet, Packet::Puback(_)), "{packet:?}"));
        let packet_id = client.expect(|packet| match packet {
            Packet::Publish(publish) => publish.packet_id,
            other => panic!("not a PUBLISH: {other:?}"),
        });
        flood(&mut publisher);
        let packet_id = packet_id.expect("QoS 1");
        client.send(&Packet::Puback(gatepost_mqtt::Ack::success(packet_id)));
        drop(client);
        await_end(&server, "reader");
        // A publication that is sent again comes before the answer.
        assert!(reader(&server).is_alive(), "round {round}");
    }
}
