//! Subscriptions, their options, and retained messages.

use gatepost_message::Qos;
use gatepost_mqtt::{
    Filter, Packet, PacketProperties, Property, Reason, Subscribe, SubscriptionOptions,
    Unsubscribe, Version,
};

use super::{OPTIONS, expect_disconnect, expect_publish, packet_id, payload, properties, v5};
use crate::server::Server;
use crate::wire::Wire;

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

#[test]
fn mqtt_3_3_4_3_all_matching_subscription_identifiers_are_sent() {
    let server = Server::start();
    let mut subscriber = v5(&server, "subscriber");
    for (filter, identifier) in [("a/#", 7), ("a/b", 300), ("+/b", 7)] {
        let list = properties(&[Property::SubscriptionIdentifier(identifier)]);
        subscriber.subscribe_with(filter, OPTIONS, list.as_properties());
    }
    let mut publisher = v5(&server, "publisher");
    publisher.publish("a/b", b"x", Qos::AtMostOnce, false);
    let mut identifiers: Vec<_> = expect_publish(&mut subscriber, |publish| {
        publish
            .properties
            .iter()
            .filter_map(|property| match property {
                Property::SubscriptionIdentifier(identifier) => Some(identifier),
                _ => None,
            })
            .collect()
    });
    identifiers.sort_unstable();
    assert_eq!(identifiers, [7, 7, 300]);
    assert!(subscriber.is_alive(), "one delivery for all [MQTT-3.3.4-2]");
}

#[test]
fn mqtt_3_8_3_3_no_local_subscriptions_get_no_publications_of_their_own_client() {
    let server = Server::start();
    let mut wire = v5(&server, "local");
    let no_local = SubscriptionOptions {
        no_local: true,
        ..OPTIONS
    };
    wire.subscribe_with("a", no_local, PacketProperties::EMPTY);
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
        properties: PacketProperties::EMPTY,
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
fn mqtt_3_3_1_12_the_retain_flag_is_kept_on_request() {
    let server = Server::start();
    let mut plain = v5(&server, "plain");
    plain.subscribe("a", Qos::AtMostOnce);
    let mut asking = v5(&server, "asking");
    let options = SubscriptionOptions {
        retain_as_published: true,
        ..OPTIONS
    };
    asking.subscribe_with("a", options, PacketProperties::EMPTY);
    v5(&server, "publisher").publish("a", b"x", Qos::AtMostOnce, true);
    assert!(
        expect_publish(&mut asking, |publish| publish.retain),
        "[MQTT-3.3.1-13]"
    );
    assert!(!expect_publish(&mut plain, |publish| publish.retain));
}

#[test]
fn mqtt_3_3_1_10_retain_handling_decides_when_retained_messages_are_sent() {
    let server = Server::start();
    let mut publisher = v5(&server, "publisher");
    publisher.publish("a", b"kept", Qos::AtMostOnce, true);
    assert!(publisher.is_alive());
    let mut wire = v5(&server, "subscriber");
    let handling = |retain_handling| SubscriptionOptions {
        retain_handling,
        ..OPTIONS
    };
    wire.subscribe_with("a", handling(2), PacketProperties::EMPTY);
    assert!(wire.is_alive(), "2: none [MQTT-3.3.1-11]");
    wire.subscribe_with("a", handling(1), PacketProperties::EMPTY);
    assert!(wire.is_alive(), "1: none, the subscription is not new");
    wire.subscribe_with("a", handling(0), PacketProperties::EMPTY);
    assert_eq!(payload(&mut wire), "kept", "0: [MQTT-3.3.1-9]");
}

#[test]
fn mqtt_3_3_1_6_an_empty_payload_removes_the_retained_message() {
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
fn mqtt_3_10_4_1_unsubscribed_filters_deliver_nothing() {
    let server = Server::start();
    let mut wire = v5(&server, "wire");
    wire.subscribe("a", Qos::AtMostOnce);
    wire.send(&Packet::Unsubscribe(Unsubscribe {
        packet_id: packet_id(5),
        properties: PacketProperties::EMPTY,
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
