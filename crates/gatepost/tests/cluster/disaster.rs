//! Data of a cluster after a loss, as docs/operating.md says: the backup of all, the
//! loss of what the NATS servers have, and the loss of a node's database.

use std::path::Path;
use std::process::Command;

use super::log::{await_read, kept_session, messages};
use super::moves::{continuing, resumed};
use super::nats::{self, Nats};
use super::support::{Client, Gateway, await_some, command, run, text_of};
use super::{PLAIN, await_joined, metric, publish};

/// Whether `nats` is installed; otherwise the output reports this.
fn has_nats_command() -> bool {
    let found = command("nats").arg("--version").output().is_ok();
    if !found {
        eprintln!("SKIPPED: nats is not installed here (tests/install-peers)");
    }
    found
}

/// `gatepost` with these arguments in the folder of a node.
fn gatepost(folder: &Path, arguments: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_gatepost"))
        .args(arguments)
        .arg("--config")
        .arg(folder.join("gatepost.toml"))
        .current_dir(folder)
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", text_of(&output));
}

fn nats_command(nats: &Nats, arguments: &[&str]) {
    let server = nats.url();
    let output = run("nats", &[&["--server", &server], arguments].concat(), b"");
    assert!(output.status.success(), "{}", text_of(&output));
}

fn folders() -> [tempfile::TempDir; 2] {
    [(); 2].map(|()| tempfile::tempdir().expect("a folder"))
}

/// Starts both nodes, each in its folder.
fn start(nats: &Nats, folders: &[tempfile::TempDir; 2]) -> [Gateway; 2] {
    start_with("", nats, folders)
}

fn start_with(more: &str, nats: &Nats, folders: &[tempfile::TempDir; 2]) -> [Gateway; 2] {
    let mut numbers = 1..;
    let nodes = folders.each_ref().map(|folder| {
        let number = numbers.next().expect("two numbers");
        let settings = format!("{}{more}{PLAIN}", nats.settings(number));
        Gateway::start_in(folder.path(), &settings)
    });
    for node in &nodes {
        await_joined(node, 1);
    }
    nodes
}

/// The retained message of `state` as a new subscriber of a node gets it.
fn retained(gateway: &Gateway) -> String {
    let mut client = Client::subscribe(gateway, "state", "%t %p");
    client.await_line("state ")
}

fn numbered(range: std::ops::Range<u32>) -> Vec<String> {
    range.map(|number| format!("b/x n{number} 1")).collect()
}

fn publish_numbered(gateway: &Gateway, range: std::ops::Range<u32>) {
    for number in range {
        publish(gateway, "b/x", &format!("n{number}"), &["-q", "1"]);
    }
}

#[test]
fn a_backup_of_all_returns_to_its_time() {
    if nats::program().is_none() || !has_nats_command() {
        return;
    }
    let (nats, folders) = (Nats::start(""), folders());
    let saved = tempfile::tempdir().expect("a folder");
    let path = |name: &str| saved.path().join(name).display().to_string();
    let nodes = start(&nats, &folders);
    drop(kept_session(&nodes[1], "kept", "b/#", &[]));
    publish(&nodes[0], "state", "first", &["-q", "1", "-r"]);
    publish_numbered(&nodes[0], 0..5);
    // The databases first: what is published between them and the streams is in the streams.
    for (number, folder) in folders.iter().enumerate() {
        gatepost(folder.path(), &["backup", &path(&number.to_string())]);
    }
    publish_numbered(&nodes[0], 5..10);
    let mut kept = resumed(&nodes[1], "kept");
    kept.await_line("b/x n9 1");
    drop(kept);
    nats_command(&nats, &["account", "backup", "--force", &path("streams")]);
    publish_numbered(&nodes[0], 10..15);
    publish(&nodes[0], "state", "later", &["-q", "1", "-r"]);
    for node in nodes {
        node.kill();
    }
    drop(nats);

    let nats = Nats::start("");
    nats_command(&nats, &["account", "restore", &path("streams")]);
    let others = self::folders();
    for (number, folder) in others.iter().enumerate() {
        let settings = nats.settings(1 + number as u8);
        std::fs::write(folder.path().join("gatepost.toml"), settings).expect("written");
        gatepost(
            folder.path(),
            &["restore", "--replace", &path(&number.to_string())],
        );
    }
    let nodes = start(&nats, &others);
    await_read(&nodes[1]);
    let mut kept = resumed(&nodes[1], "kept");
    publish(&nodes[0], "b/x", "after", &["-q", "1"]);
    kept.await_line("b/x after 1");
    let mut arrived = messages(&mut kept, "b/x");
    arrived.pop();
    assert_eq!(
        arrived,
        numbered(0..10),
        "none of the streams' backup is lost"
    );
    assert_eq!(retained(&nodes[0]), "state first");
    assert_eq!(retained(&nodes[1]), "state first");
}

