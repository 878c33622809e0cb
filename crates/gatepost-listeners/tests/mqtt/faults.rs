//! A disk that fails: nothing is acknowledged that it did not take, and afterwards the memory has
//! what the disk has. Each case in both versions of the protocol, since MQTT 3 cannot say why.

use std::time::{Duration, Instant};

use gatepost_broker::BrokerSettings;
use gatepost_listeners::mqtt::MqttSettings;
use gatepost_message::Qos;
use gatepost_mqtt::{
    Ack, Connect, Packet, PacketId, Properties, PropertiesBuffer, Property, Publish, Reason,
    Version, Will,
};

use crate::disk::Disk;
use crate::server::Server;
use crate::wire::{Wire, plain_connect};

const PATIENCE: Duration = Duration::from_mins(1);
const VERSIONS: [Version; 2] = [Version::Mqtt311, Version::Mqtt5];

fn server(store: gatepost_store::Store) -> Server {
    let (broker, settings) = (BrokerSettings::default(), MqttSettings::default());
    Server::with_store(broker, settings, None, store)
}

fn await_that(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn messages_in(server: &Server) -> u64 {
    server.broker.stats(0, 0).messages_in
}

/// Sends a CONNECT for a session that lasts.
fn begin(server: &Server, version: Version, client_id: &str) -> Wire {
    let mut properties = PropertiesBuffer::new();
    if version == Version::Mqtt5 {
        properties
            .push(&Property::SessionExpiryInterval(1_000))
            .expect("short");
    }
    let mut wire = Wire::open(server.address, version);
    wire.send(&Packet::Connect(Connect {
        clean_start: false,
        properties: properties.as_properties(),
        ..plain_connect(version, client_id)
    }));
    wire
}

/// The CONNACK: its reason, and whether the session was there.
fn connack(wire: &mut Wire) -> (Reason, bool) {
    wire.expect(|packet| match packet {
        Packet::Connack(connack) => (connack.reason, connack.session_present),
        other => panic!("not a CONNACK: {other:?}"),
    })
}

/// Connects as soon as the session can be stored.
fn lasting(server: &Server, version: Version, client_id: &str) -> Wire {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut wire = begin(server, version, client_id);
        let (reason, _) = connack(&mut wire);
        if reason == Reason::SUCCESS {
            return wire;
        }
        assert!(Instant::now() < deadline, "{reason}");
    }
}

/// A session with a subscription, whose client is away.
fn absent(server: &Server, version: Version, client_id: &str, qos: Qos) {
    let mut wire = lasting(server, version, client_id);
    wire.subscribe("a", qos);
    drop(wire);
    await_that("the subscriber is gone", || {
        server.broker.stats(0, 0).sessions_connected == 0
    });
}

fn publish(wire: &mut Wire, number: u16, payload: &str, qos: Qos, dup: bool, retain: bool) {
    wire.send(&Packet::Publish(Publish {
        dup,
        qos,
        retain,
        topic: "a",
        packet_id: PacketId::new(number),
        properties: Properties::EMPTY,
        payload: payload.as_bytes(),
    }));
}

/// The reason of the next PUBACK or PUBREC; `None` where the connection ends without one.
fn acknowledgement(wire: &mut Wire) -> Option<Reason> {
    let bytes = wire.receive()?;
    let frame = gatepost_mqtt::Frame::split(&bytes, usize::MAX)
        .expect("valid")
        .expect("whole");
    match Packet::decode(wire.version, frame).expect("a packet") {
        Packet::Puback(ack) | Packet::Pubrec(ack) => Some(ack.reason),
        Packet::Disconnect(_) => None,
        other => panic!("not an acknowledgement: {other:?}"),
    }
}

fn is_success(reason: Option<Reason>) -> bool {
    reason.is_some_and(|reason| !reason.is_error())
}

/// What the subscriber is sent until nothing more comes, with all the answers that it owes.
fn received(wire: &mut Wire) -> Vec<String> {
    let mut payloads = Vec::new();
    loop {
        wire.send(&Packet::Pingreq);
        let is_end = wire.expect(|packet| match packet {
            Packet::Publish(publish) => {
                let text = std::str::from_utf8(publish.payload).expect("text");
                payloads.push((text.to_owned(), publish.packet_id, publish.qos));
                false
            }
            Packet::Pubrel(_) => false,
            Packet::Pingresp => true,
            other => panic!("not expected: {other:?}"),
        });
        if is_end {
            return payloads.into_iter().map(|(text, ..)| text).collect();
        }
    }
}

