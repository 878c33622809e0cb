//! The quarantine that all nodes share, with swaks, curl and POP3.

use std::time::Duration;

use serde_json::Value;

use super::mail_release::{administer, start_judging};
use super::mailboxes::{ANNA, count, folder, folder_with_users, read, send};
use super::nats::{self, Nats};
use super::support::{Gateway, await_some, run, swaks, text_of};

/// The number of messages in quarantine, as a node shows it.
fn total(gateway: &Gateway) -> Option<u64> {
    administer(gateway, "GET", "/admin/quarantine")["total"].as_u64()
}

/// Waits until a node has so many messages in quarantine; returns the id of the newest one.
fn await_total(gateway: &Gateway, expected: u64) -> String {
    let what = format!("{expected} messages in quarantine");
    await_some(&what, || {
        let list = administer(gateway, "GET", "/admin/quarantine");
        let newest = list["messages"].get(0);
        let id = newest.and_then(|entry| entry["id"].as_str()).unwrap_or("");
        (list["total"] == expected).then(|| id.to_owned())
    })
}

/// Sends a POST to this address.
fn post(url: &str) -> Value {
    let arguments = ["-sS", "-u", "bert:secret", "-X", "POST", url];
    let output = run("curl", &arguments, b"");
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

/// A message in quarantine as it arrived.
fn source(gateway: &Gateway, id: &str) -> String {
    let url = gateway.url(&format!("/admin/quarantine/{id}/source"));
    text_of(&run("curl", &["-sS", "-u", "bert:secret", &url], b""))
}

fn quarantine(gateway: &Gateway, body: &str) {
    let said = send(gateway, ANNA, body);
    assert!(said.contains(" taken"), "{said}");
}

#[test]
fn a_message_in_quarantine_outlives_its_node_and_the_disk() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let [lost, kept] = [folder(), folder_with_users()];
    let one = start_judging(lost.path(), &nats.settings(1));
    let two = start_judging(kept.path(), &nats.settings(2));
    quarantine(&one, "suspicious");
    one.kill();
    drop(lost);
    let id = await_total(&two, 1);
    quarantine(&two, "later");
    let later = await_total(&two, 2);
    // The same node, with an empty database.
    let empty = folder();
    let one = start_judging(empty.path(), &nats.settings(1));
    assert_eq!(await_total(&one, 2), later);
    assert_eq!(source(&one, &id), source(&two, &id));
    let shown = administer(&two, "GET", &format!("/admin/quarantine/{id}"));
    assert_eq!(shown["node"], 1, "{shown}");
    let released = administer(&two, "POST", &format!("/admin/quarantine/{id}/release"));
    assert_eq!(released["verdict"], "accept", "{released}");
    assert_eq!(count(&two, "anna"), 1);
    assert!(String::from_utf8_lossy(&read(&two, "anna", 1)).contains("suspicious"));
    assert_eq!(total(&two), Some(1));
    await_total(&one, 1);
    for node in [&one, &two] {
        let entry = administer(node, "GET", &format!("/admin/messages/{id}"));
        assert_eq!(entry["action"], "accept", "{entry}");
    }
}

#[test]
fn two_administrators_release_a_message_once() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let folders = [folder_with_users(), folder()];
    let one = start_judging(folders[0].path(), &nats.settings(1));
    let two = start_judging(folders[1].path(), &nats.settings(2));
    for round in 0..10 {
        quarantine(&one, &format!("round {round}"));
        let id = await_total(&one, 1);
        await_total(&two, 1);
        let path = format!("/admin/quarantine/{id}/release");
        let urls = [&one, &two].map(|node| node.url(&path));
        let released = urls.map(|url| std::thread::spawn(move || post(&url)));
        let released = released.map(|thread| thread.join().expect("an answer"));
        let accepted = released.iter();
        let accepted = accepted.filter(|answer| answer["verdict"] == "accept");
        assert_eq!(accepted.count(), 1, "round {round}: {released:?}");
        assert_eq!(await_total(&two, 0), "");
        assert_eq!(await_total(&one, 0), "");
    }
    assert_eq!(count(&two, "anna"), 10);
}

