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

#[test]
fn mqtt_3_14_4_3_a_disconnect_before_a_reset_removes_the_will() {
    let settings = BrokerSettings {
        slow_subscriber: SlowSubscriber::DropNewest,
        outbox_max: ByteSize::mebibytes(1),
        ..BrokerSettings::default()
    };
    let server = Server::with(settings, MqttSettings::default());
    let mut observer = Wire::connected(server.address, Version::Mqtt5, "observer");
    observer.subscribe("wills", Qos::AtMostOnce);
    let mut publisher = Wire::connected(server.address, Version::Mqtt5, "publisher");
    for round in 0..ROUNDS {
        let mut client = mortal(&server);
        for _ in 0..PUBLICATIONS {
            publisher.publish("flood", &PAYLOAD, Qos::AtMostOnce, false);
        }
        assert!(publisher.is_alive());
        client.send(&Packet::Disconnect(ReasonedPacket::new(
            Reason::SUCCESS,
            PacketProperties::EMPTY,
        )));
        drop(client);
        let deadline = Instant::now() + PATIENCE;
        while server
            .broker
            .stats(0, 100)
            .queues
            .iter()
            .any(|session| session.client == "mortal")
        {
            assert!(Instant::now() < deadline, "its session ends");
            std::thread::sleep(Duration::from_millis(5));
        }
        publisher.publish("wills", b"marker", Qos::AtMostOnce, false);
        observer.expect(|packet| match packet {
            Packet::Publish(publish) => {
                assert_eq!(publish.payload, b"marker", "round {round}");
            }
            other => panic!("not a PUBLISH: {other:?}"),
        });
    }
}
