//! Peers of each kind of sink that hang, send false answers or cannot be reached: they cause no
//! loss of messages, queues stay within their limits, and drops are reported.

use super::raw_peer::{RawPeer, Treatment};
use super::support::{Client, Gateway, await_some, post, run, text_of};
use super::web_push::{Browser, SETTINGS as WEB_PUSH, subscribe};
use super::{PLAIN, lines, publish, sinks};

/// A port on which nothing listens.
const CLOSED: &str = "127.0.0.1:1";

/// Faults of web servers, in the order of the connections.
const WEB_FAULTS: [Treatment; 10] = [
    Treatment::Close,
    Treatment::Answer(b""),
    Treatment::AnswerAndEnd(b"SSH-2.0-no\r\n\r\n"),
    Treatment::AnswerAndEnd(b"HTTP/1.1 200"),
    Treatment::AnswerAndEnd(b"HTTP/1.1 999999 OK\r\n\r\n"),
    Treatment::AnswerAndEnd(b"HTTP/1.1 100 Continue\r\n\r\n"),
    Treatment::AnswerAndEnd(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab"),
    Treatment::AnswerAndEnd(b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n"),
    Treatment::AnswerAndEnd(b"HTTP/1.1 700 Lie\r\ncontent-length: 0\r\n\r\n"),
    Treatment::AnswerAndEnd(b"HTTP/1.1 503 \xff\r\nretry-after: -7\r\ncontent-length: 0\r\n\r\n"),
];

/// Two responses to one request. The second one must not count for the next message.
const TWO_RESPONSES: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n\
    HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
/// A response whose body never ends.
const ENDLESS: &[u8] = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n";

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Waits until a sink has delivered so many messages and nothing waits.
fn await_delivered(gateway: &Gateway, name: &str, count: usize) -> String {
    let figures = format!("queued 0 delivered {count} ");
    await_some(&format!("{name} has delivered {count}"), || {
        let listed = sinks(gateway);
        let is_done = |line: &&str| line.starts_with(name) && line.contains(&figures);
        listed.lines().find(is_done).map(str::to_owned)
    })
}

#[test]
fn a_web_server_that_hangs_or_lies_loses_no_message_of_a_webhook() {
    let peer = RawPeer::start(|number| match number {
        number if number < WEB_FAULTS.len() => WEB_FAULTS[number],
        number if number == WEB_FAULTS.len() => Treatment::Answer(TWO_RESPONSES),
        number if number == WEB_FAULTS.len() + 1 => Treatment::Answer(ENDLESS),
        _ => Treatment::Serve(|_| b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()),
    });
    let gateway = Gateway::start(&format!(
        "{PLAIN}[[sink]]\nname = \"hook\"\nfilters = [\"hook/#\"]\nretry.first = \"10ms\"\n\
         retry.longest = \"20ms\"\nwebhook.url = \"http://{}/\"\nwebhook.allow_private = true\n\
         webhook.timeout = \"300ms\"\n",
        peer.address
    ));
    publish(&gateway, "hook/a", "1", &lines(3));
    let listed = await_delivered(&gateway, "hook", 3);
    assert!(listed.contains("running"), "{listed}");
    let all = peer.received();
    for (number, line) in lines(3).iter().enumerate() {
        let of_line = all.iter().skip(WEB_FAULTS.len() + number);
        let is_sent = of_line.clone().any(|one| text(one).contains(line));
        assert!(is_sent, "{line} was not sent for itself: {all:?}");
    }
}

#[test]
fn a_push_service_that_hangs_or_lies_loses_no_notification() {
    let peer = RawPeer::start(|number| match number {
        0 => Treatment::Answer(b""),
        1 => Treatment::AnswerAndEnd(b"HTTP/1.1 2\xff1 ok\r\n\r\n"),
        2 => Treatment::Answer(TWO_RESPONSES),
        3 => Treatment::Answer(ENDLESS),
        _ => Treatment::Serve(|_| b"HTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n".to_vec()),
    });
    let gateway = Gateway::start(&format!("{WEB_PUSH}web_push.timeout = \"300ms\"\n"));
    let endpoint = format!("http://{}/a", peer.address);
    let subscription = Browser::new().subscription(&endpoint, &["alarms"]);
    subscribe(&gateway, "", &subscription);
    for payload in ["one", "two", "three"] {
        post(&gateway, "alarms", payload);
    }
    await_delivered(&gateway, "web-push", 3);
    let requests = peer
        .received()
        .iter()
        .map(|bytes| text(bytes))
        .collect::<String>();
    assert!(requests.matches("POST /a ").count() >= 5, "{requests}");
}

/// The other end of a bridge, in MQTT 5.
mod broker {
    /// CONNACK: accepted.
    pub(super) const ACCEPTED: &[u8] = &[0x20, 3, 0, 0, 0];

    /// Answers the packets of a part: CONNECT, SUBSCRIBE with one filter, PUBLISH and PINGREQ.
    pub(super) fn answers(mut part: &[u8]) -> Vec<u8> {
        let mut answers = Vec::new();
        while let [first, length, rest @ ..] = part {
            // The packets of this test are shorter than 128 bytes.
            let (packet, next) = rest.split_at(usize::from(*length));
            match (first >> 4, first & 6) {
                (1, _) => answers.extend_from_slice(ACCEPTED),
                (3, 2) => {
                    let topic_length = usize::from(packet[1]);
                    answers.extend([0x40, 2, packet[2 + topic_length], packet[3 + topic_length]]);
                }
                (8, _) => answers.extend([0x90, 4, packet[0], packet[1], 0, 1]),
                (12, _) => answers.extend([0xD0, 0]),
                _ => {}
            }
            part = next;
        }
        answers
    }
}

/// Faults of brokers, in the order of the connections.
const BROKER_FAULTS: [Treatment; 15] = [
    Treatment::Close,
    Treatment::Answer(b""),
    Treatment::AnswerAndEnd(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    // CONNACK: banned; of another length; a receive maximum of 0.
    Treatment::AnswerAndEnd(&[0x20, 3, 0, 0x8A, 0]),
    Treatment::AnswerAndEnd(&[0x20, 200, 0, 0, 0]),
    Treatment::AnswerAndEnd(&[0x20, 6, 0, 0, 3, 0x21, 0, 0]),
    // Accepted, and then: acknowledgements of packets that were not sent.
    Treatment::AnswerAndEnd(&[0x20, 3, 0, 0, 0, 0x40, 2, 0xEA, 0x60, 0x50, 2, 0xEA, 0x61]),
    Treatment::AnswerAndEnd(&[0x20, 3, 0, 0, 0, 0x70, 2, 0xEA, 0x60, 0x62, 2, 0xEA, 0x61]),
    // A length of 256 MB, and one of five bytes.
    Treatment::AnswerAndEnd(&[0x20, 3, 0, 0, 0, 0x30, 0xFF, 0xFF, 0xFF, 0x7F, 0]),
    Treatment::AnswerAndEnd(&[0x20, 3, 0, 0, 0, 0x30, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]),
    // PUBLISH: QoS 3, a wildcard, a topic that is not UTF-8.
    Treatment::AnswerAndEnd(&[0x20, 3, 0, 0, 0, 0x36, 6, 0, 1, b'a', 0, 1, 0]),
    Treatment::AnswerAndEnd(&[0x20, 3, 0, 0, 0, 0x30, 4, 0, 1, b'#', 0]),
    Treatment::AnswerAndEnd(&[0x20, 3, 0, 0, 0, 0x30, 5, 0, 2, 0xC3, 0x28, 0]),
    // A packet of clients.
    Treatment::AnswerAndEnd(&[0x20, 3, 0, 0, 0, 0xC0, 0]),
    // Silence, with a keep alive of one second.
    Treatment::Answer(&[0x20, 6, 0, 0, 3, 0x13, 0, 1]),
];

#[test]
fn a_broker_that_hangs_or_lies_loses_no_message_of_a_bridge() {
    let peer = RawPeer::start(|number| {
        let fault = BROKER_FAULTS.get(number);
        fault.copied().unwrap_or(Treatment::Serve(broker::answers))
    });
    let gateway = Gateway::start(&format!(
        "{PLAIN}[[sink]]\nname = \"plant\"\nretry.first = \"10ms\"\nretry.longest = \"20ms\"\n\
         bridge.address = \"mqtt://{}\"\nbridge.topics = [\"out/# out 1\", \"# in 1\"]\n\
         bridge.connect_timeout = \"300ms\"\n",
        peer.address
    ));
    let mut local = Client::subscribe(&gateway, "#", "%t");
    publish(&gateway, "out/a", "1", &lines(3));
    let listed = await_delivered(&gateway, "plant", 3);
    assert!(listed.contains("running"), "{listed}");
    let last = peer.received().pop().expect("a connection");
    for line in lines(3) {
        assert!(text(&last).contains(&line), "{line}: {}", text(&last));
    }
    // Nothing of the faulty packets was published here.
    publish(&gateway, "out/last", "1", &lines(1));
    local.await_line("out/last");
    let lines = local.seen().iter();
    let topics: Vec<_> = lines.filter(|line| !line.contains(' ')).collect();
    assert_eq!(topics, ["out/a", "out/a", "out/a", "out/last"]);
}

/// The figures of each sink, by its name.
fn figures(gateway: &Gateway) -> serde_json::Value {
    let reply = run("curl", &["-s", &gateway.url("/admin/sinks")], b"");
    serde_json::from_str(&text_of(&reply)).expect("JSON")
}

#[test]
fn queues_for_peers_that_are_not_there_are_bounded_and_drops_are_reported() {
    let sink = |name: &str, kind: &str| {
        format!("[[sink]]\nname = \"{name}\"\nretry.first = \"20ms\"\n{kind}\n")
    };
    let settings = [
        format!(
            "broker.queue_messages_max = 5\nsmarthost.server = \"smtp://{CLOSED}\"\n{WEB_PUSH}"
        ),
        sink(
            "hook",
            &format!(
                "filters = [\"a\"]\nwebhook.url = \"http://{CLOSED}/\"\n\
                 webhook.allow_private = true"
            ),
        ),
        sink(
            "plant",
            &format!("bridge.address = \"mqtt://{CLOSED}\"\nbridge.topics = [\"a out 1\"]"),
        ),
        sink(
            "office",
            "filters = [\"a\"]\nmail.from = \"a@gate.example\"\nmail.to = [\"b@boxes.example\"]",
        ),
    ];
    let gateway = Gateway::start(&settings.concat());
    let subscription = Browser::new().subscription(&format!("http://{CLOSED}/a"), &["a"]);
    subscribe(&gateway, "", &subscription);
    publish(&gateway, "a", "1", &lines(40));
    for name in ["hook", "plant", "office", "web-push"] {
        let found = await_some(&format!("{name} reports drops"), || {
            let all = figures(&gateway);
            let mut all = all["sinks"].as_array().expect("a list").iter();
            let found = all.find(|sink| sink["name"] == name)?.clone();
            let sum = found["queued"].as_u64()? + found["dropped"].as_u64()?;
            (sum == 40 && found["state"] == "retrying").then_some(found)
        });
        // Those that are being delivered do not count for the queue.
        assert!(found["queued"].as_u64() <= Some(6), "{found}");
        let error = found["last_error"]["text"].as_str().expect("an error");
        assert!(error.contains("refused"), "{found}");
        let metrics = text_of(&run("curl", &["-s", &gateway.url("/metrics")], b""));
        let sample = format!(
            "gatepost_sink_dropped_total{{sink=\"{name}\"}} {}",
            found["dropped"]
        );
        assert!(metrics.contains(&sample), "{sample}: {metrics}");
        let dropped = format!("dropped {}", found["dropped"]);
        let listed = sinks(&gateway);
        let mut lines = listed.lines().filter(|line| line.starts_with(name));
        assert!(lines.any(|line| line.contains(&dropped)), "{listed}");
    }
}
