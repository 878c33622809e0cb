//! One test for each normative statement, named after it; `docs/mqtt5-conformance.md` lists all.

mod connections;
mod publications;
mod subscriptions;

use gatepost_message::Qos;
use gatepost_mqtt::{
    Connack, Connect, Packet, PacketId, PropertiesBuffer, Property, Publish, Reason,
    SubscriptionOptions, Version,
};

use crate::server::Server;
use crate::wire::{Wire, plain_connect};

fn packet_id(number: u16) -> PacketId {
    PacketId::new(number).expect("not zero")
}

fn properties(list: &[Property<'_>]) -> PropertiesBuffer {
    let mut buffer = PropertiesBuffer::new();
    for property in list {
        buffer.push(property).expect("short");
    }
    buffer
}

/// Connects with `connect`, and passes the CONNACK to `look`.
fn connect_as<T>(
    server: &Server,
    connect: Connect<'_>,
    look: impl FnOnce(Connack<'_>) -> T,
) -> (Wire, T) {
    let mut wire = Wire::open(server.address, Version::Mqtt5);
    wire.send(&Packet::Connect(connect));
    let seen = wire.expect(|packet| match packet {
        Packet::Connack(connack) => look(connack),
        other => panic!("not a CONNACK: {other:?}"),
    });
    (wire, seen)
}

/// Connects with these properties, by MQTT 5.
fn connect_with(server: &Server, client_id: &str, list: &[Property<'_>]) -> Wire {
    let list = properties(list);
    let connect = Connect {
        properties: list.as_properties(),
        ..plain_connect(Version::Mqtt5, client_id)
    };
    let (wire, reason) = connect_as(server, connect, |connack| connack.reason);
    assert_eq!(reason, Reason::SUCCESS);
    wire
}

/// Connects to a session that outlives the connection; returns whether it was present.
fn lasting(server: &Server, client_id: &str, clean_start: bool) -> (Wire, bool) {
    let list = properties(&[Property::SessionExpiryInterval(100)]);
    let connect = Connect {
        clean_start,
        properties: list.as_properties(),
        ..plain_connect(Version::Mqtt5, client_id)
    };
    connect_as(server, connect, |connack| connack.session_present)
}

fn v5(server: &Server, client_id: &str) -> Wire {
    Wire::connected(server.address, Version::Mqtt5, client_id)
}

fn expect_publish<T>(wire: &mut Wire, look: impl FnOnce(&Publish<'_>) -> T) -> T {
    wire.expect(|packet| match packet {
        Packet::Publish(publish) => look(&publish),
        other => panic!("not a PUBLISH: {other:?}"),
    })
}

fn payload(wire: &mut Wire) -> String {
    expect_publish(wire, |publish| {
        String::from_utf8_lossy(publish.payload).into_owned()
    })
}

fn expect_disconnect(wire: &mut Wire, reason: Reason) {
    wire.expect(|packet| match packet {
        Packet::Disconnect(outcome) => assert_eq!(outcome.reason, reason),
        other => panic!("not a DISCONNECT: {other:?}"),
    });
    assert!(wire.is_closed());
}

fn publish_with(wire: &mut Wire, topic: &str, text: &str, list: &[Property<'_>]) {
    let properties = properties(list);
    wire.send(&Packet::Publish(Publish {
        dup: false,
        qos: Qos::AtMostOnce,
        retain: false,
        topic,
        packet_id: None,
        properties: properties.as_properties(),
        payload: text.as_bytes(),
    }));
}

const OPTIONS: SubscriptionOptions = SubscriptionOptions::at(Qos::AtMostOnce);
