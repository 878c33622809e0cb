//! The index of the journal: built by a running server, also after a kill.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use gatepost_message::{Action, Envelope, Listener, MessageId, Peer, Topic};
use gatepost_store::{JournalEntry, QuarantineEntry, Store, StoreChange, StoreSettings};

use super::support::{Gateway, await_some};
use super::{curl, json};

const ENTRIES: usize = 6_000;
/// The entries that wait for the index are fewer.
const COMPARED_MAX: u64 = 2_000;

fn entry(number: usize) -> JournalEntry {
    JournalEntry {
        id: MessageId::next(),
        envelope: Envelope {
            sender: Some(format!("sender{number}@example.org")),
            ..Envelope::new(Listener::Smtp, Peer::Local)
        },
        topic: Topic::new("alarms/fire").ok(),
        topics: Vec::new(),
        subject: Some(format!("Report no{number}x")),
        size: 10,
        action: Action::Accept,
        score: None,
        hits: Vec::new(),
        reason: "as usual".to_owned(),
        procedure: String::new(),
        duration: Duration::ZERO,
        deliveries: 1,
    }
}

/// Fills the data of a server of a release without an index, with a message in quarantine; returns
/// the id of that.
fn fill(folder: &Path) -> MessageId {
    let (store, _) = Store::open(folder, &StoreSettings::default()).expect("a store");
    let quarantined = JournalEntry {
        action: Action::Quarantine,
        ..entry(0)
    };
    let id = quarantined.id;
    let quarantined = QuarantineEntry {
        journal: quarantined,
        body: Bytes::from_static(b"Subject: Report\r\n\r\nText\r\n"),
        properties: None,
        retain: false,
    };
    let mut changes = vec![StoreChange::Quarantine(Box::new(quarantined))];
    changes.extend((1..ENTRIES).map(|number| StoreChange::Journal(Box::new(entry(number)))));
    store.submit(changes).expect("taken");
    store.close(); // commits waiting changes
    for file in std::fs::read_dir(folder).expect("a folder") {
        let file = file.expect("a file").path();
        if file.to_string_lossy().contains("journal-index") {
            std::fs::remove_file(file).expect("removed");
        }
    }
    id
}

/// The senders that a search finds, all its pages together, and the entries that were compared.
fn search(gateway: &Gateway, query: &str) -> (Vec<String>, u64) {
    let (mut senders, mut compared, mut before) = (Vec::new(), 0, String::new());
    loop {
        let path = format!("/admin/messages?count=1000&{query}&before={before}");
        let page = json(gateway, &path, &[]);
        let messages = page["messages"].as_array().expect("messages").iter();
        senders.extend(messages.filter_map(|one| one["sender"].as_str().map(str::to_owned)));
        compared += page["compared"].as_u64().expect("a number");
        match page["next"].as_str() {
            Some(next) => next.clone_into(&mut before),
            None => return (senders, compared),
        }
    }
}

fn await_index(gateway: &Gateway) {
    await_some("the journal is indexed", || {
        let (found, compared) = search(gateway, "search=no+such+text");
        assert!(found.is_empty(), "{found:?}");
        (compared < COMPARED_MAX).then_some(())
    });
}

fn expect_everything(gateway: &Gateway) {
    for number in [1, 2_999, ENTRIES - 1] {
        let expected = vec![format!("sender{number}@example.org")];
        let (found, compared) = search(gateway, &format!("search=PORT+no{number}x"));
        assert_eq!(found, expected);
        assert!(compared < COMPARED_MAX, "{compared} entries were compared");
        let query = format!("sender=er{number}@&topic=alarms/%23");
        assert_eq!(search(gateway, &query).0, expected);
    }
    let (found, _) = search(gateway, "search=report");
    let senders = (0..ENTRIES).map(|number| format!("sender{number}@example.org"));
    let expected: Vec<_> = senders.rev().collect();
    assert!(found == expected, "{} are found", found.len());
}

#[test]
fn an_index_is_built_in_the_background_and_survives_a_kill() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("gatepost-data");
    std::fs::create_dir(&data).expect("a folder");
    let quarantined = fill(&data);

    // Killed as soon as it has begun.
    let gateway = Gateway::start_in(folder.path(), "");
    let log = data.join("gatepost.journal-index-wal");
    await_some("the index grows", || {
        let length = std::fs::metadata(&log).ok()?.len();
        (length > 100_000).then_some(())
    });
    gateway.kill();

    let gateway = Gateway::start_in(folder.path(), "");
    await_index(&gateway);
    expect_everything(&gateway);

    // An entry that is replaced is found by its new text, and no longer by its verdict.
    let in_quarantine = "verdict=quarantine";
    assert_eq!(search(&gateway, in_quarantine).0, ["sender0@example.org"]);
    let path = format!("/admin/quarantine/{quarantined}/release");
    curl(&gateway, &path, &["-X", "POST"]);
    assert!(search(&gateway, in_quarantine).0.is_empty());
    let released = "search=released+from&verdict=accept";
    assert_eq!(search(&gateway, released).0, ["sender0@example.org"]);
    gateway.kill();

    // The index of a killed server is compared with the journal.
    let gateway = Gateway::start_in(folder.path(), "");
    await_index(&gateway);
    assert_eq!(search(&gateway, released).0, ["sender0@example.org"]);
    expect_everything(&gateway);
}