#[test]
fn nodes_whose_nats_servers_lose_their_data_continue() {
    if nats::program().is_none() {
        return;
    }
    let (mut nats, folders) = (Nats::start(""), folders());
    let [one, two] = start(&nats, &folders);
    drop(kept_session(&two, "kept", "b/#", &[]));
    publish(&one, "state", "first", &["-q", "1", "-r"]);
    publish_numbered(&one, 0..5);
    await_read(&two);
    nats.kill();
    std::fs::remove_dir_all(nats.folder().join("jetstream")).expect("removed");
    nats.start_again();
    for node in [&one, &two] {
        await_joined(node, 1);
    }
    publish_numbered(&one, 5..10);
    let mut kept = resumed(&two, "kept");
    kept.await_line("b/x n9 1");
    assert_eq!(messages(&mut kept, "b/x"), numbered(0..10));
    let log = two.log();
    assert!(
        log.contains("the stream of the log is another one than before"),
        "{log}"
    );
    // The retained messages are there again, for a node that joins now.
    let three = super::node(&nats, 3);
    await_joined(&three, 2);
    await_some("the retained message is there", || {
        (metric(&three, "gatepost_retained_messages") > 0).then_some(())
    });
    assert_eq!(retained(&three), "state first");
    // The session moves, as before.
    drop(kept);
    drop(resumed(&three, "kept"));
}

/// Two nodes with this time of adoption, the second one of which was started again without its
/// database. It had the sessions "kept" and "other", for which five messages wait.
fn without_database(nats: &Nats, adopt_after: &str) -> [Gateway; 2] {
    let folders = folders();
    let more = format!("backbone.adopt_after = \"{adopt_after}\"\n");
    let [mut one, two] = start_with(&more, nats, &folders);
    let [first, _lost] = folders;
    one.keep(first);
    for client in ["kept", "other"] {
        drop(kept_session(&two, client, "b/#", &[]));
    }
    publish(&one, "state", "first", &["-q", "1", "-r"]);
    publish_numbered(&one, 0..5);
    two.kill();
    let empty = tempfile::tempdir().expect("a folder");
    let settings = format!("{}{more}{PLAIN}", nats.settings(2));
    let mut two = Gateway::start_in(empty.path(), &settings);
    two.keep(empty);
    for node in [&one, &two] {
        await_joined(node, 1);
    }
    assert_eq!(retained(&two), "state first");
    [one, two]
}

#[test]
fn a_node_that_loses_its_database_begins_again() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let [one, two] = without_database(&nats, "0s");
    // Its sessions are lost, and their clients begin again: on this node, and on another one.
    for (node, client) in [(&two, "kept"), (&one, "other")] {
        let mut begun = continuing(node, client);
        assert_eq!(begun.await_line("new"), "new Success", "{client}");
        drop(begun);
        let mut begun = kept_session(node, client, "b/#", &[]);
        publish(&one, "b/y", client, &["-q", "1"]);
        begun.await_line(&format!("b/y {client} 1"));
        assert_eq!(messages(&mut begun, "b/x"), [""; 0]);
    }
}

#[test]
fn the_sessions_of_a_lost_database_are_adopted() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let [one, two] = without_database(&nats, "500ms");
    await_some("the sessions are adopted", || {
        let adopted = |node| metric(node, "gatepost_backbone_sessions_adopted_total");
        (adopted(&one) + adopted(&two) == 2).then_some(())
    });
    publish_numbered(&one, 5..6);
    for (node, client) in [(&two, "kept"), (&one, "other")] {
        let mut kept = resumed(node, client);
        kept.await_line("b/x n5 1");
        assert_eq!(messages(&mut kept, "b/x"), numbered(0..6));
    }
}
