//! The effects of verdicts on publishers and subscribers: raw packets against a server whose scope
//! judges `judged/#` by the payload's request.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use gatepost_broker::BrokerSettings;
use gatepost_listeners::mqtt::{MqttSettings, OnReject};
use gatepost_message::{Action, Listener, Qos, TopicFilter};
use gatepost_mqtt::{
    Connect, Packet, PacketProperties, PropertiesBuffer, Property, Publish, Reason,
    SubscriptionOptions, Version,
};
use gatepost_procedures::{Procedures, ProceduresConfiguration, ScopeSettings};
use gatepost_rules::RuleSet;

use crate::server::Server;
use crate::wire::{Wire, plain_connect};

/// A procedure that answers as the payload requests, with reasons in the form that rules give.
const JUDGE: &str = r#"
return function(message)
    if message.body == "rewrite" then
        message.body = "rewritten"
        message.headers:add("changed", "yes")
        return "accept"
    end
    return {
        action = message.body,
        reason = "asked for in " .. message.topic .. " by " .. message.client .. " (ASKED_FOR)",
        tags = {found = "yes"},
    }
end"#;

/// The longest wait for the journal.
const PATIENCE: Duration = Duration::from_mins(1);

struct Fixture {
    server: Server,
    _folder: tempfile::TempDir,
}

impl Fixture {
    fn new(on_reject: OnReject) -> Self {
        Self::with(on_reject, BrokerSettings::default())
    }

