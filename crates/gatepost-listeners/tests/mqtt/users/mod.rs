//! Logins, the rights of users, and the effect of changes on open connections.

mod enhanced_authentication;
mod removed;

use gatepost_listeners::mqtt::MqttSettings;
use gatepost_message::Qos;
use gatepost_mqtt::{
    Connect, Filter, Packet, PacketId, PropertiesBuffer, Property, Reason, Subscribe,
    SubscriptionOptions, Version, Will,
};
use gatepost_users::{AnonymousAccess, Effect};

use crate::server::Server;
use crate::wire::{Wire, plain_connect};

fn server() -> Server {
    Server::with_users(MqttSettings::default())
}

fn with_password<'a>(client_id: &'a str, user: &'a str, password: &'a str) -> Connect<'a> {
    Connect {
        user_name: Some(user),
        password: Some(password.as_bytes()),
        ..plain_connect(Version::Mqtt5, client_id)
    }
}

/// Connects, and returns the reason code of the CONNACK.
fn attempt(server: &Server, connect: Connect<'_>) -> (Wire, Reason) {
    let mut wire = Wire::open(server.address, connect.version);
    wire.send(&Packet::Connect(connect));
    let reason = wire.expect(|packet| match packet {
        Packet::Connack(connack) => connack.reason,
        other => panic!("not a CONNACK: {other:?}"),
    });
    (wire, reason)
}

fn logged_in(server: &Server, client_id: &str, user: &str) -> Wire {
    let (wire, reason) = attempt(server, with_password(client_id, user, "secret"));
    assert_eq!(reason, Reason::SUCCESS);
    wire
}

fn grant(server: &Server, effect: Effect, user: &str, access: &str, filter: &str) {
    let access = access.parse().expect("access");
    server.change(server.users.grant(user, effect, access, filter));
}

fn puback(wire: &mut Wire, topic: &str, retain: bool) -> Reason {
    wire.publish(topic, b"x", Qos::AtLeastOnce, retain);
    wire.expect(|packet| match packet {
        Packet::Puback(ack) => ack.reason,
        other => panic!("not a PUBACK: {other:?}"),
    })
}

fn suback(wire: &mut Wire, filters: &[&str]) -> Vec<Reason> {
    let options = SubscriptionOptions::at(Qos::AtMostOnce);
    wire.send(&Packet::Subscribe(Subscribe {
        packet_id: PacketId::new(9).expect("not zero"),
        properties: gatepost_mqtt::PacketProperties::EMPTY,
        filters: filters
            .iter()
            .map(|text| Filter { text, options })
            .collect(),
    }));
    wire.expect(|packet| match packet {
        Packet::Suback(suback) => suback.reasons.to_vec(),
        other => panic!("not a SUBACK: {other:?}"),
    })
}

fn expect_disconnect(wire: &mut Wire, reason: Reason) {
    wire.expect(|packet| match packet {
        Packet::Disconnect(outcome) => assert_eq!(outcome.reason, reason),
        other => panic!("not a DISCONNECT: {other:?}"),
    });
    assert!(wire.is_closed());
}

#[test]
fn clients_without_the_password_are_refused() {
    for version in [Version::Mqtt31, Version::Mqtt311, Version::Mqtt5] {
        let server = server(); // one for each, since too many failures are another answer
        let of = |user: Option<&'static str>, password: Option<&'static [u8]>| Connect {
            user_name: user,
            password,
            ..plain_connect(version, "client")
        };
        let reason_of = |connect| attempt(&server, connect).1;
        assert_eq!(
            reason_of(of(Some("anna"), Some(b"secret"))),
            Reason::SUCCESS
        );
        let wrong = [
            of(Some("anna"), Some(b"Secret")),
            of(Some("nobody"), Some(b"secret")),
            of(Some("anna"), None),
            of(Some("anna"), Some(b"\xff")),
        ];
        for connect in wrong {
            let reason = reason_of(connect);
            assert_eq!(reason, Reason::BAD_USER_NAME_OR_PASSWORD, "{connect:?}");
        }
        assert_eq!(reason_of(of(None, None)), Reason::NOT_AUTHORIZED);
    }
}

