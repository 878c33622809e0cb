//! History and quarantine stay within their bytes, and the oldest rows are removed first.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use gatepost_message::{Action, Envelope, Listener, MessageId, Peer, Publication, Topic};
use gatepost_settings::ByteSize;
use gatepost_store::{JournalEntry, QuarantineEntry, Store, StoreChange, StoreSettings};

const MESSAGE_BYTES: usize = 10_000;
const LIMIT_BYTES: usize = 100_000;

fn open(folder: &Path) -> Store {
    let limit: ByteSize = format!("{LIMIT_BYTES}B").parse().expect("a size");
    let settings = StoreSettings {
        history_bytes_max: limit,
        quarantine_bytes_max: limit,
        ..StoreSettings::default()
    };
    Store::open(folder, &settings).expect("a store").0
}

fn quarantined(bytes: usize) -> (MessageId, StoreChange) {
    let id = MessageId::next();
    let entry = QuarantineEntry {
        journal: JournalEntry {
            id,
            envelope: Envelope::new(Listener::Smtp, Peer::Local),
            topic: None,
            topics: Vec::new(),
            subject: None,
            size: bytes as u64,
            action: Action::Quarantine,
            score: None,
            hits: Vec::new(),
            reason: String::new(),
            procedure: String::new(),
            duration: std::time::Duration::ZERO,
            deliveries: 0,
        },
        body: Bytes::from(vec![b'x'; bytes]),
        properties: None,
        retain: false,
    };
    (id, StoreChange::Quarantine(Box::new(entry)))
}

fn published(topics: &[&str], bytes: usize) -> (MessageId, Vec<StoreChange>) {
    let id = MessageId::next();
    let mut place = id;
    let one = |name: &&str| {
        let topic = Topic::new(name).expect("a topic");
        let publication = Publication {
            id,
            ..Publication::new(topic, vec![b'x'; bytes])
        };
        let change = StoreChange::HistoryAt(place, Arc::new(publication));
        place = place.place_after();
        change
    };
    (id, topics.iter().map(one).collect())
}

async fn commit(store: &Store, changes: impl IntoIterator<Item = StoreChange>) {
    let ticket = store.submit(changes).expect("taken");
    ticket.committed().await.expect("committed");
}

/// Ids and bytes of what a table has, the oldest first.
fn rows(folder: &Path, table: &str, column: &str) -> Vec<(u64, usize)> {
    let database = rusqlite::Connection::open(folder.join("gatepost.db")).expect("a database");
    let sql = format!("SELECT id, octet_length({column}) FROM {table} ORDER BY id");
    let mut statement = database.prepare(&sql).expect("a table");
    let rows = statement
        .query_map([], |row| Ok((row.get::<_, i64>(0)? as u64, row.get(1)?)))
        .expect("rows");
    rows.collect::<Result<_, _>>().expect("read")
}

#[tokio::test]
async fn the_quarantine_keeps_the_newest_that_fit() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    let mut ids = Vec::new();
    for _ in 0..25 {
        let (id, change) = quarantined(MESSAGE_BYTES);
        ids.push(id.number());
        commit(&store, [change]).await;
    }
    let kept = |folder: &Path| -> Vec<u64> {
        let rows = rows(folder, "quarantine", "body");
        rows.into_iter().map(|(id, _)| id).collect()
    };
    assert_eq!(kept(folder.path()), ids[15..]);
    // Removed by an operator: there is room for as much again.
    let removed = ids.split_off(20);
    let changes = removed
        .iter()
        .map(|id| StoreChange::Unquarantine(MessageId::from_number(*id)));
    commit(&store, changes).await;
    for _ in 0..5 {
        let (id, change) = quarantined(MESSAGE_BYTES);
        ids.push(id.number());
        commit(&store, [change]).await;
    }
    assert_eq!(kept(folder.path()), ids[15..]);

    // A restart counts the rows again.
    store.close();
    drop(store);
    let store = open(folder.path());
    let (id, change) = quarantined(3 * MESSAGE_BYTES);
    ids.push(id.number());
    commit(&store, [change]).await;
    assert_eq!(kept(folder.path()), ids[18..]);

    // One that is larger than the limit is kept alone: it was acknowledged.
    let (id, change) = quarantined(2 * LIMIT_BYTES);
    commit(&store, [change]).await;
    assert_eq!(kept(folder.path()), [id.number()]);
}

#[tokio::test]
async fn the_history_keeps_the_newest_that_fit() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    // Many in one commit, each under two topics.
    let mut changes = Vec::new();
    for _ in 0..30 {
        changes.extend(published(&["a", "b"], MESSAGE_BYTES / 2).1);
    }
    commit(&store, changes).await;
    let kept = rows(folder.path(), "history", "payload");
    let bytes: usize = kept.iter().map(|(_, bytes)| bytes).sum();
    assert!(bytes <= LIMIT_BYTES, "{bytes}");
    assert_eq!(
        kept.len(),
        18,
        "nine messages with the bytes of their topics"
    );
    let (last, changes) = published(&["a"], MESSAGE_BYTES / 2);
    commit(&store, changes).await;
    let after = rows(folder.path(), "history", "payload");
    assert_eq!(after.last().map(|row| row.0), Some(last.number()));
    assert_eq!(after.first(), kept.first(), "there was room");
}