#[test]
fn mqtt_4_8_0_2_what_is_not_stored_is_not_acknowledged() {
    for version in VERSIONS {
        for qos in [Qos::AtLeastOnce, Qos::ExactlyOnce] {
            let (disk, store) = Disk::new();
            let server = server(store);
            absent(&server, version, "subscriber", qos);
            let mut publisher = lasting(&server, version, "publisher");
            disk.fail();
            publish(&mut publisher, 1, "one", qos, false, false);
            let reason = acknowledgement(&mut publisher);
            match version {
                Version::Mqtt5 => assert_eq!(reason, Some(Reason::QUOTA_EXCEEDED)),
                _ => assert_eq!(reason, None, "{qos:?}: the connection ends"),
            }
            disk.heal();
            drop(publisher);
            let mut publisher = lasting(&server, version, "publisher");
            publish(
                &mut publisher,
                1,
                "one",
                qos,
                version != Version::Mqtt5,
                false,
            );
            assert!(
                is_success(acknowledgement(&mut publisher)),
                "{version} {qos:?}"
            );
            let mut subscriber = lasting(&server, version, "subscriber");
            assert_eq!(received(&mut subscriber), ["one"], "{version} {qos:?}");
        }
    }
}

#[test]
fn mqtt_4_3_3_10_a_repetition_of_what_was_not_stored_is_published() {
    for version in VERSIONS {
        let (disk, store) = Disk::new();
        let server = server(store);
        absent(&server, version, "subscriber", Qos::ExactlyOnce);
        let mut publisher = lasting(&server, version, "publisher");
        disk.hold();
        publish(&mut publisher, 1, "one", Qos::ExactlyOnce, false, false);
        await_that("it came", || messages_in(&server) == 1);
        drop(publisher);
        disk.release_failing();
        // Refused as long as its session cannot be stored, which is after the publication failed.
        let mut publisher = begin(&server, version, "publisher");
        assert!(connack(&mut publisher).0.is_error());
        disk.heal();
        let mut publisher = lasting(&server, version, "publisher");
        publish(&mut publisher, 1, "one", Qos::ExactlyOnce, true, false);
        assert!(is_success(acknowledgement(&mut publisher)));
        publish(&mut publisher, 1, "one", Qos::ExactlyOnce, true, false);
        assert!(is_success(acknowledgement(&mut publisher)), "known now");
        let mut subscriber = lasting(&server, version, "subscriber");
        assert_eq!(received(&mut subscriber), ["one"], "{version}: once");
    }
}

#[test]
fn mqtt_3_2_0_1_a_publication_does_not_hold_back_the_connack() {
    for version in VERSIONS {
        let (disk, store) = Disk::new();
        let server = server(store);
        absent(&server, version, "subscriber", Qos::AtLeastOnce);
        let mut publisher = Wire::connected(server.address, version, "publisher");
        disk.hold();
        let mut subscriber = begin(&server, version, "subscriber");
        await_that("it has its session", || {
            server.broker.stats(0, 0).sessions_connected == 2
        });
        publish(&mut publisher, 1, "one", Qos::AtLeastOnce, false, false);
        await_that("it came", || messages_in(&server) == 1);
        disk.release();
        assert_eq!(connack(&mut subscriber), (Reason::SUCCESS, true));
        assert_eq!(received(&mut subscriber), ["one"]);
    }
}