#[test]
fn without_users_credentials_are_not_looked_at() {
    let server = Server::start();
    let (_, reason) = attempt(&server, with_password("client", "any", "thing"));
    assert_eq!(reason, Reason::SUCCESS);
}

#[test]
fn unauthenticated_clients_are_admitted_where_that_is_set() {
    let server = Server::with_users(MqttSettings {
        anonymous: AnonymousAccess::Yes,
        ..MqttSettings::default()
    });
    let (_, reason) = attempt(&server, plain_connect(Version::Mqtt5, "stranger"));
    assert_eq!(reason, Reason::SUCCESS);
    let (_, reason) = attempt(&server, with_password("c", "anna", "wrong"));
    assert_eq!(reason, Reason::BAD_USER_NAME_OR_PASSWORD);
}

#[test]
fn a_token_is_a_password() {
    let server = server();
    let scope = vec![("publish".parse().expect("access"), "alarms/#".to_owned())];
    let token = server
        .users
        .create_token("anna", "camera", None, Some(scope));
    let token = server.change(token);
    let (_, reason) = attempt(&server, with_password("c1", "anna", token.expose()));
    assert_eq!(reason, Reason::SUCCESS);
    let alone = Connect {
        password: Some(token.expose().as_bytes()),
        ..plain_connect(Version::Mqtt5, "c2")
    };
    let (mut wire, reason) = attempt(&server, alone);
    assert_eq!(reason, Reason::SUCCESS);
    let allowed = puback(&mut wire, "alarms/fire", false);
    assert_eq!(allowed, Reason::NO_MATCHING_SUBSCRIBERS);
    assert_eq!(puback(&mut wire, "other", false), Reason::NOT_AUTHORIZED);
    let tokens = server.users.list().swap_remove(0).tokens;
    server.change(server.users.remove_token(&tokens[0].id));
    expect_disconnect(&mut wire, Reason::NOT_AUTHORIZED);
}

#[test]
fn rules_are_checked_for_each_publication_subscription_and_will() {
    let server = server();
    grant(
        &server,
        Effect::Allow,
        "anna",
        "publish,subscribe",
        "home/%u/#",
    );
    grant(&server, Effect::Allow, "anna", "all", "client/%c");
    let mut anna = logged_in(&server, "c1", "anna");
    let none = Reason::NO_MATCHING_SUBSCRIBERS;
    for (topic, retain, expected) in [
        ("home/anna/door", false, none),
        ("home/anna/door", true, Reason::NOT_AUTHORIZED),
        ("home/otto/door", false, Reason::NOT_AUTHORIZED),
        ("client/c1", true, none),
        ("client/c2", false, Reason::NOT_AUTHORIZED),
    ] {
        assert_eq!(
            puback(&mut anna, topic, retain),
            expected,
            "{topic} {retain}"
        );
    }
    let filters = [
        "home/anna/+",
        "home/#",
        "$share/group/home/anna/x",
        "$share/group/#",
    ];
    let (granted, denied) = (Reason::SUCCESS, Reason::NOT_AUTHORIZED);
    assert_eq!(
        suback(&mut anna, &filters),
        [granted, denied, granted, denied]
    );
    let mut old = Wire::open(server.address, Version::Mqtt311);
    old.send(&Packet::Connect(Connect {
        version: Version::Mqtt311,
        ..with_password("c3", "anna", "secret")
    }));
    assert_eq!(old.receive().expect("a CONNACK"), [0x20, 2, 0, 0]);
    old.send(&Packet::Subscribe(Subscribe {
        packet_id: PacketId::new(9).expect("not zero"),
        properties: gatepost_mqtt::PacketProperties::EMPTY,
        filters: [Filter {
            text: "home/#",
            options: SubscriptionOptions::at(Qos::AtMostOnce),
        }]
        .into_iter()
        .collect(),
    }));
    let failure = [0x90, 3, 0, 9, 0x80];
    assert_eq!(
        old.receive().expect("a SUBACK"),
        failure,
        "[MQTT-3.9.3-2] of 3.1.1"
    );
    for (topic, expected) in [("home/anna/gone", granted), ("elsewhere", denied)] {
        let will = Will {
            topic,
            payload: b"gone",
            qos: Qos::AtMostOnce,
            retain: false,
            properties: gatepost_mqtt::PacketProperties::EMPTY,
        };
        let connect = Connect {
            will: Some(will),
            ..with_password("c4", "anna", "secret")
        };
        assert_eq!(attempt(&server, connect).1, expected, "will to {topic}");
    }
    let counted = server.users.refusals();
    assert_eq!((counted.publications, counted.subscriptions), (4, 3));
}

