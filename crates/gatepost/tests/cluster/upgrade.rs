//! Messages of a later version of Gatepost: a node stops there, says so, and loses nothing.
//!
//! A client of NATS writes it here: a message that begins with the next version of the encoding.
//! Its removal stands for the upgrade of the node. That no restart loses anything is tested under
//! load (`faults/`, the rolling restart).

use super::log::{kept_session, messages};
use super::moves::resumed;
use super::nats::{self, Nats};
use super::refusals::run_with_settings;
use super::support::{Gateway, await_some, run, text_of};
use super::{PLAIN, await_joined, metric, node, publish, readyz};

/// A message of the next version of the encoding.
const LATER: &str = "\u{2}later";
const UNREADABLE: &str = "gatepost_backbone_unreadable ";

/// Writes it to a subject; returns its sequence in the stream.
pub(crate) fn write_later(nats: &Nats, subject: &str) -> u64 {
    let answer = nats.request(subject, LATER);
    let answer: serde_json::Value = serde_json::from_str(&answer).expect("an answer");
    answer["seq"].as_u64().expect("it is stored")
}

pub(crate) fn remove(nats: &Nats, stream: &str, sequence: u64) {
    let subject = format!("$JS.API.STREAM.MSG.DELETE.{stream}");
    let answer = nats.request(&subject, &format!("{{\"seq\":{sequence}}}"));
    assert!(answer.contains("\"success\":true"), "{answer}");
}

pub(crate) fn await_unreadable(gateway: &Gateway, count: u64) {
    await_some("it shows what it cannot read", || {
        (metric(gateway, UNREADABLE) == count).then_some(())
    });
    let is_degraded = readyz(gateway).contains("degraded: backbone");
    assert_eq!(is_degraded, count > 0, "{}", readyz(gateway));
}

#[test]
fn a_partition_is_not_read_beyond_a_later_entry_and_nothing_is_lost() {
    if nats::program().is_none() {
        return;
    }
    let (nats, folder) = (Nats::start(""), tempfile::tempdir().expect("a folder"));
    let settings = format!("{}{PLAIN}", nats.settings(2));
    let one = node(&nats, 1);
    let two = Gateway::start_in(folder.path(), &settings);
    await_joined(&one, 1);
    await_joined(&two, 1);
    let mut kept = kept_session(&two, "kept", "u/#", &[]);
    publish(&one, "u/x", "before", &["-q", "1"]);
    kept.await_line("u/x before 1");
    drop(kept);
    let sequences = [1, 2, 3, 4].map(|number| write_later(&nats, &format!("gp.p.{number}")));
    for gateway in [&one, &two] {
        await_unreadable(gateway, 4);
        assert_eq!(metric(gateway, "gatepost_backbone_joined "), 1);
    }
    let log = two.log();
    let words = "of the log cannot be read further: a later version of Gatepost has written it, \
                 with encoding 2, and this server knows 1; update this server";
    assert!(log.contains(words), "{log}");
    // Publishers are served: the log has what they publish.
    for number in 0..10 {
        let qos = (1 + number % 2).to_string();
        publish(&one, "u/x", &format!("n{number}"), &["-q", &qos]);
    }
    // A restart without an upgrade passes over nothing.
    two.kill();
    let two = Gateway::start_in(folder.path(), &settings);
    await_joined(&two, 1);
    await_unreadable(&two, 4);
    let mut kept = resumed(&two, "kept");
    for (number, sequence) in (1..).zip(sequences) {
        remove(&nats, &format!("GP_P{number}"), sequence);
    }
    kept.await_line("u/x n9 2");
    for qos in [1, 2] {
        let expected = (0..10).filter(|number| 1 + number % 2 == qos);
        let expected: Vec<String> = expected.map(|n| format!("u/x n{n} {qos}")).collect();
        let mut arrived = messages(&mut kept, "u/x");
        arrived.retain(|line| line.ends_with(&format!(" {qos}")));
        assert_eq!(arrived, expected);
    }
    await_unreadable(&two, 0);
    await_unreadable(&one, 0);
}