#[test]
fn subscriptions_are_acknowledged_when_stored_and_stored_when_acknowledged() {
    for version in VERSIONS {
        let (disk, store) = Disk::new();
        let first = server(store);
        let mut subscriber = lasting(&first, version, "subscriber");
        disk.fail();
        subscriber.send_bytes(match version {
            Version::Mqtt5 => b"\x82\x07\x00\x01\x00\x00\x01a\x01",
            _ => b"\x82\x06\x00\x01\x00\x01a\x01",
        });
        let first_byte = subscriber.receive().map(|bytes| bytes[0]);
        assert_ne!(first_byte, Some(0x90), "{version}: no SUBACK");
        disk.heal();
        drop(subscriber);
        let mut subscriber = lasting(&first, version, "subscriber");
        let in_memory = first.broker.stats(0, 0).subscriptions;
        let mut on_disk = 0;
        first
            .store
            .each_subscription(|_| on_disk += 1)
            .expect("readable");
        assert_eq!(in_memory, on_disk, "the memory has what the disk has");
        subscriber.subscribe("a", Qos::AtLeastOnce);
        disk.fail();
        subscriber.send_bytes(match version {
            Version::Mqtt5 => b"\xa2\x06\x00\x02\x00\x00\x01a",
            _ => b"\xa2\x05\x00\x02\x00\x01a",
        });
        let first_byte = subscriber.receive().map(|bytes| bytes[0]);
        assert_ne!(first_byte, Some(0xB0), "{version}: no UNSUBACK");
        disk.heal();
        drop(subscriber);
        drop(lasting(&first, version, "subscriber"));
        let in_memory = first.broker.stats(0, 0).subscriptions;
        let mut on_disk = 0;
        first
            .store
            .each_subscription(|_| on_disk += 1)
            .expect("readable");
        assert_eq!(in_memory, on_disk, "the memory has what the disk has");
    }
}

#[test]
fn mqtt_4_3_3_4_a_release_is_sent_when_it_is_stored() {
    for version in VERSIONS {
        let (disk, store) = Disk::new();
        let server = server(store);
        let mut subscriber = lasting(&server, version, "subscriber");
        subscriber.subscribe("a", Qos::ExactlyOnce);
        let mut publisher = Wire::connected(server.address, version, "publisher");
        publish(&mut publisher, 1, "one", Qos::ExactlyOnce, false, false);
        assert!(is_success(acknowledgement(&mut publisher)));
        let packet_id = subscriber.expect(|packet| match packet {
            Packet::Publish(publish) => publish.packet_id.expect("QoS 2"),
            other => panic!("not a PUBLISH: {other:?}"),
        });
        disk.fail();
        subscriber.send(&Packet::Pubrec(Ack::success(packet_id)));
        let first_byte = subscriber.receive().map(|bytes| bytes[0]);
        assert_ne!(first_byte, Some(0x62), "{version}: no PUBREL");
        let mut refused = begin(&server, version, "subscriber");
        assert!(connack(&mut refused).0.is_error(), "{version}: not yet");
        disk.heal();
        let mut subscriber = lasting(&server, version, "subscriber");
        subscriber.expect(|packet| match packet {
            Packet::Pubrel(ack) => assert_eq!(ack.packet_id, packet_id),
            other => panic!("not a PUBREL: {other:?}"),
        });
        let mut released = Vec::new();
        server
            .store
            .each_delivery(|row| released.push(row.released))
            .expect("readable");
        assert_eq!(released, [true], "{version}: stored before it was sent");
    }
}

#[test]
fn mqtt_4_3_3_11_an_identifier_is_free_when_that_is_stored() {
    for version in VERSIONS {
        let (disk, store) = Disk::new();
        let server = server(store);
        let mut publisher = lasting(&server, version, "publisher");
        publish(&mut publisher, 7, "one", Qos::ExactlyOnce, false, false);
        assert!(is_success(acknowledgement(&mut publisher)));
        disk.fail();
        let packet_id = PacketId::new(7).expect("not zero");
        publisher.send(&Packet::Pubrel(Ack::success(packet_id)));
        let first_byte = publisher.receive().map(|bytes| bytes[0]);
        assert_ne!(first_byte, Some(0x70), "{version}: no PUBCOMP");
        disk.heal();
        drop(publisher);
        let mut publisher = lasting(&server, version, "publisher");
        publisher.send(&Packet::Pubrel(Ack::success(packet_id)));
        publisher.expect(|packet| assert!(matches!(packet, Packet::Pubcomp(_)), "{packet:?}"));
        let mut identifiers = Vec::new();
        server
            .store
            .each_received(|(_, packet)| identifiers.push(packet))
            .expect("readable");
        assert!(identifiers.is_empty(), "{version}: {identifiers:?}");
    }
}

