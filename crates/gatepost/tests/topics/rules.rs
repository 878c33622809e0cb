//! Messages that the rule of their topic refuses, in the terms of each protocol.

use std::fs;

use super::support::{Client, Gateway, run, swaks, text_of};
use super::{curl, publish};

const SCHEMA: &str = r#"{"type": "object", "required": ["celsius"]}"#;

const RULES: &str = r#"
rules.paths = []
listeners.smtp.payload = "raw"

[[topics]]
filter = "sensors/cellar"
payload_max = "1kB"

[[topics]]
filter = "sensors/+"
payload_max = "20B"
retained = false
schema = "reading.json"
priority = 2

[[topics]]
filter = "events"
messages_max = 2
messages_per = "1h"
retained = true
priority = 5

[[topics]]
filter = "mail/small"
payload_max = "100B"
"#;

const GOOD: &str = r#"{"celsius": 21}"#;
const LARGE: &str = r#"{"celsius": 21, "a": 1}"#;

fn start(rules: &str) -> (Gateway, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("reading.json"), SCHEMA).expect("written");
    (Gateway::start_in(folder.path(), rules), folder)
}

/// The messages that a subscriber received, without its lines about packets.
fn received(subscriber: &mut Client) -> Vec<String> {
    let is_message = |line: &&String| !line.starts_with("Client ") && !line.starts_with("Subscr");
    subscriber
        .seen()
        .iter()
        .filter(is_message)
        .cloned()
        .collect()
}

#[test]
fn mqtt_clients_learn_why_and_older_ones_are_not_held_up() {
    let (gateway, _folder) = start(RULES);
    let port = gateway.port("mqtt");
    let words = "-V 5 -d -t # -F";
    let mut arguments: Vec<&str> = words.split(' ').collect();
    arguments.extend(["%t %p %P", "-p", &port]);
    let mut subscriber = Client::start("mosquitto_sub", &arguments);
    subscriber.await_line("Subscribed");
    for (words, payload, reason) in [
        ("-V 5 -q 1 -t sensors/a -m", GOOD, "RC:0"),
        ("-V 5 -q 1 -t sensors/a -m", LARGE, "RC:151"),
        ("-V 5 -q 1 -t sensors/a -m", "{}", "RC:153"),
        ("-V 5 -q 1 -t sensors/a -m", "hot", "RC:153"),
        ("-V 5 -q 1 -r -t sensors/a -m", GOOD, "RC:135"),
        // The earlier table applies as a whole.
        ("-V 5 -q 1 -r -t sensors/cellar -m", LARGE, "RC:0"),
        ("-V 5 -q 1 -t events -m", "one", "RC:0"),
        ("-V 5 -q 1 -t events -m", "two", "RC:0"),
        ("-V 5 -q 1 -t events -m", "three", "RC:151"),
    ] {
        let said = publish(&gateway, words, &[payload]);
        assert!(said.contains(reason), "{words} {payload}: {said}");
    }
    // MQTT 3 has no reasons: a message that is never permitted is acknowledged, and not repeated.
    for (words, payload) in [
        ("-V 311 -q 1 -t sensors/a -m", LARGE),
        ("-V 311 -q 2 -t sensors/a -m", "hot"),
        ("-V 311 -q 1 -r -t sensors/a -m", GOOD),
        ("-V 311 -q 0 -t sensors/a -m", LARGE),
    ] {
        let said = publish(&gateway, words, &[payload]);
        let is_done = words.contains("-q 0") || said.contains("received PUB");
        assert!(is_done && !said.contains("Error"), "{words}: {said}");
    }
    let _ = publish(&gateway, "-V 5 -q 1 -t last -m", &["end"]);
    subscriber.await_line("last end");
    let seen = received(&mut subscriber);
    assert_eq!(seen.len(), 5, "{seen:?}");
    assert!(seen[0].contains("celsius") && seen[0].contains("priority:2"));
    assert!(seen[2].contains("events one priority:5"), "{seen:?}");
    let retained = "-t # --retained-only -W 2 -F %t -p";
    let arguments: Vec<&str> = retained.split(' ').chain([port.as_str()]).collect();
    let retained = run("mosquitto_sub", &arguments, b"");
    assert_eq!(
        String::from_utf8_lossy(&retained.stdout).trim(),
        "sensors/cellar"
    );
    let metrics = curl(&gateway, "/metrics", &[]);
    let refused = r#"{limit="topic_rule"} 9"#;
    assert!(metrics.contains(refused), "{metrics}");
}