#[test]
fn the_sessions_of_a_later_version_are_left_to_a_node_that_can_read_them() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let settings = |number| {
        let more = "backbone.adopt_after = \"500ms\"\n";
        format!("{}{more}{PLAIN}", nats.settings(number))
    };
    let (one, two) = (Gateway::start(&settings(1)), Gateway::start(&settings(2)));
    await_joined(&one, 1);
    await_joined(&two, 1);
    drop(kept_session(&one, "patient", "p/#", &[]));
    publish(&one, "p/x", "before", &["-q", "1"]);
    let names = nats.request("$JS.API.STREAM.NAMES", "");
    let stream = names.split('"').find(|name| name.starts_with("GP_NODE_1_"));
    let stream = stream.expect("the stream of the node").to_owned();
    let info = nats.request(&format!("$JS.API.STREAM.INFO.{stream}"), "");
    let info: serde_json::Value = serde_json::from_str(&info).expect("an answer");
    let subject = info["config"]["subjects"][0].as_str().expect("a subject");
    one.kill();
    let sequence = write_later(&nats, subject);
    await_unreadable(&two, 1);
    let log = two.log();
    assert!(
        log.contains("a node's stream cannot be read further"),
        "{log}"
    );
    assert_eq!(metric(&two, "gatepost_backbone_sessions_adopted_total"), 0);
    remove(&nats, &stream, sequence);
    await_unreadable(&two, 0);
    publish(&two, "p/x", "after", &["-q", "1"]);
    let mut patient = resumed(&two, "patient");
    patient.await_line("p/x after 1");
    assert_eq!(
        messages(&mut patient, "p/x"),
        ["p/x before 1", "p/x after 1"]
    );
}

#[test]
fn a_retained_message_of_a_later_version_is_not_replaced() {
    if nats::program().is_none() {
        return;
    }
    let (nats, folder) = (Nats::start(""), tempfile::tempdir().expect("a folder"));
    let settings = format!("{}{PLAIN}", nats.settings(1));
    let one = Gateway::start_in(folder.path(), &settings);
    await_joined(&one, 0);
    publish(&one, "t", "earlier", &["-q", "1", "-r"]);
    await_some("the cluster has it", || {
        (metric(&one, "gatepost_backbone_retained_unsent ") == 0).then_some(())
    });
    assert_eq!(one.terminate(), Some(0));
    let sequence = write_later(&nats, "gp.r.t");
    // The topic is one of its own, of which it has read nothing.
    let one = Gateway::start_in(folder.path(), &settings);
    await_joined(&one, 0);
    await_unreadable(&one, 1);
    let last = nats.request(
        "$JS.API.STREAM.MSG.GET.GP_RETAINED",
        "{\"last_by_subj\":\"gp.r.t\"}",
    );
    let last: serde_json::Value = serde_json::from_str(&last).expect("an answer");
    assert_eq!(last["message"]["seq"], sequence, "{last}");
    remove(&nats, "GP_RETAINED", sequence);
    await_unreadable(&one, 0);
}

#[test]
fn the_versions_of_all_nodes_are_shown() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let (one, two) = super::two_nodes(&nats);
    assert_eq!(two.terminate(), Some(0));
    let nodes = || run_with_settings(&["nodes"], &nats.settings(1)).1;
    let absent = nodes();
    let version = env!("CARGO_PKG_VERSION");
    let is_absent = |line: &str| line.starts_with("2 ") && line.contains("not running");
    let line = absent.lines().find(|line| is_absent(line));
    assert!(line.is_some_and(|line| line.contains(version)), "{absent}");
    let record = "{\"node\":9,\"host\":\"future\",\"process\":1,\"started_unix_ms\":1,\
                  \"version\":\"2.7.0\",\"encoding\":2,\"more\":[]}";
    for (node, record) in [(8, "another form"), (9, record)] {
        nats.request(&format!("$KV.GP_NODES.node.{node}"), record);
    }
    let text = nodes();
    let line = |start: &str| text.lines().find(|line| line.starts_with(start));
    assert!(
        line("9 ").is_some_and(|line| line.contains("version 2.7.0")),
        "{text}"
    );
    let outdated = "reads encoding 1 of 2: upgrade it";
    assert!(
        line("1 ").is_some_and(|line| line.ends_with(outdated)),
        "{text}"
    );
    assert!(line("8 ").is_some(), "{text}");
    let parts = [
        "\"version\":\"2.7.0\",\"encoding\":2",
        "\"absent\":[{\"node\":2,",
    ];
    // Its first sample may not have been taken.
    await_some("the state has them", || {
        let state = text_of(&run("curl", &["-s", &one.url("/admin/state")], b""));
        parts.iter().all(|part| state.contains(part)).then_some(())
    });
    assert_eq!(metric(&one, "gatepost_backbone_members "), 2);
}
