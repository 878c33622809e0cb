//! Several servers that share topics over a real nats-server, with mosquitto's clients.

#[path = "../support/mod.rs"]
mod support;

mod acknowledgement_lost;
mod adoption;
mod adoption_interrupted;
#[path = "../crash/clients.rs"]
mod clients;
mod common_start;
mod contended_moves;
mod disaster;
mod entry_sizes;
mod faults;
mod groups;
mod history;
mod journal;
mod learning;
mod log;
mod mail_freshness;
mod mail_release;
mod mailboxes;
mod memory;
mod metrics;
mod moves;
mod nats;
mod network;
mod paused_consumers;
mod quarantine;
mod refusals;
mod restarts;
mod retained;
mod sender_averages;
mod senders;
mod sparkplug;
mod subscription;
mod upgrade;
mod users;
mod wandering;
#[path = "../crash/wire.rs"]
mod wire;
mod without_quorum;

use nats::Nats;
use network::Host;
use support::{Client, Gateway, await_some, run, text_of};

/// The settings that turn off what these tests do not use.
const PLAIN: &str = "listeners.smtp.bind = []\nlisteners.lmtp.bind = []\n\
    listeners.milter.bind = []\nlisteners.spamd.bind = []\nlisteners.call.bind = []\n\
    listeners.pop3.bind = []\nscope = []\n";

/// Starts a node.
pub(crate) fn node(nats: &Nats, number: u8) -> Gateway {
    Gateway::start(&format!("{}{PLAIN}", nats.settings(number)))
}

/// Publishes by mosquitto_pub, with `more` of its options.
pub(crate) fn publish(gateway: &Gateway, topic: &str, payload: &str, more: &[&str]) -> String {
    let port = gateway.port("mqtt");
    let arguments = ["-p", &port, "-V", "5", "-t", topic, "-m", payload, "-d"];
    let output = run("mosquitto_pub", &[&arguments[..], more].concat(), b"");
    assert!(output.status.success(), "{}", text_of(&output));
    text_of(&output)
}

/// A metric of a server.
pub(crate) fn metric(gateway: &Gateway, name: &str) -> u64 {
    metric_on(&Host::loopback(), gateway, name)
}

/// A metric of a server that is on this host, and shows it to clients there only.
fn metric_on(host: &Host, gateway: &Gateway, name: &str) -> u64 {
    let output = metrics_on(host, gateway);
    value_of(&output, name).unwrap_or_else(|| panic!("no {name} in {output}"))
}

/// All metrics of a server on this host. A new node shows none before it has read the users of its
/// cluster.
fn metrics_on(host: &Host, gateway: &Gateway) -> String {
    answer_on(host, gateway, "/metrics")
}

/// The answer of a node on this host to a request for this path.
fn answer_on(host: &Host, gateway: &Gateway, path: &str) -> String {
    let words = [host.prefix(), vec!["curl".to_owned()]].concat();
    let mut words = words.iter().map(String::as_str);
    let program = words.next().expect("curl at least");
    let url = gateway.url(path);
    let arguments: Vec<&str> = words.chain(["-s", &url]).collect();
    text_of(&run(program, &arguments, b""))
}

fn value_of(metrics: &str, name: &str) -> Option<u64> {
    let line = metrics.lines().find(|line| line.starts_with(name))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// Waits until a node is part of its cluster, beside so many others.
pub(crate) fn await_joined(gateway: &Gateway, others: u64) {
    await_joined_on(&Host::loopback(), gateway, others);
}

/// The same for a node that is on this host.
pub(crate) fn await_joined_on(host: &Host, gateway: &Gateway, others: u64) {
    await_some("the node is part of its cluster", || {
        let metrics = metrics_on(host, gateway);
        let is_joined = value_of(&metrics, "gatepost_backbone_joined ") == Some(1);
        let nodes = value_of(&metrics, "gatepost_backbone_nodes ");
        (is_joined && nodes == Some(others)).then_some(())
    });
}

/// Waits until a server that has joined has added its users to those of the cluster.
pub(crate) fn await_users_added(first: &Gateway) {
    let said = "were added to those of the cluster";
    await_some(said, || first.log().contains(said).then_some(()));
}

/// Two nodes that know each other.
pub(crate) fn two_nodes(nats: &Nats) -> (Gateway, Gateway) {
    let (one, two) = (node(nats, 1), node(nats, 2));
    await_joined(&one, 1);
    await_joined(&two, 1);
    (one, two)
}

pub(crate) fn readyz(gateway: &Gateway) -> String {
    text_of(&run("curl", &["-si", &gateway.url("/readyz")], b""))
}

#[test]
fn each_node_shows_the_nodes_that_are_alive() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let (one, two) = two_nodes(&nats);
    assert_eq!(await_nodes(&one, 2), [1, 2]);
    assert_eq!(await_nodes(&two, 2), [2, 1]);
    drop(two);
    assert_eq!(await_nodes(&one, 1), [1]);
}

