//! Entries of the log and retained messages of about the length that the NATS servers take.

use std::thread;

use super::nats::{self, Nats};
use super::support::{Client, Gateway, await_some, run, text_of};
use super::{await_joined, metric, node, publish};

/// The longest message that the NATS server takes, in bytes.
const MAX_PAYLOAD: usize = 4_096;

/// A NATS server that takes short messages only, and a node; `None` where there is no such server.
fn started() -> Option<(Nats, Gateway)> {
    nats::program()?;
    let nats = Nats::start(&format!("max_payload: {MAX_PAYLOAD}"));
    let one = node(&nats, 1);
    await_joined(&one, 0);
    Some((nats, one))
}

#[test]
fn publications_that_wait_together_are_divided_into_entries_that_are_stored() {
    const COUNT: usize = 20;
    let Some((nats, one)) = started() else {
        return;
    };
    let mut subscriber = Client::subscribe(&one, "entries/#", "%t %l");
    let port = one.port("mqtt");
    // More than one entry has room for.
    let lines = format!("{}\n", "x".repeat(MAX_PAYLOAD / 8)).repeat(COUNT);
    nats.signal("STOP");
    thread::scope(|scope| {
        let publishing = scope.spawn(|| {
            let arguments = [
                "-p",
                &port,
                "-V",
                "5",
                "-q",
                "1",
                "-t",
                "entries/1",
                "-l",
                "-d",
            ];
            run("mosquitto_pub", &arguments, lines.as_bytes())
        });
        await_some("the publications wait", || {
            (metric(&one, "gatepost_backbone_log_waiting ") >= COUNT as u64 - 1).then_some(())
        });
        nats.signal("CONT");
        let said = text_of(&publishing.join().expect("mosquitto_pub"));
        assert_eq!(said.matches("RC:0").count(), COUNT, "{said}");
    });
    for _ in 0..COUNT {
        subscriber.await_line("entries/1");
    }
    assert_eq!(metric(&one, "gatepost_backbone_log_refused_total "), 0);
}

#[test]
fn a_publication_that_is_too_long_with_its_headers_is_refused_alone() {
    let Some((_nats, one)) = started() else {
        return;
    };
    let port = one.port("mqtt");
    let publish_once = |length: usize| {
        let payload = "x".repeat(length);
        let arguments = [
            "-p", &port, "-V", "5", "-q", "1", "-t", "long", "-m", &payload, "-d",
        ];
        text_of(&run("mosquitto_pub", &arguments, b""))
    };
    let mut refused = 0;
    for length in (MAX_PAYLOAD - 1_000..MAX_PAYLOAD).step_by(20) {
        let said = publish_once(length);
        let is_accepted = said.contains("RC:0)");
        assert!(is_accepted || said.contains("RC:151)"), "{length}: {said}");
        assert!(!is_accepted || refused == 0, "{length} bytes: {said}");
        refused += u32::from(!is_accepted);
        // The connection to the NATS servers goes on.
        let log = one.log();
        assert!(!log.contains("appending to the log"), "{length}: {log}");
    }
    assert!(refused > 0, "the longest one was accepted");
    assert!(publish_once(10).contains("RC:0)"));
}

#[test]
fn a_retained_message_that_is_too_long_with_its_headers_is_not_sent_again() {
    let Some((_nats, one)) = started() else {
        return;
    };
    let expiry = ["-r", "-D", "publish", "message-expiry-interval", "3600"];
    let lengths = (MAX_PAYLOAD - 200..MAX_PAYLOAD).step_by(10);
    let count = lengths.len() as u64;
    for length in lengths {
        let topic = format!("retained/{length}");
        publish(&one, &topic, &"x".repeat(length), &expiry);
    }
    publish(&one, "retained/short", "x", &expiry);
    await_some("each is dropped for the other nodes", || {
        let dropped = metric(&one, "gatepost_dropped_total{cause=\"backbone\"} ");
        let unsent = metric(&one, "gatepost_backbone_retained_unsent ");
        (dropped >= count && unsent == 0).then_some(())
    });
}
