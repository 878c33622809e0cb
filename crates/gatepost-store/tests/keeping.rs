//! What is submitted comes back after a restart, in order, damage or not.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gatepost_message::{
    Action, Envelope, Listener, Peer, Properties, Publication, Qos, RuleHit, Score, Topic,
};
use gatepost_store::{Change, JournalEntry, QuarantineEntry, Store, StoreError, StoreSettings};

fn publication(topic: &str, payload: &str) -> Arc<Publication> {
    let topic = Topic::new(topic).expect("a valid topic");
    Arc::new(Publication {
        qos: Qos::AtLeastOnce,
        properties: Some(Box::new(Properties {
            content_type: Some("text/plain".to_owned()),
            correlation_data: Some(Bytes::from_static(b"\0\xff")),
            user: vec![
                ("a".to_owned(), "1".to_owned()),
                ("a".to_owned(), "2".to_owned()),
            ],
            ..Properties::default()
        })),
        ..Publication::new(topic, payload.to_owned())
    })
}

fn story(reason: &str) -> JournalEntry {
    JournalEntry {
        id: gatepost_message::MessageId::next(),
        envelope: Envelope {
            sender: Some("anna@example.org".to_owned()),
            recipients: vec!["alarms+fire@localhost".to_owned()],
            ..Envelope::new(Listener::Smtp, Peer::Address(([127, 0, 0, 1], 4711).into()))
        },
        topic: Topic::new("alarms/fire").ok(),
        topics: ["alarms/fire", "alarms/all"]
            .map(|name| Topic::new(name).expect("a topic"))
            .into(),
        subject: Some("Smoke".to_owned()),
        size: 1_234,
        action: Action::Quarantine,
        score: Some(Score {
            value: 7.25,
            required: 5.0,
        }),
        hits: vec![RuleHit {
            name: "SMOKE".into(),
            score: 7.25,
        }],
        reason: reason.to_owned(),
        procedure: "/spamcheck".to_owned(),
        duration: Duration::from_micros(321),
        deliveries: 0,
    }
}

async fn commit(store: &Store, changes: impl IntoIterator<Item = Change>) {
    store
        .submit(changes)
        .expect("room for changes")
        .committed()
        .await
        .expect("a commit");
}

fn open(folder: &Path) -> Store {
    let (store, recovery) =
        Store::open(folder, &StoreSettings::default()).expect("a store that opens");
    assert_eq!(
        recovery,
        gatepost_store::Recovery::default(),
        "the file is whole"
    );
    store
}

#[tokio::test]
async fn everything_returns_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let retained = publication("alarms/fire", "hot");
    let passed: Vec<_> = (0..5)
        .map(|n| publication("alarms/fire", &n.to_string()))
        .collect();
    let story = story("seven points");
    {
        let store = open(folder.path());
        let mut changes = vec![
            Change::Retain(publication("alarms/fire", "older")),
            Change::Retain(retained.clone()),
            Change::Retain(publication("alarms/flood", "wet")),
            Change::Unretain(Topic::new("alarms/flood").expect("a topic")),
            Change::Quarantine(Box::new(QuarantineEntry {
                story: story.clone(),
                body: Bytes::from_static(b"Subject: Smoke\r\n\r\n"),
                properties: None,
                retain: true,
            })),
        ];
        changes.extend(passed.iter().cloned().map(Change::History));
        for (key, value) in [("a/1", "x"), ("a/2", "y"), ("b/1", "z")] {
            changes.push(Change::PutRecord {
                space: "test",
                key: key.into(),
                value: value.into(),
            });
        }
        changes.push(Change::DeleteRecord {
            space: "test",
            key: "a/1".into(),
        });
        commit(&store, changes).await;
    }
    let store = open(folder.path());
    let expected = Publication {
        retain: true,
        ..(*retained).clone()
    };
    assert_eq!(store.retained().expect("retained"), vec![expected]);
    let last_three: Vec<_> = passed[2..]
        .iter()
        .map(|publication| (**publication).clone())
        .collect();
    assert_eq!(store.history(3, 100).expect("history"), last_three);
    assert_eq!(
        store.journal_recent(10).expect("journal"),
        vec![story.clone()]
    );
    assert_eq!(
        store.quarantine(10).expect("quarantine"),
        vec![story.clone()]
    );
    let kept = store
        .quarantined(story.id)
        .expect("readable")
        .expect("kept");
    assert_eq!(&kept.body[..], b"Subject: Smoke\r\n\r\n");
    assert_eq!(
        store.records("test", b"a/").expect("records"),
        vec![(Bytes::from("a/2"), Bytes::from("y"))]
    );

    commit(
        &store,
        [
            Change::Unquarantine(story.id),
            Change::DeleteRecords {
                space: "test",
                prefix: "b".into(),
            },
        ],
    )
    .await;
    assert!(store.quarantined(story.id).expect("readable").is_none());
    assert_eq!(store.records("test", b"").expect("records").len(), 1);
}

