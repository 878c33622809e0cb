//! The NATS servers have stored a publication, and their acknowledgement does not reach the node.
//! When the node sends it again, they do not know its message id any more.

use std::path::Path;
use std::time::Duration;

use super::adoption_interrupted::{PARTITIONS, forget_message_ids};
use super::log::{kept_session, messages};
use super::nats::{self, Nats};
use super::subscription::NatsSubscription;
use super::support::{Client, Gateway};
use super::upgrade::{await_unreadable, remove, write_later};
use super::{PLAIN, await_joined, publish};

/// Longer than the node waits for an acknowledgement.
const NO_MESSAGE_WITHIN: Duration = Duration::from_secs(4);

/// A node that has seen for how short a time the NATS server knows message ids.
fn node(nats: &Nats, folder: &Path) -> Gateway {
    let settings = format!("{}{PLAIN}", nats.settings(1));
    let gateway = Gateway::start_in(folder, &settings);
    await_joined(&gateway, 0);
    forget_message_ids(nats);
    gateway.kill();
    let gateway = Gateway::start_in(folder, &settings);
    await_joined(&gateway, 0);
    gateway
}

/// The streams of the log store what is published to another subject.
fn set_subjects(nats: &Nats, end: &str) {
    for number in 1..=PARTITIONS {
        nats.update(&format!("GP_P{number}"), |config| {
            config["subjects"] = [format!("gp.p.{number}{end}")].into();
        });
    }
}

/// Begins to publish, and stores what the node sends as the stream would, without an answer.
fn publish_without_acknowledgement(nats: &Nats, gateway: &Gateway) -> (Client, NatsSubscription) {
    let mut sent = nats.subscribe("gp.p.*");
    let port = gateway.port("mqtt");
    let arguments = [
        "-p", &port, "-V", "5", "-t", "u/x", "-m", "once", "-q", "2", "-c", "-i", "sender", "-d",
    ];
    let publisher = Client::start("mosquitto_pub", &arguments);
    let within = Duration::from_mins(1);
    let (subject, payload) = sent.next_within(within).expect("an entry");
    nats.store(&format!("{subject}.stored"), &payload);
    (publisher, sent)
}

/// Publishes once more; the client has received each publication once.
fn assert_received_once(gateway: &Gateway, mut client: Client) {
    publish(gateway, "u/x", "last", &["-q", "2"]);
    client.await_line("u/x last 2");
    assert_eq!(messages(&mut client, "u/x"), ["u/x once 2", "u/x last 2"]);
}

#[test]
fn a_publication_that_was_read_back_is_not_appended_again() {
    if nats::program().is_none() {
        return;
    }
    let (nats, folder) = (Nats::start(""), tempfile::tempdir().expect("a folder"));
    let gateway = node(&nats, folder.path());
    let mut kept = kept_session(&gateway, "kept", "u/#", &[]);
    set_subjects(&nats, ".stored");
    let (mut publisher, _) = publish_without_acknowledgement(&nats, &gateway);
    kept.await_line("u/x once 2");
    // No stream stores what the node may send again, so only the reading completes the publication.
    publisher.await_line("PUBCOMP");
    set_subjects(&nats, "");
    assert_received_once(&gateway, kept);
}

#[test]
fn a_publication_is_not_appended_again_before_the_log_is_read() {
    if nats::program().is_none() {
        return;
    }
    let (nats, folder) = (Nats::start(""), tempfile::tempdir().expect("a folder"));
    let gateway = node(&nats, folder.path());
    let mut kept = kept_session(&gateway, "kept", "u/#", &[]);
    set_subjects(&nats, ".stored");
    // No node reads the log beyond entries of a later version.
    let block = |number| write_later(&nats, &format!("gp.p.{number}.stored"));
    let blocks: Vec<u64> = (1..=PARTITIONS).map(block).collect();
    await_unreadable(&gateway, u64::from(PARTITIONS));
    let (mut publisher, mut sent) = publish_without_acknowledgement(&nats, &gateway);
    assert_eq!(sent.next_within(NO_MESSAGE_WITHIN), None);
    set_subjects(&nats, "");
    for (number, sequence) in (1..).zip(blocks) {
        remove(&nats, &format!("GP_P{number}"), sequence);
    }
    publisher.await_line("PUBCOMP");
    kept.await_line("u/x once 2");
    assert_received_once(&gateway, kept);
}
