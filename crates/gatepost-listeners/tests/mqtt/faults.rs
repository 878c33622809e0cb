//! A disk that fails: no refused change is acknowledged, and afterwards memory and disk agree. Each
//! case runs in both versions of the protocol, since MQTT 3 cannot report the reason.

use gatepost_message::Qos;
use gatepost_mqtt::{
    Ack, Connect, Packet, PacketId, PacketProperties, Publish, Reason, Version, Will,
};

use crate::faulty::{Faulty, await_that, connack, lasting};
use crate::wire::{Wire, plain_connect};

const VERSIONS: [Version; 2] = [Version::Mqtt311, Version::Mqtt5];

fn publish(wire: &mut Wire, number: u16, payload: &str, qos: Qos, dup: bool, retain: bool) {
    wire.send(&Packet::Publish(Publish {
        dup,
        qos,
        retain,
        topic: "a",
        packet_id: PacketId::new(number),
        properties: PacketProperties::EMPTY,
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

/// Returns the packets that the subscriber receives until there are no more; it sends all due
/// answers.
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
            let faulty = Faulty::new(version);
            faulty.absent("subscriber", qos);
            let mut publisher = faulty.lasting("publisher");
            faulty.disk.fail();
            publish(&mut publisher, 1, "one", qos, false, false);
            let reason = acknowledgement(&mut publisher);
            match version {
                Version::Mqtt5 => assert_eq!(reason, Some(Reason::QUOTA_EXCEEDED)),
                _ => assert_eq!(reason, None, "{qos:?}: the connection ends"),
            }
            faulty.disk.heal();
            drop(publisher);
            let mut publisher = faulty.lasting("publisher");
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
            let mut subscriber = faulty.lasting("subscriber");
            assert_eq!(received(&mut subscriber), ["one"], "{version} {qos:?}");
        }
    }
}

#[test]
fn mqtt_4_3_3_10_a_repetition_of_what_was_not_stored_is_published() {
    for version in VERSIONS {
        let faulty = Faulty::new(version);
        faulty.absent("subscriber", Qos::ExactlyOnce);
        let mut publisher = faulty.lasting("publisher");
        faulty.disk.hold();
        publish(&mut publisher, 1, "one", Qos::ExactlyOnce, false, false);
        faulty.await_messages(1);
        drop(publisher);
        faulty.disk.release_failing();
        // Refused as long as its session cannot be stored, which is after the publication failed.
        let mut publisher = faulty.begin("publisher");
        assert!(connack(&mut publisher).0.is_error());
        faulty.disk.heal();
        let mut publisher = faulty.lasting("publisher");
        publish(&mut publisher, 1, "one", Qos::ExactlyOnce, true, false);
        assert!(is_success(acknowledgement(&mut publisher)));
        publish(&mut publisher, 1, "one", Qos::ExactlyOnce, true, false);
        assert!(is_success(acknowledgement(&mut publisher)), "known now");
        let mut subscriber = faulty.lasting("subscriber");
        assert_eq!(received(&mut subscriber), ["one"], "{version}: once");
    }
}

#[test]
fn mqtt_3_2_0_1_a_publication_does_not_hold_back_the_connack() {
    for version in VERSIONS {
        let faulty = Faulty::new(version);
        faulty.absent("subscriber", Qos::AtLeastOnce);
        let mut publisher = faulty.passing("publisher");
        faulty.disk.hold();
        let mut subscriber = faulty.begin("subscriber");
        await_that("it has its session", || {
            faulty.server.broker.stats(0, 0).sessions_connected == 2
        });
        publish(&mut publisher, 1, "one", Qos::AtLeastOnce, false, false);
        faulty.await_messages(1);
        faulty.disk.release();
        assert_eq!(connack(&mut subscriber), (Reason::SUCCESS, true));
        assert_eq!(received(&mut subscriber), ["one"]);
    }
}

#[test]
fn subscriptions_are_acknowledged_when_stored_and_stored_when_acknowledged() {
    for version in VERSIONS {
        let faulty = Faulty::new(version);
        let mut subscriber = faulty.lasting("subscriber");
        faulty.disk.fail();
        subscriber.send_bytes(match version {
            Version::Mqtt5 => b"\x82\x07\x00\x01\x00\x00\x01a\x01",
            _ => b"\x82\x06\x00\x01\x00\x01a\x01",
        });
        let first_byte = subscriber.receive().map(|bytes| bytes[0]);
        assert_ne!(first_byte, Some(0x90), "{version}: no SUBACK");
        faulty.disk.heal();
        drop(subscriber);
        let mut subscriber = faulty.lasting("subscriber");
        faulty.assert_same_subscriptions();
        subscriber.subscribe("a", Qos::AtLeastOnce);
        faulty.disk.fail();
        subscriber.send_bytes(match version {
            Version::Mqtt5 => b"\xa2\x06\x00\x02\x00\x00\x01a",
            _ => b"\xa2\x05\x00\x02\x00\x01a",
        });
        let first_byte = subscriber.receive().map(|bytes| bytes[0]);
        assert_ne!(first_byte, Some(0xB0), "{version}: no UNSUBACK");
        faulty.disk.heal();
        drop(subscriber);
        drop(faulty.lasting("subscriber"));
        faulty.assert_same_subscriptions();
    }
}

#[test]
fn mqtt_4_3_3_4_a_release_is_sent_when_it_is_stored() {
    for version in VERSIONS {
        let faulty = Faulty::new(version);
        let mut subscriber = faulty.lasting("subscriber");
        subscriber.subscribe("a", Qos::ExactlyOnce);
        let mut publisher = faulty.passing("publisher");
        publish(&mut publisher, 1, "one", Qos::ExactlyOnce, false, false);
        assert!(is_success(acknowledgement(&mut publisher)));
        let packet_id = subscriber.expect(|packet| match packet {
            Packet::Publish(publish) => publish.packet_id.expect("QoS 2"),
            other => panic!("not a PUBLISH: {other:?}"),
        });
        faulty.disk.fail();
        subscriber.send(&Packet::Pubrec(Ack::success(packet_id)));
        let first_byte = subscriber.receive().map(|bytes| bytes[0]);
        assert_ne!(first_byte, Some(0x62), "{version}: no PUBREL");
        let mut refused = faulty.begin("subscriber");
        assert!(connack(&mut refused).0.is_error(), "{version}: not yet");
        faulty.disk.heal();
        let mut subscriber = faulty.lasting("subscriber");
        subscriber.expect(|packet| match packet {
            Packet::Pubrel(ack) => assert_eq!(ack.packet_id, packet_id),
            other => panic!("not a PUBREL: {other:?}"),
        });
        let mut released = Vec::new();
        faulty
            .server
            .store
            .each_delivery(|row| released.push(row.released))
            .expect("readable");
        assert_eq!(released, [true], "{version}: stored before it was sent");
    }
}

#[test]
fn mqtt_4_3_3_11_an_identifier_is_free_when_that_is_stored() {
    for version in VERSIONS {
        let faulty = Faulty::new(version);
        let mut publisher = faulty.lasting("publisher");
        publish(&mut publisher, 7, "one", Qos::ExactlyOnce, false, false);
        assert!(is_success(acknowledgement(&mut publisher)));
        faulty.disk.fail();
        let packet_id = PacketId::new(7).expect("not zero");
        publisher.send(&Packet::Pubrel(Ack::success(packet_id)));
        let first_byte = publisher.receive().map(|bytes| bytes[0]);
        assert_ne!(first_byte, Some(0x70), "{version}: no PUBCOMP");
        faulty.disk.heal();
        drop(publisher);
        let mut publisher = faulty.lasting("publisher");
        publisher.send(&Packet::Pubrel(Ack::success(packet_id)));
        publisher.expect(|packet| assert!(matches!(packet, Packet::Pubcomp(_)), "{packet:?}"));
        let mut identifiers = Vec::new();
        faulty
            .server
            .store
            .each_received(|(_, packet)| identifiers.push(packet))
            .expect("readable");
        assert!(identifiers.is_empty(), "{version}: {identifiers:?}");
    }
}

#[test]
fn a_retained_message_that_is_not_stored_is_not_kept() {
    for version in VERSIONS {
        let faulty = Faulty::new(version);
        let mut publisher = faulty.passing("publisher");
        publish(&mut publisher, 1, "one", Qos::AtLeastOnce, false, true);
        assert!(is_success(acknowledgement(&mut publisher)));
        faulty.disk.fail();
        publish(&mut publisher, 2, "two", Qos::AtLeastOnce, false, true);
        assert!(!is_success(acknowledgement(&mut publisher)), "{version}");
        faulty.disk.heal();
        let mut subscriber = faulty.passing("subscriber");
        subscriber.subscribe("a", Qos::AtMostOnce);
        assert_eq!(received(&mut subscriber), ["one"], "{version}");
    }
}

#[test]
fn a_will_that_is_not_stored_is_published_again() {
    let faulty = Faulty::new(Version::Mqtt5);
    faulty.absent("subscriber", Qos::AtLeastOnce);
    let mut client = Wire::open(faulty.server.address, Version::Mqtt5);
    client.send(&Packet::Connect(Connect {
        will: Some(Will {
            topic: "a",
            payload: b"will",
            qos: Qos::AtLeastOnce,
            retain: false,
            properties: PacketProperties::EMPTY,
        }),
        ..plain_connect(Version::Mqtt5, "mortal")
    }));
    assert_eq!(connack(&mut client).0, Reason::SUCCESS);
    faulty.disk.fail();
    drop(client);
    faulty.await_messages(1);
    faulty.disk.heal();
    await_that("it is stored", || {
        let mut count = 0;
        let visited = faulty.server.store.each_delivery(|_| count += 1);
        visited.is_ok() && count > 0
    });
    let mut subscriber = faulty.lasting("subscriber");
    assert_eq!(
        received(&mut subscriber).last().map(String::as_str),
        Some("will")
    );
}

#[test]
fn mqtt_4_6_0_6_the_order_of_publications_survives_a_failure() {
    let faulty = Faulty::new(Version::Mqtt311);
    faulty.absent("subscriber", Qos::AtLeastOnce);
    let mut publisher = faulty.lasting("publisher");
    faulty.disk.hold();
    publish(&mut publisher, 1, "one", Qos::AtLeastOnce, false, false);
    faulty.await_messages(1);
    // The writer has the first alone, and the second comes after it.
    await_that("it is with the writer", || {
        faulty.server.store.waiting_bytes() == 0
    });
    publish(&mut publisher, 2, "two", Qos::AtLeastOnce, false, false);
    faulty.await_messages(2);
    faulty.disk.release_failing_payload("one");
    assert_eq!(acknowledgement(&mut publisher), None);
    faulty.disk.heal();
    drop(publisher);
    let mut publisher = faulty.lasting("publisher");
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
    let mut subscriber = faulty.lasting("subscriber");
    assert_eq!(received(&mut subscriber), ["one", "two"]);
}

#[test]
fn messages_acknowledged_despite_faults_survive_a_restart() {
    for version in VERSIONS {
        let faulty = Faulty::new(version);
        faulty.absent("subscriber", Qos::AtLeastOnce);
        let mut acknowledged = Vec::new();
        for number in 1..=20_u16 {
            let mut publisher = faulty.lasting("publisher");
            if number % 3 == 0 {
                faulty.disk.fail();
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
            faulty.disk.heal();
        }
        assert!(acknowledged.len() > 10, "{version}: {acknowledged:?}");
        assert!(acknowledged.len() < 20, "{version}: {acknowledged:?}");
        let (_folder, second) = faulty.after_a_crash();
        let mut subscriber = lasting(&second, version, "subscriber");
        assert_eq!(received(&mut subscriber), acknowledged, "{version}");
    }
}
