//! The limits on retained messages.

use std::time::{Duration, Instant};

use gatepost_broker::{Limit, SlowSubscriber};
use gatepost_message::Qos;
use gatepost_mqtt::{Ack, Packet, PacketId, Reason};
use gatepost_settings::ByteSize;

use super::{PATIENCE, enter, enter_again, is_counted, publish, with};

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
    // A replaced message is removed when the commit of its successor is known.
    let deadline = Instant::now() + PATIENCE;
    while server.broker.stats(0, 0).retained_bytes != 12 {
        assert!(Instant::now() < deadline, "topics and payloads");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(is_counted(&server, Limit::Retained));
}

/// Were the repetition refused like the publication, its sender would never get further. Its
/// subscribers have it, at QoS 2 once.
#[test]
fn an_mqtt_3_1_1_publisher_continues_after_a_message_that_cannot_be_retained() {
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

/// The bounds of a queue and of an outbox are for clients that do not keep up.
#[test]
fn a_client_that_reads_receives_every_retained_message() {
    const RETAINED: usize = 3_000;
    let server = with(|settings| {
        settings.queue_messages_max = 10;
        settings.slow_subscriber = SlowSubscriber::Disconnect;
    });
    let mut keeper = enter(&server, "keeper");
    for number in 0..RETAINED {
        let topic = format!("kept/{number:04}");
        keeper.publish(&topic, &[b'x'; 700], Qos::AtLeastOnce, true);
        keeper.receive().expect("a PUBACK");
    }
    for qos in [Qos::AtMostOnce, Qos::AtLeastOnce] {
        let mut wire = enter(&server, "reader");
        wire.subscribe("kept/+", qos);
        for number in 0..RETAINED {
            let packet_id = wire.expect(|packet| match packet {
                Packet::Publish(publish) => {
                    assert_eq!(publish.topic, format!("kept/{number:04}"));
                    publish.packet_id
                }
                other => panic!("not a PUBLISH: {other:?}"),
            });
            if let Some(packet_id) = packet_id {
                wire.send(&Packet::Puback(Ack::new(packet_id, Reason::SUCCESS)));
            }
        }
        assert!(wire.is_alive(), "nothing else came");
    }
}
