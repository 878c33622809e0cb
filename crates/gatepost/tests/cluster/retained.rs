//! Retained messages over several nodes.

use super::nats::{self, Nats};
use super::support::{Client, Gateway, await_some, run, text_of};
use super::{PLAIN, await_joined, metric, node, publish, two_nodes};

/// The payload that a topic retains on a node.
pub(crate) fn retained(gateway: &Gateway, topic: &str) -> Option<String> {
    let port = gateway.port("mqtt");
    let arguments = [
        "-p",
        &port,
        "-V",
        "5",
        "-t",
        topic,
        "-W",
        "1",
        "--retained-only",
        "-C",
        "1",
    ];
    let output = run("mosquitto_sub", &arguments, b"");
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (!text.is_empty()).then_some(text)
}

fn await_retained(gateway: &Gateway, topic: &str, expected: Option<&str>) {
    await_some(&format!("{topic} retains {expected:?}"), || {
        (retained(gateway, topic).as_deref() == expected).then_some(())
    });
}

fn retain(gateway: &Gateway, topic: &str, payload: &str) {
    publish(gateway, topic, payload, &["-r", "-q", "1"]);
}

/// Waits until the other nodes can have all that a node retains.
fn await_sent(gateway: &Gateway) {
    await_some("retained messages are sent", || {
        (metric(gateway, "gatepost_backbone_retained_unsent") == 0).then_some(())
    });
}

#[test]
fn every_node_retains_the_last_message_of_a_topic() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let (one, two) = two_nodes(&nats);
    let mut live = Client::subscribe(&two, "r/#", "%t %p %r");
    retain(&one, "r/a", "first");
    live.await_line("r/a first 0");
    await_retained(&two, "r/a", Some("first"));
    retain(&two, "r/a", "second");
    await_retained(&one, "r/a", Some("second"));
    // A node that joins later has it, and adds the messages that only it has.
    await_sent(&two);
    let folder = tempfile::tempdir().expect("a folder");
    let alone = Gateway::start_in(folder.path(), &format!("node = 3\n{PLAIN}"));
    retain(&alone, "r/c", "brought");
    assert_eq!(alone.terminate(), Some(0));
    let settings = format!("{}{PLAIN}", nats.settings(3));
    let three = Gateway::start_in(folder.path(), &settings);
    await_joined(&three, 2);
    await_retained(&three, "r/a", Some("second"));
    await_retained(&one, "r/c", Some("brought"));
    // An empty payload removes it everywhere, also at a node that is disconnected meanwhile.
    assert_eq!(three.terminate(), Some(0));
    publish(&one, "r/a", "", &["-r", "-q", "1"]);
    await_retained(&two, "r/a", None);
    await_sent(&one);
    let three = Gateway::start_in(folder.path(), &settings);
    await_joined(&three, 2);
    await_retained(&three, "r/a", None);
    // The copy of the stream was no second delivery.
    let firsts = live
        .seen()
        .iter()
        .filter(|line| line.contains("first"))
        .count();
    assert_eq!(firsts, 1, "{:?}", live.seen());
}

#[test]
fn every_later_subscription_on_any_node_gets_what_was_retained_durably() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let (one, two) = two_nodes(&nats);
    for round in 0..20 {
        let (topic, payload) = (format!("g/{round}"), format!("p{round}"));
        retain(&one, &topic, &payload);
        // The message may be on its way: then the subscription gets it as a live message.
        let mut client = Client::subscribe(&two, &topic, "%p");
        client.await_line(&payload);
    }
}

#[test]
fn messages_retained_without_the_nats_server_are_sent_later() {
    if nats::program().is_none() {
        return;
    }
    let mut nats = Nats::start("");
    let (one, two) = two_nodes(&nats);
    let mut live = Client::subscribe(&two, "r/#", "%t %p");
    retain(&one, "r/a", "before");
    await_retained(&two, "r/a", Some("before"));
    await_sent(&one);
    nats.kill();
    await_some("the loss is noticed", || {
        (metric(&one, "gatepost_backbone_joined ") == 0).then_some(())
    });
    publish(&one, "r/a", "while away", &["-r"]);
    assert_eq!(metric(&one, "gatepost_backbone_retained_unsent"), 1);
    nats.start_again();
    await_joined(&one, 1);
    await_joined(&two, 1);
    await_retained(&two, "r/a", Some("while away"));
    // Its subscribers get it late, but they get it.
    live.await_line("r/a while away");
    await_sent(&one);
}

#[test]
fn messages_of_the_server_itself_stay_there() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let one = node(&nats, 1);
    let two = node(&nats, 2);
    await_joined(&two, 1);
    let mut all = Client::subscribe(&two, "$SYS/#", "%t %p");
    all.await_line("$SYS/broker");
    drop(all);
    publish(&one, "t", "x", &[]);
    await_some("it is forwarded", || {
        (metric(&one, "gatepost_backbone_forwarded_total") == 1).then_some(())
    });
    assert_eq!(metric(&two, "gatepost_backbone_received_total"), 0);
    let text = text_of(&run("curl", &["-s", &two.url("/metrics")], b""));
    assert!(text.contains("gatepost_backbone_nodes 1"), "{text}");
}
