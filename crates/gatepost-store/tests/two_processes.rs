//! Changes of two processes on the same database, such as a server and `gatepost user`.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use gatepost_store::{
    SeriesResolution, SeriesSample, Store, StoreChange, StoreError, StoreSettings, Ticket,
};
use rusqlite::Connection;

const PATIENCE: Duration = Duration::from_mins(1);
const SPACE: &str = "test";

fn server(folder: &Path) -> Store {
    let settings = StoreSettings {
        reserve: "0B".parse().expect("a size"),
        ..StoreSettings::default()
    };
    Store::open(folder, &settings).expect("a store").0
}

fn put(key: &'static str, value: &'static str) -> StoreChange {
    StoreChange::PutRecord {
        space: SPACE,
        key: Bytes::from_static(key.as_bytes()),
        value: Bytes::from_static(value.as_bytes()),
    }
}

fn expect(key: &'static str, value: Option<&'static str>) -> StoreChange {
    StoreChange::ExpectRecord {
        space: SPACE,
        key: Bytes::from_static(key.as_bytes()),
        value: value.map(|value| Bytes::from_static(value.as_bytes())),
    }
}

fn record(store: &Store, key: &str) -> Option<String> {
    let value = store.record(SPACE, key.as_bytes()).expect("read");
    value.map(|value| String::from_utf8_lossy(&value).into_owned())
}

fn await_taken(store: &Store) {
    let deadline = Instant::now() + PATIENCE;
    while store.waiting_bytes() > 0 {
        assert!(Instant::now() < deadline, "the writer takes the changes");
        std::thread::yield_now();
    }
}

/// Makes one commit of what `submit` submits.
fn together(store: &Store, folder: &Path, submit: impl FnOnce() -> Vec<Ticket>) -> Vec<Ticket> {
    let other = Connection::open(folder.join("gatepost.db")).expect("open");
    other.execute_batch("BEGIN IMMEDIATE").expect("locked");
    store.submit([put("held", "")]).expect("accepted");
    await_taken(store);
    let tickets = submit();
    other.execute_batch("ROLLBACK").expect("released");
    tickets
}

#[tokio::test]
async fn changes_of_outdated_records_are_refused_and_the_others_of_the_commit_stored() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = server(folder.path());
    let command = Store::open_secondary(folder.path(), &StoreSettings::default());
    let command = command.expect("a store");
    let ticket = store.submit([expect("a", None), put("a", "1")]);
    ticket.expect("accepted").committed().await.expect("stored");
    let ticket = command.submit([put("a", "2")]);
    ticket.expect("accepted").committed().await.expect("stored");

    let submit = |changes: Vec<StoreChange>| store.submit(changes).expect("accepted");
    let tickets = together(&store, folder.path(), || {
        vec![
            submit(vec![put("before", "x")]),
            submit(vec![expect("a", Some("1")), put("a", "3"), put("b", "3")]),
            submit(vec![expect("a", None), put("c", "3")]),
            submit(vec![put("d", "3"), expect("a", Some("2"))]),
        ]
    });
    let mut outcomes = Vec::new();
    for ticket in &tickets {
        outcomes.push(ticket.committed().await);
    }
    let is_outdated =
        |outcome: &Result<(), StoreError>| matches!(outcome, Err(StoreError::Outdated { .. }));
    let refused: Vec<bool> = outcomes.iter().map(is_outdated).collect();
    assert_eq!(refused, [false, true, true, false], "{outcomes:?}");
    let found = ["before", "a", "b", "c", "d"].map(|key| record(&store, key));
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(found, [text("x"), text("2"), None, None, text("3")]);
    assert!(!store.has_lost_changes(), "they are computed again");
}

#[tokio::test]
async fn a_commit_that_begins_with_a_query_waits_for_another_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = server(folder.path());
    let other = Connection::open(folder.path().join("gatepost.db")).expect("open");
    other.execute_batch("BEGIN IMMEDIATE").expect("locked");
    let sample = SeriesSample {
        resolution: SeriesResolution::Samples,
        at_ms: 1,
        figures: vec![("one".to_owned(), 1.0)],
        rows_max: 10,
    };
    let ticket = store.submit([StoreChange::Sample(Box::new(sample))]);
    let ticket = ticket.expect("accepted");
    await_taken(&store);
    other
        .execute_batch("INSERT INTO record (space, key, value) VALUES ('test', x'61', x'62')")
        .expect("written");
    other.execute_batch("COMMIT").expect("released");
    ticket.committed().await.expect("stored");
    assert_eq!(record(&store, "a").as_deref(), Some("b"));
}

#[test]
fn a_command_changes_no_schema_beside_a_server() {
    let folder = tempfile::tempdir().expect("a folder");
    server(folder.path()).close();
    let database = || Connection::open(folder.path().join("gatepost.db")).expect("open");
    let version = || -> i64 {
        let read = database().pragma_query_value(None, "user_version", |row| row.get(0));
        read.expect("a number")
    };
    let present = version();
    // As a server of the version before left it.
    database()
        .execute_batch("DROP TABLE series; PRAGMA user_version = 4;")
        .expect("changed");
    let running = File::open(folder.path().join("gatepost.lock")).expect("a lock");
    running.try_lock().expect("locked");
    let command = || Store::open_secondary(folder.path(), &StoreSettings::default());
    let refused = command().err().expect("refused");
    assert!(
        matches!(refused, StoreError::EarlierServer { found: 4, .. }),
        "{refused}"
    );
    assert_eq!(version(), 4);
    drop(running);
    command().expect("opened").close();
    assert_eq!(version(), present);
}
