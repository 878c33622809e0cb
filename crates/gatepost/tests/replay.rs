//! MQTT clients that subscribe with the user property `since`: the history precedes later
//! publications, without loss or repetition, and a gap is reported.

mod support;

use std::thread;

use support::{Client, Gateway, run, text_of};

/// The rules are of no interest here.
const PLAIN: &str = "rules.paths = []\n";

/// Publishes each line at QoS 1 by mosquitto_pub, which waits for the acknowledgements.
fn publish(port: &str, topic: &str, lines: &[String], more: &[&str]) {
    let arguments = ["-p", port, "-V", "5", "-q", "1", "-t", topic, "-l"];
    let text = lines.join("\n") + "\n";
    let output = run(
        "mosquitto_pub",
        &[&arguments, more].concat(),
        text.as_bytes(),
    );
    assert!(output.status.success(), "{}", text_of(&output));
}

fn lines(numbers: std::ops::Range<usize>) -> Vec<String> {
    numbers.map(|number| number.to_string()).collect()
}

/// A `mosquitto_sub` that asks for a replay and ends after `count` messages.
fn subscribe(port: &str, filter: &str, since: &str, count: usize, more: &[&str]) -> Client {
    let count = count.to_string();
    let property = ["-D", "subscribe", "user-property", "since", since];
    let arguments = ["-p", port, "-V", "5", "-t", filter, "-C", &count];
    Client::start("mosquitto_sub", &[&arguments, &property[..], more].concat())
}

fn replayed(gateway: &Gateway, since: &str, count: usize, more: &[&str]) -> Vec<String> {
    subscribe(&gateway.port("mqtt"), "a/#", since, count, more).into_lines()
}

#[test]
fn subscribers_that_begin_amid_a_stream_see_all_of_it_once_and_in_order() {
    const MESSAGES: usize = 2_000;
    const SUBSCRIBERS: usize = 8;
    let gateway = Gateway::start(&format!("{PLAIN}broker.recent_per_topic = {MESSAGES}\n"));
    let port = gateway.port("mqtt");
    let stream = {
        let port = port.clone();
        thread::spawn(move || publish(&port, "a/b", &lines(0..MESSAGES), &[]))
    };
    let subscribers: Vec<_> = (0..SUBSCRIBERS)
        .map(|number| {
            let qos = ["0", "1", "2"][number % 3];
            let filter = ["a/b", "a/+", "#"][number % 3];
            let id = format!("reader{number}");
            // Every other one has a session that is stored.
            let kept = ["-c", "-i", &id, "-x", "60"];
            let kept: &[&str] = if number % 2 == 0 { &kept } else { &[] };
            let more = [&["-q", qos], kept].concat();
            subscribe(&port, filter, "all", MESSAGES, &more)
        })
        .collect();
    for subscriber in subscribers {
        let seen = subscriber.into_lines();
        assert_eq!(seen, lines(0..MESSAGES));
    }
    stream.join().expect("published");
}

#[test]
fn each_form_of_since_selects_its_messages() {
    let gateway = Gateway::start(PLAIN);
    let port = gateway.port("mqtt");
    publish(&port, "a/1", &lines(0..3), &[]);
    publish(&port, "a/2", &lines(3..5), &["-r"]);
    assert_eq!(replayed(&gateway, "all", 5, &["-q", "1"]), lines(0..5));
    // The retained message is a part of the history, and is sent as such.
    let flags = replayed(&gateway, "10m", 5, &["-F", "%p %r"]);
    assert_eq!(flags.last().map(String::as_str), Some("4 0"), "{flags:?}");
    assert_eq!(replayed(&gateway, "latest", 2, &[]), ["2", "4"]);
    let url = gateway.url("/topics/a%2F1?since=all&poll=1");
    let accept = "Accept: application/x-ndjson";
    let history = text_of(&run("curl", &["-s", "-H", accept, &url], b""));
    let message: serde_json::Value = history
        .lines()
        .nth(1)
        .and_then(|line| serde_json::from_str(line).ok())
        .unwrap_or_else(|| panic!("no second message: {history}"));
    let id = message["id"].as_str().expect("an id");
    assert_eq!(replayed(&gateway, id, 3, &[]), ["2", "3", "4"]);
    // No earlier messages, then the later ones.
    let mut client = subscribe(&port, "a/1", "none", 1, &["-d"]);
    client.await_line("SUBACK");
    publish(&port, "a/1", &lines(9..10), &[]);
    client.await_line("9");
}

#[test]
fn the_number_of_missing_messages_is_reported_with_the_first_message() {
    let gateway = Gateway::start(&format!(
        "{PLAIN}broker.recent_per_topic = 20\nbroker.queue_messages_max = 10\n"
    ));
    let port = gateway.port("mqtt");
    publish(&port, "a/1", &lines(0..30), &[]);
    let format = ["-q", "1", "-F", "%p [%P]"];
    let expected = |gap: &str| {
        let mut expected: Vec<_> = (25..30).map(|number| format!("{number} []")).collect();
        expected[0] = format!("25 [gap:{gap}]");
        expected
    };
    // Half of the queue is for the history: 15 of the 20 that are remembered are left out.
    assert_eq!(replayed(&gateway, "all", 5, &format), expected("15"));
    // Of an hour ago nothing is known.
    assert_eq!(replayed(&gateway, "1h", 5, &format), expected("unknown"));
}

#[test]
fn a_kept_session_replays_nothing_when_its_client_reconnects() {
    let gateway = Gateway::start(PLAIN);
    let port = gateway.port("mqtt");
    publish(&port, "a/1", &lines(0..3), &[]);
    let kept = ["-c", "-i", "reader", "-x", "60", "-q", "1"];
    assert_eq!(replayed(&gateway, "all", 3, &kept), lines(0..3));
    publish(&port, "a/1", &lines(3..4), &[]);
    // It subscribes to something else, so that nothing is subscribed again.
    let back = [
        &["-p", &port, "-V", "5", "-t", "other", "-C", "1"],
        &kept[..],
    ]
    .concat();
    assert_eq!(Client::start("mosquitto_sub", &back).into_lines(), ["3"]);
}

#[test]
fn malformed_and_forbidden_replays_are_refused() {
    let gateway = Gateway::start(PLAIN);
    let port = gateway.port("mqtt");
    publish(&port, "a/1", &lines(0..3), &[]);
    for (filter, since) in [("a/#", "yesterday"), ("$share/group/a/#", "all")] {
        let property = ["-D", "subscribe", "user-property", "since", since];
        let arguments = ["-p", &port, "-V", "5", "-t", filter];
        let refused = run("mosquitto_sub", &[&arguments, &property[..]].concat(), b"");
        let said = text_of(&refused);
        assert!(
            said.contains("denied") || said.contains("rejected"),
            "{since}: {said}"
        );
    }
}
