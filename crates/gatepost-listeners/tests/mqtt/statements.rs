//! One test for each normative statement, named after it; `docs/mqtt5-conformance.md` lists all.

use gatepost_message::Qos;
use gatepost_mqtt::{Packet, Reason, Version};

use crate::server::Server;
use crate::wire::Wire;

#[test]
fn mqtt_3_1_0_1_the_first_packet_is_connect() {
    let server = Server::start();
    let mut wire = Wire::open(server.address, Version::Mqtt5);
    wire.send(&Packet::Pingreq);
    assert!(wire.is_closed());
}

#[test]
fn mqtt_3_1_0_2_a_second_connect_ends_the_connection() {
    let server = Server::start();
    let mut wire = Wire::connected(server.address, Version::Mqtt5, "twice");
    wire.send(&Packet::Connect(crate::wire::plain_connect(
        Version::Mqtt5,
        "twice",
    )));
    wire.expect(|packet| match packet {
        Packet::Disconnect(outcome) => assert_eq!(outcome.reason, Reason::PROTOCOL_ERROR),
        other => panic!("not a DISCONNECT: {other:?}"),
    });
    assert!(wire.is_closed());
}

#[test]
fn mqtt_3_1_4_3_a_second_connection_takes_the_session() {
    let server = Server::start();
    let mut first = Wire::connected(server.address, Version::Mqtt5, "same");
    let mut second = Wire::connected(server.address, Version::Mqtt5, "same");
    first.expect(|packet| match packet {
        Packet::Disconnect(outcome) => assert_eq!(outcome.reason, Reason::SESSION_TAKEN_OVER),
        other => panic!("not a DISCONNECT: {other:?}"),
    });
    assert!(first.is_closed());
    assert!(second.is_alive());
}

#[test]
fn mqtt_3_3_1_8_new_subscriptions_get_retained_messages_marked() {
    let server = Server::start();
    let mut publisher = Wire::connected(server.address, Version::Mqtt311, "publisher");
    publisher.publish("kept/one", b"payload", Qos::AtMostOnce, true);
    assert!(publisher.is_alive());
    let mut subscriber = Wire::connected(server.address, Version::Mqtt311, "subscriber");
    subscriber.subscribe("kept/+", Qos::AtMostOnce);
    subscriber.expect(|packet| match packet {
        Packet::Publish(publish) => {
            assert_eq!(
                (publish.topic, publish.payload, publish.retain),
                ("kept/one", &b"payload"[..], true)
            );
        }
        other => panic!("not a PUBLISH: {other:?}"),
    });
}
