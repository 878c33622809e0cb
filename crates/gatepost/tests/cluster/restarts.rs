//! The restart of every NATS server and every node, one after the other, as an upgrade does it,
//! while clients of another project publish and subscribe at QoS 1: each message arrives, in order,
//! and no session is lost.
//!
//! The clients are `tests/paho/restarts.py`, with paho. They connect to another node when theirs
//! ends.

use std::fs;
use std::path::Path;

use super::faults::machines::{Machine, Machines};
use super::nats;
use super::support::{Client, root};

/// Acknowledgements between two restarts.
const ACKNOWLEDGED: usize = 200;

fn write_addresses(folder: &Path, machines: &Machines) {
    let addresses = machines.nodes.iter().map(|node| *node.mqtt.lock());
    let lines = addresses.map(|one| format!("{} {}\n", one.ip(), one.port()));
    let written = folder.join("addresses.new");
    fs::write(&written, lines.collect::<String>()).expect("written");
    fs::rename(written, folder.join("addresses")).expect("replaced");
}

fn start_client(role: &str, folder: &Path) -> Client {
    let packages = format!("PYTHONPATH={}", root().join(".peers/paho-2").display());
    let script = root().join("tests/paho/restarts.py");
    let [script, folder] = [script.display().to_string(), folder.display().to_string()];
    Client::start("env", &[&packages, "python3", "-B", &script, role, &folder])
}

#[test]
fn clients_get_each_message_while_all_is_restarted() {
    if nats::program().is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut machines = Machines::start(None);
    write_addresses(folder.path(), &machines);
    let mut subscriber = start_client("subscribe", folder.path());
    subscriber.await_line("subscribed");
    let mut publisher = start_client("publish", folder.path());
    let mut published = ACKNOWLEDGED;
    publisher.await_line(&format!("published {published}"));
    for number in 0..3 {
        for machine in [Machine::Nats(number), Machine::Node(number)] {
            machines.restart(machine);
            write_addresses(folder.path(), &machines);
            machines.await_nodes();
            machines.await_replicas();
            published += ACKNOWLEDGED;
            publisher.await_line(&format!("published {published}"));
        }
    }
    fs::write(folder.path().join("finish"), "").expect("written");
    let acknowledged = publisher.await_line("acknowledged");
    let count = acknowledged.split(' ').nth(1).expect("a count");
    fs::write(folder.path().join("finish"), count).expect("written");
    subscriber.await_line(&format!("complete {count}"));
    for client in [publisher, subscriber] {
        let lines = client.into_lines();
        let wrong = lines.iter().any(|line| line.starts_with("wrong"));
        assert!(!wrong, "{lines:#?}");
        let connections = lines.iter().find(|line| line.starts_with("connections"));
        let connections = connections.and_then(|line| line.split(' ').nth(1)?.parse::<u32>().ok());
        assert!(
            connections > Some(1),
            "the client was not disconnected: {lines:#?}"
        );
    }
}