    fn with(on_reject: OnReject, broker: BrokerSettings) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("judge.luau"), JUDGE).expect("written");
        let mut configuration = ProceduresConfiguration::default();
        folder.path().clone_into(&mut configuration.procedures.path);
        configuration.scopes = vec![ScopeSettings {
            path: "/judged".to_owned(),
            listeners: vec![Listener::Mqtt],
            topics: vec![TopicFilter::new("judged/#").expect("a filter")],
            run: vec!["/judge".to_owned()],
            ..ScopeSettings::default()
        }];
        let rules = Arc::new(RuleSet::embedded());
        let (procedures, _) = Procedures::start(configuration, rules).expect("no mistakes");
        let settings = MqttSettings {
            on_reject,
            ..MqttSettings::default()
        };
        let server = Server::with_judges(broker, settings, Some(procedures));
        Self {
            server,
            _folder: folder,
        }
    }

    fn connect(&self, version: Version, client_id: &str) -> Wire {
        Wire::connected(self.server.address, version, client_id)
    }

    /// The journal once it has so many entries, oldest first: they may be written a moment after
    /// the answer.
    fn await_journal(&self, count: usize) -> Vec<(Action, String)> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let entries = self.server.store.journal_recent(1_000).expect("a journal");
            if entries.len() >= count || Instant::now() >= deadline {
                let entries = entries.into_iter().rev();
                return entries
                    .map(|entry| (entry.action, entry.procedure))
                    .collect();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The reason and the reason string of the next PUBACK or PUBREC.
fn acknowledgement(wire: &mut Wire) -> (Reason, Option<String>) {
    wire.expect(|packet| match packet {
        Packet::Puback(ack) | Packet::Pubrec(ack) => {
            let text = ack.properties.find(|property| match property {
                Property::ReasonString(text) => Some(text.to_owned()),
                _ => None,
            });
            (ack.reason, text)
        }
        other => panic!("not an acknowledgement: {other:?}"),
    })
}

/// Payload and user properties of the next publication.
fn publication(wire: &mut Wire) -> (String, Vec<(String, String)>) {
    wire.expect(|packet| match packet {
        Packet::Publish(publish) => {
            let user = publish
                .properties
                .iter()
                .filter_map(|property| match property {
                    Property::UserProperty((name, value)) => {
                        Some((name.to_owned(), value.to_owned()))
                    }
                    _ => None,
                });
            let payload = String::from_utf8_lossy(publish.payload).into_owned();
            (payload, user.collect())
        }
        other => panic!("not a PUBLISH: {other:?}"),
    })
}

const REASON: &str = "asked for in judged/one by publisher (ASKED_FOR)";

#[test]
fn each_verdict_has_its_reason_code_and_only_what_passed_is_delivered() {
    for qos in [Qos::AtLeastOnce, Qos::ExactlyOnce] {
        let fixture = Fixture::new(OnReject::NotAuthorized);
        let mut subscriber = fixture.connect(Version::Mqtt5, "subscriber");
        subscriber.subscribe("judged/#", Qos::AtMostOnce);
        for (payload, reason, text) in [
            ("reject", Reason::NOT_AUTHORIZED, Some(REASON)),
            ("defer", Reason::QUOTA_EXCEEDED, Some(REASON)),
            ("quarantine", Reason::SUCCESS, None),
            ("drop", Reason::SUCCESS, None),
            ("tag", Reason::SUCCESS, None),
            ("accept", Reason::SUCCESS, None),
        ] {
            // The packet id is the same each time, and QoS 2 is not carried to its end.
            let mut publisher = fixture.connect(Version::Mqtt5, "publisher");
            publisher.publish("judged/one", payload.as_bytes(), qos, false);
            let expected = (reason, text.map(str::to_owned));
            assert_eq!(acknowledgement(&mut publisher), expected, "{payload}");
        }
        let (payload, user) = publication(&mut subscriber);
        assert_eq!(payload, "tag");
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(user, [pair("verdict", "tag"), pair("found", "yes")]);
        assert_eq!(publication(&mut subscriber).0, "accept");
        let quarantined = fixture.server.store.quarantine(10).expect("a quarantine");
        assert_eq!(quarantined.len(), 1);
        let kept = fixture.server.store.quarantined(quarantined[0].id);
        assert_eq!(kept.expect("read").expect("kept").body, "quarantine");
        let judged = fixture.await_journal(6);
        let actions: Vec<Action> = judged.iter().map(|(action, _)| *action).collect();
        use Action::{Accept, Defer, Drop, Quarantine, Reject, Tag};
        assert_eq!(actions, [Reject, Defer, Quarantine, Drop, Tag, Accept]);
        assert_eq!(judged[0].1, "/judge");
    }
}

#[test]
fn a_refusal_is_0x99_or_the_end_of_the_connection_where_set() {
    let fixture = Fixture::new(OnReject::PayloadFormatInvalid);
    let mut publisher = fixture.connect(Version::Mqtt5, "publisher");
    publisher.publish("judged/one", b"reject", Qos::AtLeastOnce, false);
    let (reason, text) = acknowledgement(&mut publisher);
    assert_eq!(
        (reason, text.as_deref()),
        (Reason::PAYLOAD_FORMAT_INVALID, Some(REASON))
    );
    assert!(publisher.is_alive());

    let fixture = Fixture::new(OnReject::Disconnect);
    for qos in [Qos::AtMostOnce, Qos::AtLeastOnce, Qos::ExactlyOnce] {
        let mut publisher = fixture.connect(Version::Mqtt5, "publisher");
        publisher.publish("judged/one", b"reject", qos, false);
        publisher.expect(|packet| match packet {
            Packet::Disconnect(outcome) => {
                assert_eq!(outcome.reason, Reason::NOT_AUTHORIZED);
                let text = outcome.properties.find(|property| match property {
                    Property::ReasonString(text) => Some(text.to_owned()),
                    _ => None,
                });
                assert_eq!(text.as_deref(), Some(REASON));
            }
            other => panic!("not a DISCONNECT: {other:?}"),
        });
        assert!(publisher.is_closed());
        let mut publisher = fixture.connect(Version::Mqtt311, "publisher");
        publisher.publish("judged/one", b"reject", qos, false);
        assert!(
            publisher.is_closed(),
            "MQTT 3.1.1 has only the end to say it"
        );
    }
}

/// A deferred message is to be sent again, so it must not be acknowledged; MQTT 3.1.1 can express
/// that only by the end of the connection \[MQTT-4.8.0-2\]. A refused one must not be sent again.
#[test]
fn mqtt_3_1_1_is_not_acknowledged_what_a_procedure_defers() {
    let fixture = Fixture::new(OnReject::NotAuthorized);
    for qos in [Qos::AtLeastOnce, Qos::ExactlyOnce] {
        let mut publisher = fixture.connect(Version::Mqtt311, "publisher");
        publisher.publish("judged/one", b"reject", qos, false);
        acknowledgement(&mut publisher);
        let mut publisher = fixture.connect(Version::Mqtt311, "publisher");
        publisher.publish("judged/one", b"defer", qos, false);
        assert!(publisher.is_closed(), "{qos:?}");
    }
}

/// Accepted by the procedures, and by no queue.
#[test]
fn a_publication_that_exceeds_a_full_queue_is_not_acknowledged() {
    for qos in [Qos::AtLeastOnce, Qos::ExactlyOnce] {
        let broker = BrokerSettings {
            queue_messages_max: 1,
            ..BrokerSettings::default()
        };
        let fixture = Fixture::with(OnReject::NotAuthorized, broker);
        let mut absent = Wire::open(fixture.server.address, Version::Mqtt311);
        absent.send(&Packet::Connect(Connect {
            clean_start: false,
            ..plain_connect(Version::Mqtt311, "absent")
        }));
        absent.receive().expect("a CONNACK");
        absent.subscribe("judged/#", qos);
        absent.send_bytes(&[0xE0, 0]);
        assert!(absent.is_closed());
        for (payload, expected) in [("accept", Reason::SUCCESS), ("tag", Reason::QUOTA_EXCEEDED)] {
            let mut publisher = fixture.connect(Version::Mqtt5, "publisher");
            publisher.publish("judged/one", payload.as_bytes(), qos, false);
            assert_eq!(acknowledgement(&mut publisher).0, expected, "{qos:?}");
        }
        let mut publisher = fixture.connect(Version::Mqtt311, "publisher");
        publisher.publish("judged/one", b"tag", qos, false);
        assert!(publisher.is_closed(), "{qos:?}");
        let actions: Vec<Action> = fixture.await_journal(3).iter().map(|one| one.0).collect();
        assert_eq!(actions, [Action::Accept, Action::Defer, Action::Defer]);
    }
}

#[test]
fn verdicts_keep_the_order_of_a_clients_publications_and_other_topics_are_not_judged() {
    let fixture = Fixture::new(OnReject::NotAuthorized);
    let mut subscriber = fixture.connect(Version::Mqtt5, "subscriber");
    subscriber.subscribe("#", Qos::AtMostOnce);
    let mut publisher = fixture.connect(Version::Mqtt311, "publisher");
    // More than may wait for a verdict at once.
    for number in 0..200 {
        let payload = if number % 2 == 0 { "tag" } else { "reject" };
        publisher.publish(
            &format!("judged/{number}"),
            payload.as_bytes(),
            Qos::AtMostOnce,
            false,
        );
    }
    publisher.publish("other", b"reject", Qos::AtMostOnce, false);
    let mut topics = Vec::new();
    while topics.len() < 101 {
        subscriber.expect(|packet| match packet {
            Packet::Publish(publish) => topics.push(publish.topic.to_owned()),
            other => panic!("not a PUBLISH: {other:?}"),
        });
    }
    topics.retain(|topic| topic != "other");
    let expected: Vec<String> = (0..200).step_by(2).map(|n| format!("judged/{n}")).collect();
    assert_eq!(topics, expected);
    let judged = fixture.await_journal(200);
    assert_eq!(judged.len(), 200, "'other' was not judged");
}

#[test]
fn a_no_local_subscription_gets_no_judged_publication_of_its_own_client() {
    let fixture = Fixture::new(OnReject::NotAuthorized);
    let mut other = fixture.connect(Version::Mqtt5, "other");
    other.subscribe("judged/#", Qos::AtMostOnce);
    let mut bridge = fixture.connect(Version::Mqtt5, "bridge");
    let options = SubscriptionOptions {
        no_local: true,
        ..SubscriptionOptions::at(Qos::AtMostOnce)
    };
    bridge.subscribe_with("judged/#", options, PacketProperties::EMPTY);
    for qos in [Qos::AtMostOnce, Qos::AtLeastOnce, Qos::ExactlyOnce] {
        bridge.publish("judged/one", b"accept", qos, false);
        assert_eq!(publication(&mut other).0, "accept");
        if qos != Qos::AtMostOnce {
            assert_eq!(acknowledgement(&mut bridge).0, Reason::SUCCESS);
        }
    }
    assert!(bridge.is_alive(), "and nothing else came");
    other.publish("judged/one", b"accept", Qos::AtMostOnce, false);
    assert_eq!(publication(&mut bridge).0, "accept");
}

#[test]
fn a_publication_does_not_overtake_one_that_waits_for_a_verdict() {
    let fixture = Fixture::new(OnReject::NotAuthorized);
    let mut subscriber = fixture.connect(Version::Mqtt5, "subscriber");
    subscriber.subscribe("other", Qos::AtMostOnce);
    let mut publisher = fixture.connect(Version::Mqtt5, "publisher");
    let mut properties = PropertiesBuffer::new();
    let sequence = Property::UserProperty(("sequence_id", "one"));
    properties.push(&sequence).expect("short");
    let mut sent = BytesMut::new();
    for (payload, properties) in [
        (b"1", properties.as_properties()),
        (b"2", PacketProperties::EMPTY),
        (b"3", properties.as_properties()),
        (b"4", PacketProperties::EMPTY),
    ] {
        let publish = Publish {
            dup: false,
            qos: Qos::AtMostOnce,
            retain: false,
            topic: "other",
            packet_id: None,
            properties,
            payload,
        };
        let packet = Packet::Publish(publish);
        packet.encode(Version::Mqtt5, &mut sent).expect("short");
    }
    // In one write, so that the server reads them together.
    publisher.send_bytes(&sent);
    let received = [(); 4].map(|()| publication(&mut subscriber).0);
    assert_eq!(received, ["1", "2", "3", "4"]);
}

#[test]
fn mosquitto_pub_gets_a_refusal() {
    let fixture = Fixture::new(OnReject::NotAuthorized);
    let port = fixture.server.address.port().to_string();
    let publish = |payload: &str| {
        let output = Command::new("mosquitto_pub")
            .args([
                "-h",
                "127.0.0.1",
                "-p",
                &port,
                "-V",
                "5",
                "-q",
                "1",
                "-i",
                "publisher",
            ])
            .args(["-t", "judged/one", "-m", payload])
            .stdin(Stdio::null())
            .output()
            .unwrap_or_else(|error| panic!("mosquitto_pub (package mosquitto-clients): {error}"));
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    assert!(publish("reject").contains("Not authorized"));
    assert!(publish("defer").contains("Quota exceeded"));
    assert_eq!(publish("quarantine"), "");
}