#[test]
fn a_will_that_its_topic_does_not_permit_is_refused_at_the_login() {
    let (gateway, _folder) = start(RULES);
    let port = gateway.port("mqtt");
    for (payload, retain, version, reason) in [
        (GOOD, false, "5", "CONNACK (0)"),
        (LARGE, false, "5", "(149)"),
        ("hot", false, "5", "(153)"),
        (GOOD, true, "5", "(154)"),
        (GOOD, true, "311", "refused"),
    ] {
        let words = "-d -t x -m x --will-topic sensors/a --will-payload";
        let mut arguments: Vec<&str> = words.split(' ').collect();
        arguments.extend([payload, "-p", &port, "-V", version]);
        arguments.extend(retain.then_some("--will-retain"));
        let said = text_of(&run("mosquitto_pub", &arguments, b""));
        assert!(said.contains(reason), "{payload} {retain}: {said}");
    }
}

#[test]
fn web_requests_and_mail_get_the_status_of_the_rule() {
    let (gateway, _folder) = start(RULES);
    for (path, payload, status, text) in [
        ("/topics/sensors/a", GOOD, "200", "accept"),
        ("/topics/sensors/a", LARGE, "413", "at most 20 bytes"),
        ("/topics/sensors/a", "{}", "422", "reading.json"),
        (
            "/topics/sensors/a?retain=1",
            GOOD,
            "400",
            "retains no messages",
        ),
        (
            "/topics/sensors/a?delay=1h",
            LARGE,
            "413",
            "at most 20 bytes",
        ),
        ("/events", "one", "200", "one"),
        ("/events", "two", "200", "two"),
        ("/events", "three", "429", "try again in"),
        ("/topics/events", "three", "429", "try again in"),
    ] {
        let said = curl(&gateway, path, &["-i", "-d", payload]);
        assert!(said.contains(text), "{path} {payload}: {said}");
        assert!(said.trim().ends_with(status), "{path} {payload}: {said}");
        if status == "429" {
            assert!(said.to_lowercase().contains("retry-after: "), "{said}");
        }
    }
    let smtp = gateway.address("smtp").to_string();
    let mail = |to: &str, body: &str| {
        let more = ["--body", body, "--header", "Subject: x"];
        text_of(&swaks(&smtp, "a@example.org", to, &more))
    };
    let large = "x".repeat(200);
    let said = mail("mail/small@localhost", &large);
    assert!(said.contains("552 5.3.4"), "{said}");
    // No topic gets a mail that the rule of another one refuses.
    let said = mail("other@localhost,mail/small@localhost", &large);
    assert!(said.contains("552 5.3.4"), "{said}");
    let other = curl(&gateway, "/topics/other", &[]);
    assert!(other.starts_with("[]"), "{other}");
}

#[test]
fn rules_are_checked_and_follow_a_reload_at_once() {
    let (gateway, folder) = start("rules.paths = []\n");
    let config = folder.path().join("gatepost.toml");
    let before = fs::read_to_string(&config).expect("a config");
    let check = |text: &str| {
        fs::write(&config, before.clone() + text).expect("written");
        let program = env!("CARGO_BIN_EXE_gatepost");
        let config = config.to_str().expect("text");
        text_of(&run(program, &["check", "--config", config], b""))
    };
    for (text, mistake) in [
        (
            "[[topics]]\nfilter = \"a/#\"\n[[topics]]\nfilter = \"a/b\"",
            "never applies",
        ),
        ("[[topics]]\nfilter = \"$SYS/#\"", "the server's"),
        ("[[topics]]\nfilter = \"a/#/b\"", "topics.0.filter"),
        (
            "[[topics]]\nfilter = \"a\"\nschema = \"none.json\"",
            "none.json",
        ),
        ("[[topics]]\nfilter = \"a\"\npayload = \"1kB\"", "payload"),
    ] {
        let said = check(text);
        assert!(said.contains(mistake), "{text}: {said}");
    }
    // One connection lasts over the reload, so that it must notice the change itself.
    let mut subscriber = Client::subscribe(&gateway, "a/b", "%p");
    let address = gateway.address("mqtt");
    let mut stream = std::net::TcpStream::connect(address).expect("a connection");
    let mut send = |bytes: &[u8]| std::io::Write::write_all(&mut stream, bytes).expect("sent");
    send(b"\x10\x0f\x00\x04MQTT\x04\x02\x00\x00\x00\x03one");
    let message = |text: &str| [b"\x30\x0a\x00\x03a/b", text.as_bytes()].concat();
    send(&message("first"));
    subscriber.await_line("first");
    let said = check("[[topics]]\nfilter = \"a/+\"\npayload_max = \"4B\"\n");
    assert!(!said.contains("error"), "{said}");
    let report = curl(&gateway, "/admin/reload", &["-X", "POST"]);
    assert!(report.contains("\"applied\":true"), "{report}");
    send(&message("large"));
    send(b"\x30\x09\x00\x03a/bgood");
    subscriber.await_line("good");
    assert_eq!(received(&mut subscriber), ["first", "good"]);
}