#[test]
fn a_removed_rule_ends_the_subscription() {
    let server = server();
    grant(&server, Effect::Allow, "anna", "subscribe", "news/#");
    let mut anna = logged_in(&server, "c1", "anna");
    assert_eq!(suback(&mut anna, &["news/#"]), [Reason::SUCCESS]);
    let mut otto = logged_in(&server, "c2", "otto");
    assert_eq!(puback(&mut otto, "news/one", false), Reason::SUCCESS);
    anna.expect(|packet| assert!(matches!(packet, Packet::Publish(_)), "{packet:?}"));
    grant(&server, Effect::Deny, "anna", "subscribe", "news/secret");
    // Her task was woken; it has looked when it answers.
    assert!(anna.is_alive());
    let reason = puback(&mut otto, "news/two", false);
    assert_eq!(reason, Reason::NO_MATCHING_SUBSCRIBERS);
    assert!(anna.is_alive(), "nothing but the answer comes");
}

#[test]
fn connections_end_when_their_credentials_are_revoked() {
    let server = server();
    let mut first = logged_in(&server, "c1", "anna");
    let mut otto = logged_in(&server, "c2", "otto");
    server.change(server.users.set_password("anna", "another".into()));
    expect_disconnect(&mut first, Reason::NOT_AUTHORIZED);
    server.change(server.users.set_standing("otto", Some(true), None));
    expect_disconnect(&mut otto, Reason::NOT_AUTHORIZED);
    let (_, reason) = attempt(&server, with_password("c2", "otto", "secret"));
    assert_eq!(reason, Reason::NOT_AUTHORIZED);
}

/// Connects to a session that outlives the connection; returns whether it was present.
fn lasting(server: &Server, user: &str, clean_start: bool) -> (Wire, Reason, bool) {
    let mut properties = PropertiesBuffer::new();
    properties
        .push(&Property::SessionExpiryInterval(1_000))
        .expect("short");
    let mut wire = Wire::open(server.address, Version::Mqtt5);
    wire.send(&Packet::Connect(Connect {
        clean_start,
        properties: properties.as_properties(),
        ..with_password("shared-name", user, "secret")
    }));
    let (reason, present) = wire.expect(|packet| match packet {
        Packet::Connack(connack) => (connack.reason, connack.session_present),
        other => panic!("not a CONNACK: {other:?}"),
    });
    (wire, reason, present)
}

#[test]
fn client_ids_are_per_user() {
    let server = server();
    let (mut anna, ..) = lasting(&server, "anna", true);
    assert_eq!(suback(&mut anna, &["a"]), [Reason::SUCCESS]);
    for clean_start in [false, true] {
        let (mut otto, reason, present) = lasting(&server, "otto", clean_start);
        assert_eq!((reason, present), (Reason::SUCCESS, false));
        assert!(otto.is_alive() && anna.is_alive(), "each has a session");
        assert_eq!(puback(&mut otto, "a", false), Reason::SUCCESS);
        anna.expect(|packet| assert!(matches!(packet, Packet::Publish(_)), "{packet:?}"));
        assert!(otto.is_alive(), "he has no subscription");
    }
    drop(anna);
    let (_, reason, present) = lasting(&server, "anna", false);
    assert_eq!((reason, present), (Reason::SUCCESS, true));
    assert_eq!(server.end_sessions("shared-name", None), 2);
    let (_, reason, present) = lasting(&server, "anna", false);
    assert_eq!((reason, present), (Reason::SUCCESS, false));
}

