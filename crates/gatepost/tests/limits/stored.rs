//! The bounds in bytes of stored messages: in memory, in the history and in the quarantine.

use super::start;
use super::support::{Gateway, run, swaks, text_of};

const ITEM_BYTES: usize = 8_000;
const ITEMS: usize = 40;
/// The number of messages that fit into the limits below.
const FITTING: usize = 100_000 / ITEM_BYTES;

fn messages(gateway: &Gateway, path: &str) -> usize {
    let answer = run("curl", &["-s", &gateway.url(path)], b"");
    let answer = String::from_utf8_lossy(&answer.stdout).into_owned();
    let answer: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
    let list = answer.get("messages").unwrap_or(&answer);
    list.as_array().expect("a list").len()
}

/// Payload and properties of what a topic remembers count alike.
#[test]
fn remembered_messages_are_bounded_with_their_properties() {
    let gateway = start("store.history_messages_max = 0\nbroker.recent_bytes_max = \"100kB\"\n");
    let (port, value) = (gateway.port("mqtt"), "v".repeat(ITEM_BYTES));
    for item in 0..ITEMS {
        let topic = format!("remembered/{item}");
        let property = ["-D", "publish", "user-property", "name", &value];
        let arguments = ["-p", &port, "-V", "5", "-q", "1", "-t", &topic, "-m", "x"];
        let sent = run("mosquitto_pub", &[&arguments[..], &property].concat(), b"");
        assert!(sent.status.success(), "{}", text_of(&sent));
    }
    let topics = (0..ITEMS).map(|item| messages(&gateway, &format!("/topics/remembered/{item}")));
    let remembered: usize = topics.sum();
    assert!(
        (1..=FITTING).contains(&remembered),
        "{remembered} remembered"
    );
}

#[test]
fn the_history_is_bounded_in_bytes() {
    let gateway = start("store.history_bytes_max = \"100kB\"\n");
    for item in 0..ITEMS {
        let body = format!("{item} {}", "x".repeat(ITEM_BYTES));
        let answer = super::post(&gateway, "kept", &body);
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    let database = gateway.folder.join("gatepost-data/gatepost.db");
    let database = rusqlite::Connection::open(database).expect("the database");
    let count = "SELECT count(*) FROM history";
    let kept: usize = database
        .query_row(count, (), |row| row.get(0))
        .expect("a number");
    assert!((1..=FITTING + 1).contains(&kept), "{kept} kept");
}

#[test]
fn the_quarantine_is_bounded_in_bytes() {
    const GTUBE: &str = "XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X";
    let gateway = start(
        "procedure.\"/spamcheck\".action = \"quarantine\"\n\
         store.quarantine_bytes_max = \"100kB\"\n",
    );
    let line = format!("{}\n", "x".repeat(99));
    let body = format!("{GTUBE}\n{}", line.repeat(ITEM_BYTES / line.len()));
    let server = gateway.address("smtp").to_string();
    for _ in 0..ITEMS / 2 {
        let sent = swaks(
            &server,
            "a@example.org",
            "alarms@localhost",
            &["--body", &body],
        );
        assert!(sent.status.success(), "{}", text_of(&sent));
    }
    let kept = messages(&gateway, "/admin/quarantine");
    assert!((1..=FITTING).contains(&kept), "{kept} kept");
}