#[test]
fn a_retained_message_that_is_not_stored_is_not_kept() {
    for version in VERSIONS {
        let (disk, store) = Disk::new();
        let server = server(store);
        let mut publisher = Wire::connected(server.address, version, "publisher");
        publish(&mut publisher, 1, "one", Qos::AtLeastOnce, false, true);
        assert!(is_success(acknowledgement(&mut publisher)));
        disk.fail();
        publish(&mut publisher, 2, "two", Qos::AtLeastOnce, false, true);
        assert!(!is_success(acknowledgement(&mut publisher)), "{version}");
        disk.heal();
        let mut subscriber = Wire::connected(server.address, version, "subscriber");
        subscriber.subscribe("a", Qos::AtMostOnce);
        assert_eq!(received(&mut subscriber), ["one"], "{version}");
    }
}

#[test]
fn a_will_that_is_not_stored_is_published_again() {
    let (disk, store) = Disk::new();
    let server = server(store);
    absent(&server, Version::Mqtt5, "subscriber", Qos::AtLeastOnce);
    let mut client = Wire::open(server.address, Version::Mqtt5);
    client.send(&Packet::Connect(Connect {
        will: Some(Will {
            topic: "a",
            payload: b"will",
            qos: Qos::AtLeastOnce,
            retain: false,
            properties: Properties::EMPTY,
        }),
        ..plain_connect(Version::Mqtt5, "mortal")
    }));
    assert_eq!(connack(&mut client).0, Reason::SUCCESS);
    disk.fail();
    drop(client);
    await_that("it was published", || messages_in(&server) >= 1);
    disk.heal();
    await_that("it is stored", || {
        let mut count = 0;
        let visited = server.store.each_delivery(|_| count += 1);
        visited.is_ok() && count > 0
    });
    let mut subscriber = lasting(&server, Version::Mqtt5, "subscriber");
    assert_eq!(
        received(&mut subscriber).last().map(String::as_str),
        Some("will")
    );
}

#[test]
fn mqtt_4_6_0_6_the_order_of_publications_survives_a_failure() {
    let (disk, store) = Disk::new();
    let server = server(store);
    absent(&server, Version::Mqtt311, "subscriber", Qos::AtLeastOnce);
    let mut publisher = lasting(&server, Version::Mqtt311, "publisher");
    disk.hold();
    publish(&mut publisher, 1, "one", Qos::AtLeastOnce, false, false);
    await_that("the first came", || messages_in(&server) == 1);
    // The writer has the first alone, and the second comes behind it.
    await_that("it is with the writer", || {
        server.store.waiting_bytes() == 0
    });
    publish(&mut publisher, 2, "two", Qos::AtLeastOnce, false, false);
    await_that("the second came", || messages_in(&server) == 2);
    disk.release_failing_payload("one");
    assert_eq!(acknowledgement(&mut publisher), None);
    disk.heal();
    drop(publisher);
    let mut publisher = lasting(&server, Version::Mqtt311, "publisher");
    for (number, payload) in [(1, "one"), (2, "two")] {
        publish(
            &mut publisher,
            number,
            payload,
            Qos::AtLeastOnce,
            true,
            false,
        );
        assert!(is_success(acknowledgement(&mut publisher)));
    }
    let mut subscriber = lasting(&server, Version::Mqtt311, "subscriber");
    assert_eq!(received(&mut subscriber), ["one", "two"]);
}

#[test]
fn what_was_stored_in_spite_of_faults_is_there_after_a_restart() {
    for version in VERSIONS {
        let (disk, store) = Disk::new();
        let first = server(store);
        absent(&first, version, "subscriber", Qos::AtLeastOnce);
        let mut acknowledged = Vec::new();
        for number in 1..=20_u16 {
            let mut publisher = lasting(&first, version, "publisher");
            if number % 3 == 0 {
                disk.fail();
            }
            let payload = number.to_string();
            publish(
                &mut publisher,
                number,
                &payload,
                Qos::AtLeastOnce,
                false,
                false,
            );
            if is_success(acknowledgement(&mut publisher)) {
                acknowledged.push(payload);
            }
            disk.heal();
        }
        assert!(acknowledged.len() > 10, "{version}: {acknowledged:?}");
        assert!(acknowledged.len() < 20, "{version}: {acknowledged:?}");
        let (_folder, store) = disk.after_a_crash();
        let second = server(store);
        let mut subscriber = lasting(&second, version, "subscriber");
        assert_eq!(received(&mut subscriber), acknowledged, "{version}");
    }
}