#[tokio::test]
async fn a_damaged_file_is_set_aside_and_what_is_whole_is_taken_over() {
    let folder = tempfile::tempdir().expect("a folder");
    {
        let store = open(folder.path());
        let many = (0..2_000).map(|n| publication("alarms/fire", &format!("{n:0>400}")));
        commit(&store, many.map(Change::History)).await;
        commit(&store, [Change::Retain(publication("alarms/fire", "hot"))]).await;
    }
    // Overwrites pages in the middle, which belong to the history.
    let file = folder.path().join("gatepost.db");
    let mut bytes = std::fs::read(&file).expect("the file");
    let middle = bytes.len() / 2;
    bytes[middle..middle + 40_000].fill(0x5a);
    std::fs::write(&file, bytes).expect("the damaged file");

    let (store, recovery) =
        Store::open(folder.path(), &StoreSettings::default()).expect("a start after damage");
    let aside = recovery.set_aside.expect("the damage was noticed");
    assert!(aside.exists());
    assert_eq!(recovery.tables_incomplete, ["history"]);
    assert_eq!(store.retained().expect("retained").len(), 1);
    let recovered = store.history(10_000, 10_000).expect("history").len();
    assert!(
        (1_500..2_000).contains(&recovered),
        "{recovered} of 2000 recovered"
    );
}

#[tokio::test]
async fn a_file_that_is_no_database_is_set_aside() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(
        folder.path().join("gatepost.db"),
        b"these are not the bytes you look for",
    )
    .expect("the file");
    let (store, recovery) =
        Store::open(folder.path(), &StoreSettings::default()).expect("a start after damage");
    assert!(recovery.set_aside.is_some());
    assert_eq!(recovery.rows_recovered, 0);
    commit(&store, [Change::Retain(publication("a", "b"))]).await;
}

#[tokio::test]
async fn what_is_closed_or_overloaded_promises_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = StoreSettings {
        waiting_max: gatepost_settings::ByteSize(0),
        ..StoreSettings::default()
    };
    let (store, _) = Store::open(folder.path(), &settings).expect("a store");
    // One group may always wait; the one after it is refused while the first is not taken.
    let outcomes: Vec<_> = (0..1_000)
        .map(|_| store.submit([Change::Retain(publication("a", "b"))]))
        .collect();
    for outcome in outcomes {
        match outcome {
            Ok(ticket) => ticket
                .committed()
                .await
                .expect("what was taken is committed"),
            Err(error) => assert!(matches!(error, StoreError::Overloaded { .. }), "{error}"),
        }
    }
    store.close();
    let refused = store.submit([Change::Retain(publication("a", "b"))]);
    assert!(matches!(refused, Err(StoreError::Closed)));
}

#[tokio::test]
async fn a_second_process_reads_and_writes_beside_the_first() {
    use std::os::unix::fs::PermissionsExt;
    let parent = tempfile::tempdir().expect("a folder");
    let folder = parent.path().join("data");
    let (server, _) = Store::open(&folder, &StoreSettings::default()).expect("a store");
    let mode = std::fs::metadata(&folder)
        .expect("made")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700, "the folder is its owner's only");

    let beside = Store::open_beside(&folder, &StoreSettings::default()).expect("beside");
    let put = Change::PutRecord {
        space: "test",
        key: "k".into(),
        value: "v".into(),
    };
    commit(&beside, [put]).await;
    assert_eq!(
        server.record("test", b"k").expect("read").as_deref(),
        Some(&b"v"[..])
    );
    assert_eq!(server.record("test", b"other").expect("read"), None);
}

#[test]
fn damage_is_not_set_aside_from_beside() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("gatepost.db");
    std::fs::write(&file, b"these are not the bytes you look for").expect("the file");
    assert!(Store::open_beside(folder.path(), &StoreSettings::default()).is_err());
    assert!(file.exists());
}

#[tokio::test]
async fn what_nobody_waits_for_is_written_all_the_same() {
    let put = |key: &'static str| Change::PutRecord {
        space: "unhurried",
        key: key.into(),
        value: "x".into(),
    };
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    let count = |store: &Store| store.records("unhurried", b"").expect("records").len();

    // With the next commit that somebody waits for …
    store.submit_unhurried([put("first")]).expect("taken");
    commit(&store, [put("waited for")]).await;
    assert_eq!(count(&store), 2);

    // … or when somebody looks for it …
    store.submit_unhurried([put("second")]).expect("taken");
    store.caught_up().await;
    assert_eq!(count(&store), 3);
    // (and where nothing waits, at once)
    store.caught_up().await;

    // … or by itself …
    store.submit_unhurried([put("third")]).expect("taken");
    while count(&store) < 4 {
        tokio::task::yield_now().await;
    }

    // … or with the store's end.
    store.submit_unhurried([put("fourth")]).expect("taken");
    store.close();
    assert_eq!(count(&open(folder.path())), 5);
    assert!(store.submit_unhurried([put("too late")]).is_err());
}
