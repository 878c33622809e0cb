//! One test for each normative statement, named after it; `docs/mqtt5-conformance.md` lists all.

use gatepost_message::Qos;
use gatepost_mqtt::{
    Ack, Connack, Connect, Filter, Outcome, Packet, PacketId, Properties, PropertiesBuffer,
    Property, Publish, Reason, Subscribe, SubscriptionOptions, Unsubscribe, Version, Will,
};

use crate::server::Server;
use crate::wire::{Wire, plain_connect};

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
    wire.send(&Packet::Connect(plain_connect(Version::Mqtt5, "twice")));
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

/// Connects as `connect` says, and hands the CONNACK to `look`.
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
fn wishing(server: &Server, client_id: &str, list: &[Property<'_>]) -> Wire {
    let list = properties(list);
    let connect = Connect {
        properties: list.as_properties(),
        ..plain_connect(Version::Mqtt5, client_id)
    };
    let (wire, reason) = connect_as(server, connect, |connack| connack.reason);
    assert_eq!(reason, Reason::SUCCESS);
    wire
}

/// Connects to a session that lasts; tells whether it was there.
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

#[test]
fn mqtt_3_1_3_6_an_empty_client_id_is_replaced() {
    let server = Server::start();
    let nameless = plain_connect(Version::Mqtt5, "");
    let (_wire, has_id) = connect_as(&server, nameless, |connack| {
        connack.properties.iter().any(
            |property| matches!(property, Property::AssignedClientIdentifier(id) if !id.is_empty()),
        )
    });
    assert!(has_id, "[MQTT-3.1.3-7]");
}

#[test]
fn mqtt_3_1_2_6_a_session_that_lasts_is_found_again() {
    let server = Server::start();
    let (mut wire, present) = lasting(&server, "lasting", true);
    assert!(!present);
    wire.subscribe("kept/#", Qos::AtLeastOnce);
    wire.send(&Packet::Disconnect(Outcome::default()));
    assert!(wire.is_closed());
    let mut publisher = v5(&server, "publisher");
    publisher.publish("kept/1", b"while away", Qos::AtLeastOnce, false);
    publisher.receive();
    let (mut wire, present) = lasting(&server, "lasting", false);
    assert!(present, "[MQTT-3.2.2-3]");
    assert_eq!(payload(&mut wire), "while away");
    let (_wire, present) = lasting(&server, "lasting", true);
    assert!(!present, "[MQTT-3.1.2-4]");
}

#[test]
fn mqtt_4_4_0_1_what_was_not_acknowledged_is_sent_again() {
    let server = Server::start();
    let (mut first, _) = lasting(&server, "again", true);
    first.subscribe("a", Qos::AtLeastOnce);
    let mut publisher = v5(&server, "publisher");
    publisher.publish("a", b"once more", Qos::AtLeastOnce, false);
    publisher.receive();
    let sent = expect_publish(&mut first, |publish| (publish.dup, publish.packet_id));
    assert!(!sent.0, "[MQTT-3.3.1-2]");
    drop(first);
    let (mut second, _) = lasting(&server, "again", false);
    let again = expect_publish(&mut second, |publish| (publish.dup, publish.packet_id));
    assert_eq!(again, (true, sent.1), "[MQTT-3.3.1-1]");
}

#[test]
fn mqtt_3_1_2_8_the_will_is_published_when_the_client_is_lost() {
    let server = Server::start();
    let mut watcher = v5(&server, "watcher");
    watcher.subscribe("will", Qos::AtMostOnce);
    let with_will = |client_id| {
        let will = Will {
            topic: "will",
            payload: b"gone",
            qos: Qos::AtMostOnce,
            retain: false,
            properties: Properties::EMPTY,
        };
        let connect = Connect {
            will: Some(will),
            ..plain_connect(Version::Mqtt5, client_id)
        };
        connect_as(&server, connect, |_| ()).0
    };
    let mut polite = with_will("polite");
    polite.send(&Packet::Disconnect(Outcome::default()));
    assert!(polite.is_closed());
    assert!(
        watcher.is_alive(),
        "no will after a goodbye [MQTT-3.14.4-3]"
    );
    drop(with_will("lost"));
    assert_eq!(payload(&mut watcher), "gone");
    let mut asking = with_will("asking");
    let reason = Reason::DISCONNECT_WITH_WILL;
    asking.send(&Packet::Disconnect(Outcome::new(reason, Properties::EMPTY)));
    assert_eq!(payload(&mut watcher), "gone");
}

#[test]
fn mqtt_3_1_3_9_a_delayed_will_waits_and_is_dropped_when_the_client_returns() {
    let server = Server::start();
    let mut watcher = v5(&server, "watcher");
    watcher.subscribe("will/#", Qos::AtMostOnce);
    let lasting = properties(&[Property::SessionExpiryInterval(100)]);
    let connect = |client_id, topic, seconds, clean_start| {
        let delay = properties(&[Property::WillDelayInterval(seconds)]);
        let will = Will {
            topic,
            payload: b"gone",
            qos: Qos::AtMostOnce,
            retain: false,
            properties: delay.as_properties(),
        };
        let connect = Connect {
            clean_start,
            properties: lasting.as_properties(),
            will: Some(will),
            ..plain_connect(Version::Mqtt5, client_id)
        };
        connect_as(&server, connect, |_| ()).0
    };
    drop(connect("returning", "will/returning", 2, true));
    let returned = connect("returning", "will/returning", 2, false);
    drop(connect("waiting", "will/waiting", 1, true));
    let topic = expect_publish(&mut watcher, |publish| publish.topic.to_owned());
    assert_eq!(topic, "will/waiting");
    drop(returned);
}

#[test]
fn mqtt_3_1_2_22_a_silent_client_is_disconnected() {
    let server = Server::start();
    let connect = Connect {
        keep_alive_seconds: 1,
        ..plain_connect(Version::Mqtt5, "silent")
    };
    let (mut wire, ()) = connect_as(&server, connect, |_| ());
    expect_disconnect(&mut wire, Reason::KEEP_ALIVE_TIMEOUT);
}

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
    let mut narrow = wishing(&server, "narrow", &[Property::ReceiveMaximum(2)]);
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
fn mqtt_3_1_2_25_packets_that_are_too_large_are_left_out() {
    let server = Server::start();
    let mut small = wishing(&server, "small", &[Property::MaximumPacketSize(60)]);
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
    let mut subscriber = wishing(&server, "subscriber", &[Property::TopicAliasMaximum(1)]);
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
fn mqtt_3_3_4_3_all_matching_subscription_identifiers_are_told() {
    let server = Server::start();
    let mut subscriber = v5(&server, "subscriber");
    for (filter, identifier) in [("a/#", 7), ("a/b", 300), ("+/b", 7)] {
        let list = properties(&[Property::SubscriptionIdentifier(identifier)]);
        subscriber.subscribe_with(filter, OPTIONS, list.as_properties());
    }
    let mut publisher = v5(&server, "publisher");
    publisher.publish("a/b", b"x", Qos::AtMostOnce, false);
    let mut told: Vec<_> = expect_publish(&mut subscriber, |publish| {
        publish
            .properties
            .iter()
            .filter_map(|property| match property {
                Property::SubscriptionIdentifier(identifier) => Some(identifier),
                _ => None,
            })
            .collect()
    });
    told.sort_unstable();
    assert_eq!(told, [7, 7, 300]);
    assert!(subscriber.is_alive(), "one delivery for all [MQTT-3.3.4-2]");
}

#[test]
fn mqtt_3_8_3_3_no_local_subscriptions_get_nothing_of_their_own() {
    let server = Server::start();
    let mut wire = v5(&server, "local");
    let no_local = SubscriptionOptions {
        no_local: true,
        ..OPTIONS
    };
    wire.subscribe_with("a", no_local, Properties::EMPTY);
    wire.publish("a", b"mine", Qos::AtMostOnce, false);
    assert!(wire.is_alive());
    v5(&server, "other").publish("a", b"another's", Qos::AtMostOnce, false);
    assert_eq!(payload(&mut wire), "another's");
}

#[test]
fn mqtt_3_8_3_4_a_shared_subscription_is_never_no_local() {
    let server = Server::start();
    let mut wire = v5(&server, "local");
    let options = SubscriptionOptions {
        no_local: true,
        ..OPTIONS
    };
    wire.send(&Packet::Subscribe(Subscribe {
        packet_id: packet_id(1),
        properties: Properties::EMPTY,
        filters: [Filter {
            text: "$share/group/a",
            options,
        }]
        .into_iter()
        .collect(),
    }));
    expect_disconnect(&mut wire, Reason::PROTOCOL_ERROR);
}

#[test]
fn mqtt_3_3_1_12_the_retain_flag_is_kept_for_those_who_ask() {
    let server = Server::start();
    let mut plain = v5(&server, "plain");
    plain.subscribe("a", Qos::AtMostOnce);
    let mut asking = v5(&server, "asking");
    let options = SubscriptionOptions {
        retain_as_published: true,
        ..OPTIONS
    };
    asking.subscribe_with("a", options, Properties::EMPTY);
    v5(&server, "publisher").publish("a", b"x", Qos::AtMostOnce, true);
    assert!(
        expect_publish(&mut asking, |publish| publish.retain),
        "[MQTT-3.3.1-13]"
    );
    assert!(!expect_publish(&mut plain, |publish| publish.retain));
}

#[test]
fn mqtt_3_3_1_10_retain_handling_says_when_retained_messages_come() {
    let server = Server::start();
    let mut publisher = v5(&server, "publisher");
    publisher.publish("a", b"kept", Qos::AtMostOnce, true);
    assert!(publisher.is_alive());
    let mut wire = v5(&server, "subscriber");
    let handling = |retain_handling| SubscriptionOptions {
        retain_handling,
        ..OPTIONS
    };
    wire.subscribe_with("a", handling(2), Properties::EMPTY);
    assert!(wire.is_alive(), "2: none [MQTT-3.3.1-11]");
    wire.subscribe_with("a", handling(1), Properties::EMPTY);
    assert!(wire.is_alive(), "1: none, the subscription is not new");
    wire.subscribe_with("a", handling(0), Properties::EMPTY);
    assert_eq!(payload(&mut wire), "kept", "0: [MQTT-3.3.1-9]");
}

#[test]
fn mqtt_3_3_1_6_an_empty_payload_clears_what_is_retained() {
    let server = Server::start();
    let mut wire = v5(&server, "wire");
    wire.publish("a", b"kept", Qos::AtMostOnce, true);
    wire.publish("a", b"", Qos::AtMostOnce, true);
    assert!(wire.is_alive());
    wire.subscribe("a", Qos::AtMostOnce);
    assert!(wire.is_alive(), "[MQTT-3.3.1-7]");
}

#[test]
fn mqtt_4_8_2_4_a_group_shares_its_publications() {
    let server = Server::start();
    let mut members = [v5(&server, "one"), v5(&server, "two")];
    for member in &mut members {
        member.subscribe("$share/group/a/+", Qos::AtMostOnce);
    }
    let mut publisher = v5(&server, "publisher");
    for topic in ["a/1", "a/2", "a/3", "a/4"] {
        publisher.publish(topic, b"x", Qos::AtMostOnce, false);
    }
    for member in &mut members {
        payload(member);
        payload(member);
        assert!(member.is_alive(), "each got its half");
    }
}

#[test]
fn mqtt_3_4_2_1_publishers_are_told_when_nobody_subscribes() {
    let server = Server::start();
    let mut wire = v5(&server, "publisher");
    wire.publish("nobody", b"x", Qos::AtLeastOnce, false);
    wire.expect(|packet| match packet {
        Packet::Puback(ack) => assert_eq!(ack.reason, Reason::NO_MATCHING_SUBSCRIBERS),
        other => panic!("not a PUBACK: {other:?}"),
    });
}

#[test]
fn mqtt_3_10_4_1_unsubscribed_filters_deliver_nothing() {
    let server = Server::start();
    let mut wire = v5(&server, "wire");
    wire.subscribe("a", Qos::AtMostOnce);
    wire.send(&Packet::Unsubscribe(Unsubscribe {
        packet_id: packet_id(5),
        properties: Properties::EMPTY,
        filters: ["a", "never"].into_iter().collect(),
    }));
    wire.expect(|packet| match packet {
        Packet::Unsuback(unsuback) => {
            let expected = [Reason::SUCCESS, Reason::NO_SUBSCRIPTION_EXISTED];
            assert_eq!(unsuback.reasons.as_slice(), expected); // [MQTT-3.11.3-1]
        }
        other => panic!("not an UNSUBACK: {other:?}"),
    });
    wire.publish("a", b"x", Qos::AtMostOnce, false);
    assert!(wire.is_alive());
}

#[test]
fn mqtt_4_7_2_1_wildcards_do_not_match_the_servers_own_topics() {
    let server = Server::start();
    let mut wire = v5(&server, "wire");
    wire.subscribe("#", Qos::AtMostOnce);
    wire.subscribe("+/broker/version", Qos::AtMostOnce);
    assert!(
        wire.is_alive(),
        "retained $SYS topics are there, and do not come"
    );
}

#[test]
fn mqtt_4_12_0_1_enhanced_authentication_is_refused_properly() {
    let server = Server::start();
    let wishes = properties(&[Property::AuthenticationMethod("UNKNOWN")]);
    let mut wire = Wire::open(server.address, Version::Mqtt5);
    let mut packet = plain_connect(Version::Mqtt5, "wire");
    packet.properties = wishes.as_properties();
    wire.send(&Packet::Connect(packet));
    wire.expect(|packet| match packet {
        Packet::Connack(connack) => {
            assert_eq!(connack.reason, Reason::BAD_AUTHENTICATION_METHOD);
        }
        other => panic!("not a CONNACK: {other:?}"),
    });
    assert!(wire.is_closed());
}

#[test]
fn mqtt_4_13_1_1_a_malformed_packet_disturbs_nobody_else() {
    let server = Server::start();
    let mut bystander = v5(&server, "bystander");
    bystander.subscribe("a", Qos::AtMostOnce);
    let mut broken = v5(&server, "broken");
    broken.send_bytes(&[0x30, 0x03, 0x00, 0x09, b'x']);
    expect_disconnect(&mut broken, Reason::MALFORMED_PACKET);
    v5(&server, "other").publish("a", b"still here", Qos::AtMostOnce, false);
    assert_eq!(payload(&mut bystander), "still here");
}
