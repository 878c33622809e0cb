//! Publications: their delivery, properties and topic aliases.

use gatepost_message::Qos;
use gatepost_mqtt::{Ack, Packet, Property, Reason};

use super::{
    connect_with, expect_disconnect, expect_publish, packet_id, payload, publish_with, v5,
};
use crate::server::Server;

#[test]
fn mqtt_4_3_3_a_qos_2_publication_arrives_once() {
    let server = Server::start();
    let mut subscriber = v5(&server, "subscriber");
    subscriber.subscribe("a", Qos::ExactlyOnce);
    let mut publisher = v5(&server, "publisher");
    for _ in 0..2 {
        publisher.publish("a", b"once", Qos::ExactlyOnce, false);
        publisher.expect(|packet| assert!(matches!(packet, Packet::Pubrec(_)), "{packet:?}"));
    }
    publisher.send(&Packet::Pubrel(Ack::success(packet_id(88))));
    publisher.expect(|packet| match packet {
        Packet::Pubcomp(ack) => assert_eq!(ack.reason, Reason::SUCCESS),
        other => panic!("not a PUBCOMP: {other:?}"),
    });
    let id = expect_publish(&mut subscriber, |publish| publish.packet_id).expect("QoS 2");
    subscriber.send(&Packet::Pubrec(Ack::success(id)));
    subscriber.expect(|packet| match packet {
        Packet::Pubrel(ack) => assert_eq!((ack.packet_id, ack.reason), (id, Reason::SUCCESS)),
        other => panic!("not a PUBREL: {other:?}"),
    });
    subscriber.send(&Packet::Pubcomp(Ack::success(id)));
    assert!(subscriber.is_alive(), "it came once");
}

#[test]
fn mqtt_3_3_4_9_no_more_is_in_flight_than_the_receive_maximum() {
    let server = Server::start();
    let mut narrow = connect_with(&server, "narrow", &[Property::ReceiveMaximum(2)]);
    narrow.subscribe("a", Qos::AtLeastOnce);
    let mut publisher = v5(&server, "publisher");
    for text in ["1", "2", "3"] {
        publisher.publish("a", text.as_bytes(), Qos::AtLeastOnce, false);
        publisher.receive();
    }
    let first = expect_publish(&mut narrow, |publish| publish.packet_id).expect("QoS 1");
    assert_eq!(payload(&mut narrow), "2");
    assert!(narrow.is_alive(), "the third waits");
    narrow.send(&Packet::Puback(Ack::success(first)));
    assert_eq!(payload(&mut narrow), "3");
}

#[test]
fn mqtt_3_1_2_25_packets_larger_than_the_maximum_are_discarded() {
    let server = Server::start();
    let mut small = connect_with(&server, "small", &[Property::MaximumPacketSize(60)]);
    small.subscribe("a", Qos::AtLeastOnce);
    let mut publisher = v5(&server, "publisher");
    for (text, qos) in [
        ("x".repeat(100), Qos::AtMostOnce),
        ("x".repeat(100), Qos::AtLeastOnce),
        ("fits".to_owned(), Qos::AtMostOnce),
    ] {
        publisher.publish("a", text.as_bytes(), qos, false);
    }
    assert_eq!(payload(&mut small), "fits");
}

#[test]
fn mqtt_3_3_2_6_the_expiry_is_passed_on_and_expired_messages_are_not() {
    let server = Server::start();
    let mut publisher = v5(&server, "publisher");
    let mut subscriber = v5(&server, "subscriber");
    subscriber.subscribe("a", Qos::AtMostOnce);
    publish_with(
        &mut publisher,
        "a",
        "x",
        &[Property::MessageExpiryInterval(30)],
    );
    let left = expect_publish(&mut subscriber, |publish| {
        publish.properties.find(|property| match property {
            Property::MessageExpiryInterval(seconds) => Some(seconds),
            _ => None,
        })
    });
    assert!(matches!(left, Some(1..=30)), "{left:?}");
}

#[test]
fn mqtt_3_3_2_17_properties_are_passed_on_unchanged_and_in_order() {
    let server = Server::start();
    let mut subscriber = v5(&server, "subscriber");
    subscriber.subscribe("a", Qos::AtMostOnce);
    let mut publisher = v5(&server, "publisher");
    let sent = [
        Property::PayloadFormatIndicator(true), // [MQTT-3.3.2-4]
        Property::ContentType("text/plain"),    // [MQTT-3.3.2-20]
        Property::ResponseTopic("answers"),     // [MQTT-3.3.2-15]
        Property::CorrelationData(b"\x00\x01"), // [MQTT-3.3.2-16]
        Property::UserProperty(("b", "1")),
        Property::UserProperty(("a", "2")),
        Property::UserProperty(("b", "3")), // [MQTT-3.3.2-18]
    ];
    publish_with(&mut publisher, "a", "x", &sent);
    expect_publish(&mut subscriber, |publish| {
        assert_eq!(publish.properties.iter().collect::<Vec<_>>(), sent);
    });
}

#[test]
fn mqtt_3_3_2_7_aliases_stand_for_topics() {
    let server = Server::start();
    let mut subscriber = v5(&server, "subscriber");
    subscriber.subscribe("#", Qos::AtMostOnce);
    let mut publisher = v5(&server, "publisher");
    publish_with(
        &mut publisher,
        "long/topic",
        "1",
        &[Property::TopicAlias(3)],
    );
    publish_with(&mut publisher, "", "2", &[Property::TopicAlias(3)]);
    for text in ["1", "2"] {
        expect_publish(&mut subscriber, |publish| {
            assert_eq!(
                (publish.topic, publish.payload),
                ("long/topic", text.as_bytes())
            );
        });
    }
    publish_with(&mut publisher, "", "3", &[Property::TopicAlias(4)]);
    expect_disconnect(&mut publisher, Reason::PROTOCOL_ERROR);
    let mut publisher = v5(&server, "publisher");
    publish_with(&mut publisher, "x", "4", &[Property::TopicAlias(u16::MAX)]);
    expect_disconnect(&mut publisher, Reason::TOPIC_ALIAS_INVALID); // [MQTT-3.3.2-9]
}

#[test]
fn mqtt_3_1_2_26_aliases_are_used_up_to_the_clients_maximum() {
    let server = Server::start();
    let mut subscriber = connect_with(&server, "subscriber", &[Property::TopicAliasMaximum(1)]);
    subscriber.subscribe("#", Qos::AtMostOnce);
    let mut publisher = v5(&server, "publisher");
    for topic in ["one", "one", "two"] {
        publisher.publish(topic, b"x", Qos::AtMostOnce, false);
    }
    for expected in [("one", Some(1)), ("", Some(1)), ("two", None)] {
        expect_publish(&mut subscriber, |publish| {
            assert_eq!((publish.topic, publish.topic_alias()), expected);
        });
    }
}

#[test]
fn mqtt_3_4_2_1_acknowledgements_report_that_there_is_no_subscriber() {
    let server = Server::start();
    let mut wire = v5(&server, "publisher");
    wire.publish("nobody", b"x", Qos::AtLeastOnce, false);
    wire.expect(|packet| match packet {
        Packet::Puback(ack) => assert_eq!(ack.reason, Reason::NO_MATCHING_SUBSCRIBERS),
        other => panic!("not a PUBACK: {other:?}"),
    });
}
