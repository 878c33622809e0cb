//! Clients of other projects.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use gatepost_message::Qos;
use gatepost_mqtt::{Packet, PropertiesBuffer, Property, Publish, Version};

use crate::server::Server;
use crate::wire::Wire;

fn start(program: &str, server: &Server, arguments: &[&str]) -> Child {
    Command::new(program)
        .args(["-h", "127.0.0.1", "-p", &server.address.port().to_string()])
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program} (package mosquitto-clients): {error}"))
}

fn publish(server: &Server, arguments: &[&str]) {
    let status = start("mosquitto_pub", server, arguments).wait();
    assert!(
        status.expect("it runs").success(),
        "mosquitto_pub {arguments:?}"
    );
}

fn wait_for_subscriptions(server: &Server, count: usize) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while server.broker.stats(0, 0).subscriptions < count {
        assert!(
            Instant::now() < deadline,
            "the subscriber did not subscribe"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn output(mut child: Child) -> String {
    let mut text = String::new();
    let mut stdout = child.stdout.take().expect("piped");
    stdout.read_to_string(&mut text).expect("text");
    assert!(child.wait().expect("it ends").success());
    text
}

#[test]
fn mosquitto_clients_publish_and_subscribe_in_every_version_and_qos() {
    for version in ["mqttv31", "mqttv311", "mqttv5"] {
        for qos in ["0", "1", "2"] {
            let server = Server::start();
            let subscribe = [
                "-V", version, "-q", qos, "-t", "alarms/#", "-C", "2", "-W", "20", "-v",
            ];
            let subscriber = start("mosquitto_sub", &server, &subscribe);
            wait_for_subscriptions(&server, 1);
            for (topic, payload) in [("alarms/fire", "one"), ("other", "no"), ("alarms", "two")] {
                publish(
                    &server,
                    &["-V", version, "-q", qos, "-t", topic, "-m", payload],
                );
            }
            assert_eq!(
                output(subscriber),
                "alarms/fire one\nalarms two\n",
                "{version} {qos}"
            );
        }
    }
}

#[test]
fn mosquitto_clients_see_retained_messages_and_properties() {
    let server = Server::start();
    let publication = [
        "-V",
        "mqttv5",
        "-q",
        "1",
        "-r",
        "-t",
        "state/door",
        "-m",
        "open",
        "-D",
        "publish",
        "user-property",
        "colour",
        "red",
    ];
    publish(&server, &publication);
    let subscriber = start(
        "mosquitto_sub",
        &server,
        &[
            "-V",
            "mqttv5",
            "-t",
            "state/+",
            "-C",
            "1",
            "-W",
            "20",
            "-F",
            "%t %r %P %p",
        ],
    );
    assert_eq!(output(subscriber), "state/door 1 colour:red open\n");
}

#[test]
fn mosquitto_rr_asks_and_is_answered() {
    for version in ["mqttv311", "mqttv5"] {
        let server = Server::start();
        let mut answering = Wire::connected(server.address, Version::Mqtt5, "answering");
        answering.subscribe("question", Qos::AtLeastOnce);
        let asking = [
            "-V",
            version,
            "-q",
            "1",
            "-t",
            "question",
            "-e",
            "answer",
            "-m",
            "how much?",
            "-W",
            "60",
        ];
        let asking = start("mosquitto_rr", &server, &asking);
        let (topic, correlation) = answering.expect(|packet| match packet {
            Packet::Publish(publish) => {
                assert_eq!(publish.payload, b"how much?");
                let topic = publish.properties.find(|property| match property {
                    Property::ResponseTopic(topic) => Some(topic.to_owned()),
                    _ => None,
                });
                let data = publish.properties.find(|property| match property {
                    Property::CorrelationData(data) => Some(data.to_vec()),
                    _ => None,
                });
                (topic, data)
            }
            other => panic!("not a PUBLISH: {other:?}"),
        });
        // Before MQTT 5 both sides must know the topic of the answer.
        let is_5 = version == "mqttv5";
        assert_eq!(topic.as_deref(), is_5.then_some("answer"));
        let mut properties = PropertiesBuffer::new();
        if let Some(data) = &correlation {
            let property = Property::CorrelationData(data);
            properties.push(&property).expect("short");
        }
        answering.send(&Packet::Publish(Publish {
            dup: false,
            qos: Qos::AtMostOnce,
            retain: false,
            topic: "answer",
            packet_id: None,
            properties: properties.as_properties(),
            payload: b"42",
        }));
        assert_eq!(output(asking), "42\n", "{version}");
    }
}

#[test]
fn a_large_message_arrives_whole() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("large");
    let content = "0123456789abcdef".repeat(300_000);
    std::fs::write(&file, &content).expect("written");
    let subscriber = start(
        "mosquitto_sub",
        &server,
        &["-t", "large", "-C", "1", "-W", "30", "-N"],
    );
    wait_for_subscriptions(&server, 1);
    publish(
        &server,
        &["-t", "large", "-f", file.to_str().expect("a path")],
    );
    assert!(output(subscriber) == content, "the content differs");
}