#[test]
fn what_leaves_the_quarantine_of_a_node_leaves_that_of_all() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let folders = [folder_with_users(), folder()];
    let one = start_judging(folders[0].path(), &nats.settings(1));
    // The newest message is always kept.
    let limits = "store.quarantine_bytes_max = \"1kB\"\nstore.quarantine_age_max = \"1s\"\n";
    let settings = format!("{}{limits}", nats.settings(2));
    let two = start_judging(folders[1].path(), &settings);
    let long = "x".repeat(700);
    quarantine(&one, &long);
    let first = await_total(&two, 1);
    quarantine(&one, &long);
    let second = await_total(&two, 1);
    let second = if second == first {
        await_total(&one, 1)
    } else {
        second
    };
    assert_ne!(first, second);
    assert_eq!(
        await_total(&one, 1),
        second,
        "the node without the limit follows"
    );
    let path = format!("/admin/quarantine/{second}");
    administer(&two, "DELETE", &path);
    assert_eq!(total(&two), Some(0));
    await_total(&one, 0);
    quarantine(&one, "old");
    await_total(&one, 1);
    // What is too old is removed once a minute.
    std::thread::sleep(Duration::from_secs(30));
    await_total(&one, 0);
}

#[test]
fn without_a_majority_no_message_is_put_into_quarantine() {
    if nats::program().is_none() {
        return;
    }
    let mut servers = Nats::cluster();
    let folder = folder_with_users();
    let settings = Nats::settings_of_all(&servers, 1);
    let one = start_judging(folder.path(), &settings);
    quarantine(&one, "before");
    await_total(&one, 1);
    servers[0].kill();
    servers[1].kill();
    let said = send(&one, ANNA, "meanwhile");
    assert!(said.contains("<** 451 4."), "{said}");
    assert_eq!(total(&one), Some(1));
    servers[0].start_again();
    servers[1].start_again();
    await_some("mail is accepted again", || {
        send(&one, ANNA, "after").contains(" taken").then_some(())
    });
    await_some("what was refused is not there", || {
        let list = administer(&one, "GET", "/admin/quarantine?search=a");
        (list["total"] == 2).then_some(())
    });
}

#[test]
fn a_server_that_joins_brings_its_quarantine() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let folders = [folder_with_users(), folder()];
    let alone = start_judging(folders[0].path(), "node = 1\n");
    let said = send(&alone, ANNA, "old");
    assert!(said.contains(" taken"), "{said}");
    alone.terminate();
    let two = start_judging(folders[1].path(), &nats.settings(2));
    let one = start_judging(folders[0].path(), &nats.settings(1));
    let id = await_total(&two, 1);
    assert_eq!(await_total(&one, 1), id);
    assert!(source(&two, &id).contains("old"));
}

/// The subjects that digests in anna's mailbox list.
fn listed(gateway: &Gateway) -> Vec<String> {
    let digests = (1..=count(gateway, "anna")).map(|number| read(gateway, "anna", number));
    let lines = digests.flat_map(|digest| {
        let text = String::from_utf8_lossy(&digest).into_owned();
        let lines = text.lines().filter(|line| line.starts_with("listed "));
        lines.map(str::to_owned).collect::<Vec<_>>()
    });
    let mut lines: Vec<String> = lines.collect();
    lines.sort();
    lines
}

#[test]
fn a_digest_of_one_node_lists_each_message() {
    if nats::program().is_none() {
        return;
    }
    let nats = Nats::start("");
    let folders = [folder_with_users(), folder()];
    let nodes = [1, 2].map(|number| {
        let digests = "quarantine_digest.every = \"1s\"\n\
            quarantine_digest.from = \"quarantine@people.example\"\n\
            quarantine_digest.base_url = \"https://gate.people.example\"\n\
            quarantine_digest.procedures = [\"/judge\"]\n";
        let settings = format!("{}{digests}", nats.settings(number));
        start_judging(folders[usize::from(number) - 1].path(), &settings)
    });
    let mut expected = Vec::new();
    for round in 1..=2 {
        for (node, number) in nodes.iter().zip(1..) {
            let subject = format!("listed {round} of {number}");
            let header = format!("Subject: {subject}");
            let server = node.address("smtp").to_string();
            let options = ["--header", header.as_str(), "--body", "x"];
            let sent = swaks(&server, "otto@example.org", ANNA, &options);
            assert!(sent.status.success(), "{}", text_of(&sent));
            expected.push(subject);
        }
        for node in &nodes {
            await_total(node, 2 * round);
        }
        // The digest of a node with its second message comes after all that it lists of the first
        // round.
        await_some("the digests list what was sent", || {
            let listed = listed(&nodes[0]);
            let is_listed = expected.iter().all(|subject| listed.contains(subject));
            is_listed.then_some(())
        });
    }
    assert_eq!(listed(&nodes[1]), expected);
}