#[test]
fn an_administrator_ends_the_session_of_one_user() {
    let server = server();
    let (mut anna, ..) = lasting(&server, "anna", true);
    let (mut otto, ..) = lasting(&server, "otto", true);
    let listed = server.broker.sessions("anna", 0, 10).0;
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].stats.user.as_deref(), Some("anna"));
    assert_eq!(server.broker.sessions("shared", 0, 10).1, 2);
    assert_eq!(server.end_sessions("shared-name", Some("anna")), 1);
    anna.expect(|packet| match packet {
        Packet::Disconnect(outcome) => {
            assert_eq!(outcome.reason, Reason::ADMINISTRATIVE_ACTION);
        }
        other => panic!("not a DISCONNECT: {other:?}"),
    });
    assert!(anna.is_closed() && otto.is_alive());
    assert_eq!(server.end_sessions("shared-name", Some("anna")), 0);
    let (_, reason, present) = lasting(&server, "anna", false);
    assert_eq!((reason, present), (Reason::SUCCESS, false));
}

#[test]
fn messages_published_after_a_right_was_revoked_are_not_delivered() {
    for version in [Version::Mqtt311, Version::Mqtt5] {
        let server = server();
        let connect = || {
            let mut properties = PropertiesBuffer::new();
            if version == Version::Mqtt5 {
                properties
                    .push(&Property::SessionExpiryInterval(1_000))
                    .expect("short");
            }
            let mut wire = Wire::open(server.address, version);
            wire.send(&Packet::Connect(Connect {
                version,
                clean_start: false,
                properties: properties.as_properties(),
                ..with_password("kept", "anna", "secret")
            }));
            let connack = wire.receive().expect("a CONNACK");
            assert_eq!(connack[3], 0);
            wire
        };
        let mut anna = connect();
        anna.subscribe("secret/plan", Qos::AtLeastOnce);
        anna.subscribe("public", Qos::AtLeastOnce);
        anna.send_bytes(&[0xE0, 0]);
        assert!(anna.is_closed());
        let mut otto = logged_in(&server, "otto", "otto");
        assert_eq!(puback(&mut otto, "secret/plan", false), Reason::SUCCESS);
        grant(&server, Effect::Deny, "anna", "subscribe", "secret/#");
        puback(&mut otto, "secret/plan", false);
        assert_eq!(puback(&mut otto, "public", false), Reason::SUCCESS);
        let mut anna = connect();
        anna.expect(|packet| match packet {
            Packet::Publish(publish) => assert_eq!(publish.topic, "public"),
            other => panic!("not a PUBLISH: {other:?}"),
        });
        assert!(anna.is_alive(), "nothing else came");
    }
}

#[test]
fn a_will_whose_right_is_gone_is_not_published() {
    for version in [Version::Mqtt311, Version::Mqtt5] {
        let server = server();
        let mut watcher = logged_in(&server, "watcher", "otto");
        watcher.subscribe("#", Qos::AtMostOnce);
        let mortal = |client_id: &str, topic: &'static str| {
            let mut wire = Wire::open(server.address, version);
            wire.send(&Packet::Connect(Connect {
                version,
                will: Some(Will {
                    topic,
                    payload: b"gone",
                    qos: Qos::AtMostOnce,
                    retain: false,
                    properties: gatepost_mqtt::PacketProperties::EMPTY,
                }),
                ..with_password(client_id, "anna", "secret")
            }));
            assert_eq!(wire.receive().expect("a CONNACK")[3], 0);
            wire
        };
        let (denied, allowed) = (mortal("m1", "denied"), mortal("m2", "allowed"));
        grant(&server, Effect::Deny, "anna", "publish", "denied");
        drop(denied);
        drop(allowed);
        watcher.expect(|packet| match packet {
            Packet::Publish(publish) => assert_eq!(publish.topic, "allowed"),
            other => panic!("not a PUBLISH: {other:?}"),
        });
        assert!(watcher.is_alive(), "nothing else came");
    }
}

#[test]
fn subscriptions_of_a_kept_session_are_looked_at_again() {
    let server = server();
    let (mut anna, ..) = lasting(&server, "anna", true);
    assert_eq!(suback(&mut anna, &["a", "b"]), [Reason::SUCCESS; 2]);
    drop(anna);
    grant(&server, Effect::Deny, "anna", "subscribe", "a");
    let (mut anna, _, present) = lasting(&server, "anna", false);
    assert!(present && anna.is_alive());
    assert_eq!(server.broker.stats(0, 0).subscriptions, 1);
}