/// The nodes that the dashboard of a node shows, once it shows so many, each with its version.
fn await_nodes(gateway: &Gateway, count: usize) -> Vec<u64> {
    await_some("the dashboard shows the nodes", || {
        let state = run("curl", &["-s", &gateway.url("/admin/state")], b"");
        let state: serde_json::Value = serde_json::from_slice(&state.stdout).ok()?;
        let cluster = &state["stats"].as_array()?.last()?["cluster"];
        let nodes = cluster["nodes"].as_array()?;
        let is_shown = |node: &serde_json::Value| node["version"] == env!("CARGO_PKG_VERSION");
        let numbers = nodes.iter().filter(|node| is_shown(node));
        let numbers: Vec<u64> = numbers.filter_map(|node| node["node"].as_u64()).collect();
        (cluster["trouble"].is_null() && numbers.len() == count).then_some(numbers)
    })
}

#[test]
fn a_message_reaches_the_subscribers_of_other_nodes_once() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let (one, two) = two_nodes(&nats);
    // Overlapping filters of one node: a NATS server sends one copy for each.
    let mut all = Client::subscribe(&two, "#", "%t %p %q");
    let mut some = Client::subscribe(&two, "a.b/+/c", "%t %p %q");
    let mut own = Client::subscribe(&one, "a.b/#", "%t %p %q");
    for number in 0..50 {
        let level = number % 3;
        publish(
            &one,
            &format!("a.b/{level}/c"),
            &format!("n{number}"),
            &["-q", &level.to_string()],
        );
    }
    publish(&two, "a.b/end/c", "back", &[]);
    for (client, filter_qos) in [(&mut all, "0"), (&mut some, "0"), (&mut own, "0")] {
        client.await_line("a.b/end/c back");
        client.await_line("n49");
        let seen = client.seen().to_vec();
        for number in 0..50 {
            let line = format!("a.b/{}/c n{number} {filter_qos}", number % 3);
            let times = seen.iter().filter(|seen| **seen == line).count();
            assert_eq!(times, 1, "{line} in {seen:#?}");
        }
    }
    // Nothing was sent back to the node on which it was published.
    assert_eq!(metric(&one, "gatepost_backbone_received_total"), 1);
    assert_eq!(metric(&two, "gatepost_backbone_received_total"), 50);
}

#[test]
fn a_message_published_after_the_suback_arrives() {
    if nats::program().is_none() {
        return;
    }
    // Several NATS servers, so that interest has a way to go.
    let servers = Nats::cluster();
    let (one, two) = (node(&servers[0], 1), node(&servers[1], 2));
    await_joined(&one, 1);
    await_joined(&two, 1);
    for round in 0..20 {
        let topic = format!("round/{round}");
        let mut client = Client::subscribe(&two, &topic, "got %p");
        publish(&one, &topic, "at once", &[]);
        client.await_line("got at once");
    }
    assert_eq!(metric(&two, "gatepost_backbone_unconfirmed_total"), 0);
}

#[test]
fn a_lost_nats_server_is_reported_and_reconnected() {
    if nats::program().is_none() {
        return;
    }
    let mut nats = Nats::start("");
    let (one, two) = two_nodes(&nats);
    let mut far = Client::subscribe(&two, "t/#", "%t %p");
    let mut near = Client::subscribe(&one, "t/#", "%t %p");
    nats.kill();
    await_some("the loss is said", || {
        let ready = readyz(&one);
        assert!(ready.contains(" 200 "), "{ready}");
        ready.contains("degraded: backbone").then_some(())
    });
    // The node serves its own clients, and a subscription needs no other node.
    publish(&one, "t/alone", "x", &[]);
    near.await_line("t/alone x");
    Client::subscribe(&one, "u", "%p");
    let lost = "gatepost_dropped_total{cause=\"backbone\"}";
    assert!(metric(&one, lost) >= 1);
    nats.start_again();
    await_joined(&one, 1);
    await_joined(&two, 1);
    assert!(!readyz(&one).contains("degraded"), "{}", readyz(&one));
    await_some("messages arrive again", || {
        publish(&one, "t/again", "y", &[]);
        let has_come = far.seen().iter().any(|line| line == "t/again y");
        has_come.then_some(())
    });
    assert!(!far.seen().iter().any(|line| line.contains("alone")));
}

#[test]
fn a_publisher_without_local_subscribers_gets_no_code_for_no_subscribers() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let (one, two) = two_nodes(&nats);
    let mut far = Client::subscribe(&two, "t", "%p");
    let said = publish(&one, "t", "x", &["-q", "1"]);
    assert!(
        said.contains("PUBACK (m1, rc0)") || said.contains("RC:0"),
        "{said}"
    );
    far.await_line("x");
}
