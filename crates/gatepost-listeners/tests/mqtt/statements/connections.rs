//! Connections, sessions, wills and logins.

use gatepost_message::Qos;
use gatepost_mqtt::{
    Connect, Packet, PacketProperties, Property, Reason, ReasonedPacket, Version, Will,
};

use super::{connect_as, expect_disconnect, expect_publish, lasting, payload, properties, v5};
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
fn mqtt_3_1_4_3_a_second_connection_takes_over_the_session() {
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
fn mqtt_3_1_2_6_a_session_with_an_expiry_interval_is_resumed() {
    let server = Server::start();
    let (mut wire, present) = lasting(&server, "lasting", true);
    assert!(!present);
    wire.subscribe("kept/#", Qos::AtLeastOnce);
    wire.send(&Packet::Disconnect(ReasonedPacket::default()));
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
fn mqtt_4_4_0_1_unacknowledged_publications_are_sent_again() {
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
            properties: PacketProperties::EMPTY,
        };
        let connect = Connect {
            will: Some(will),
            ..plain_connect(Version::Mqtt5, client_id)
        };
        connect_as(&server, connect, |_| ()).0
    };
    let mut polite = with_will("polite");
    polite.send(&Packet::Disconnect(ReasonedPacket::default()));
    assert!(polite.is_closed());
    assert!(
        watcher.is_alive(),
        "no will after DISCONNECT [MQTT-3.14.4-3]"
    );
    drop(with_will("lost"));
    assert_eq!(payload(&mut watcher), "gone");
    let mut asking = with_will("asking");
    let reason = Reason::DISCONNECT_WITH_WILL;
    asking.send(&Packet::Disconnect(ReasonedPacket::new(
        reason,
        PacketProperties::EMPTY,
    )));
    assert_eq!(payload(&mut watcher), "gone");
}

#[test]
fn mqtt_3_1_3_9_a_delayed_will_is_discarded_if_the_client_reconnects() {
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
fn mqtt_4_12_0_1_enhanced_authentication_is_refused_properly() {
    let server = Server::start();
    let requested = properties(&[Property::AuthenticationMethod("UNKNOWN")]);
    let mut wire = Wire::open(server.address, Version::Mqtt5);
    let mut packet = plain_connect(Version::Mqtt5, "wire");
    packet.properties = requested.as_properties();
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
fn mqtt_4_13_1_1_a_malformed_packet_disturbs_no_other_client() {
    let server = Server::start();
    let mut bystander = v5(&server, "bystander");
    bystander.subscribe("a", Qos::AtMostOnce);
    let mut broken = v5(&server, "broken");
    broken.send_bytes(&[0x30, 0x03, 0x00, 0x09, b'x']);
    expect_disconnect(&mut broken, Reason::MALFORMED_PACKET);
    v5(&server, "other").publish("a", b"still here", Qos::AtMostOnce, false);
    assert_eq!(payload(&mut bystander), "still here");
}
