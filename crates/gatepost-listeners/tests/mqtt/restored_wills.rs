//! Wills that an earlier run of the server stored are published with the rights that their owners
//! have now.

use gatepost_broker::BrokerSettings;
use gatepost_listeners::mqtt::MqttSettings;
use gatepost_message::{Qos, TopicFilter};
use gatepost_mqtt::{
    Connect, Packet, PacketProperties, PropertiesBuffer, Property, Reason, Version, Will,
};
use gatepost_store::Store;
use gatepost_users::{AccessSettings, Effect, Users};

use crate::server::Server;
use crate::wire::{Wire, plain_connect};

/// A client of this user, whose session outlives it and whose will is retained under `topic`.
fn mortal(server: &Server, user: &str, topic: &str) -> Wire {
    let mut properties = PropertiesBuffer::new();
    let expiry = Property::SessionExpiryInterval(1_000);
    properties.push(&expiry).expect("short");
    let mut wire = Wire::open(server.address, Version::Mqtt5);
    wire.send(&Packet::Connect(Connect {
        user_name: Some(user),
        password: Some(b"secret"),
        properties: properties.as_properties(),
        will: Some(Will {
            topic,
            payload: b"gone",
            qos: Qos::AtLeastOnce,
            retain: true,
            properties: PacketProperties::EMPTY,
        }),
        ..plain_connect(Version::Mqtt5, topic)
    }));
    wire.expect(|packet| match packet {
        Packet::Connack(connack) => assert_eq!(connack.reason, Reason::SUCCESS),
        other => panic!("not a CONNACK: {other:?}"),
    });
    wire
}

#[test]
fn a_restored_will_needs_the_rights_of_its_owner() {
    let store = Store::in_memory().expect("a store");
    let start = |store: Store| {
        let settings = (BrokerSettings::default(), MqttSettings::default());
        Server::with_store(settings.0, settings.1, None, store)
    };
    let before = start(store.clone());
    for user in ["anna", "otto", "gone"] {
        before.change(before.users.add(user, "secret".into(), false));
    }
    let _connected = [
        mortal(&before, "anna", "anna/allowed"),
        mortal(&before, "anna", "anna/denied"),
        mortal(&before, "otto", "otto/disabled"),
        mortal(&before, "gone", "gone/removed"),
    ];
    // By another process, so that the first server does not end these connections; the second one
    // starts from the stored data, as after a crash.
    let users = Users::open(store.clone(), &AccessSettings::default()).expect("users");
    let access = "publish".parse().expect("access");
    before.change(users.grant("anna", Effect::Deny, access, "anna/denied"));
    before.change(users.set_standing("otto", Some(true), None));
    before.change(users.remove("gone"));
    let after = start(store);
    let filter = TopicFilter::new("#").expect("a filter");
    let retained = after.broker.retained(&filter);
    let topics: Vec<&str> = retained.iter().map(|one| one.topic.as_str()).collect();
    assert!(topics.contains(&"anna/allowed"), "{topics:?}");
    for topic in ["anna/denied", "otto/disabled", "gone/removed"] {
        assert!(!topics.contains(&topic), "{topics:?}");
    }
}
