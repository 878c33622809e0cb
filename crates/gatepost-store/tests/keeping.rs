//! Submitted changes are restored after a restart, in order, with and without damage.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gatepost_message::{
    Action, Envelope, Listener, Peer, Properties, Publication, Qos, RuleHit, Score, Topic,
};
use gatepost_store::{
    JournalEntry, QuarantineEntry, Store, StoreChange, StoreError, StoreSettings,
};

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

fn journal_entry(reason: &str) -> JournalEntry {
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

async fn commit(store: &Store, changes: impl IntoIterator<Item = StoreChange>) {
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
    let entry = journal_entry("seven points");
    {
        let store = open(folder.path());
        let mut changes = vec![
            StoreChange::Retain(publication("alarms/fire", "older")),
            StoreChange::Retain(retained.clone()),
            StoreChange::Retain(publication("alarms/flood", "wet")),
            StoreChange::Unretain(Topic::new("alarms/flood").expect("a topic")),
            StoreChange::Quarantine(Box::new(QuarantineEntry {
                journal: entry.clone(),
                body: Bytes::from_static(b"Subject: Smoke\r\n\r\n"),
                properties: None,
                retain: true,
            })),
        ];
        changes.extend(passed.iter().cloned().map(StoreChange::History));
        for (key, value) in [("a/1", "x"), ("a/2", "y"), ("b/1", "z")] {
            changes.push(StoreChange::PutRecord {
                space: "test",
                key: key.into(),
                value: value.into(),
            });
        }
        changes.push(StoreChange::DeleteRecord {
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
        vec![entry.clone()]
    );
    assert_eq!(
        store.quarantine(10).expect("quarantine"),
        vec![entry.clone()]
    );
    let kept = store
        .quarantined(entry.id)
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
            StoreChange::Unquarantine(entry.id),
            StoreChange::DeleteRecords {
                space: "test",
                prefix: "b".into(),
            },
        ],
    )
    .await;
    assert!(store.quarantined(entry.id).expect("readable").is_none());
    assert_eq!(store.records("test", b"").expect("records").len(), 1);
}

#[tokio::test]
async fn a_closed_or_overloaded_store_refuses_changes() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = StoreSettings {
        waiting_max: gatepost_settings::ByteSize(0),
        ..StoreSettings::default()
    };
    let (store, _) = Store::open(folder.path(), &settings).expect("a store");
    // One group may always wait; the one after it is refused while the first is not taken.
    let outcomes: Vec<_> = (0..1_000)
        .map(|_| store.submit([StoreChange::Retain(publication("a", "b"))]))
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
    let refused = store.submit([StoreChange::Retain(publication("a", "b"))]);
    assert!(matches!(refused, Err(StoreError::Closed)));
}

#[tokio::test]
async fn a_second_process_reads_and_writes_while_the_first_is_open() {
    use std::os::unix::fs::PermissionsExt;
    let parent = tempfile::tempdir().expect("a folder");
    let folder = parent.path().join("data");
    let (server, _) = Store::open(&folder, &StoreSettings::default()).expect("a store");
    let mode = std::fs::metadata(&folder)
        .expect("made")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700, "the folder is its owner's only");

    let secondary =
        Store::open_secondary(&folder, &StoreSettings::default()).expect("a second store");
    let put = StoreChange::PutRecord {
        space: "test",
        key: "k".into(),
        value: "v".into(),
    };
    commit(&secondary, [put]).await;
    assert_eq!(
        server.record("test", b"k").expect("read").as_deref(),
        Some(&b"v"[..])
    );
    assert_eq!(server.record("test", b"other").expect("read"), None);
}

#[tokio::test]
async fn deferred_changes_are_written_too() {
    let put = |key: &'static str| StoreChange::PutRecord {
        space: "deferred",
        key: key.into(),
        value: "x".into(),
    };
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    let count = |store: &Store| store.records("deferred", b"").expect("records").len();

    // With the next commit that a caller waits for …
    store.submit_deferred([put("first")]).expect("taken");
    commit(&store, [put("waited for")]).await;
    assert_eq!(count(&store), 2);

    // … or when it is looked up …
    store.submit_deferred([put("second")]).expect("taken");
    store.flush().await;
    assert_eq!(count(&store), 3);
    // (and where nothing waits, immediately)
    store.flush().await;

    // … or by itself …
    store.submit_deferred([put("third")]).expect("taken");
    while count(&store) < 4 {
        tokio::task::yield_now().await;
    }

    // … or with the store's end.
    store.submit_deferred([put("fourth")]).expect("taken");
    store.close();
    assert_eq!(count(&open(folder.path())), 5);
    assert!(store.submit_deferred([put("too late")]).is_err());
}

#[tokio::test]
async fn history_is_restored_where_it_is_missing_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let (there, missing) = (publication("a", "there"), publication("a", "missing"));
    let store = open(folder.path());
    let other = there.id.place_after();
    let changes = [
        StoreChange::History(there.clone()),
        StoreChange::RestoreHistory(other, there.clone()),
        StoreChange::RestoreHistory(missing.id, missing.clone()),
    ];
    commit(&store, changes).await;
    let mut found = Vec::new();
    let visit = |position, publication| found.push((position, publication));
    store.each_of_history(3, 100, visit).expect("history");
    let expected = [there, missing].map(|publication| (publication.id, (*publication).clone()));
    assert_eq!(found, expected);
}

#[tokio::test]
async fn history_is_in_the_order_of_publication() {
    let folder = tempfile::tempdir().expect("a folder");
    let overtaken = publication("a", "arrived first");
    let second = publication("a", "published first");
    let third = publication("b", "published last");
    let place = second.id.place_after();
    {
        let store = open(folder.path());
        let changes = [
            StoreChange::HistoryAt(place, overtaken.clone()),
            StoreChange::History(second.clone()),
            StoreChange::History(third.clone()),
        ];
        commit(&store, changes).await;
    }
    let store = open(folder.path());
    let mut found = Vec::new();
    let visit = |position, publication| found.push((position, publication));
    store.each_of_history(3, 100, visit).expect("history");
    let expected = [(second.id, second), (place, overtaken), (third.id, third)];
    let expected = expected.map(|(place, publication)| (place, (*publication).clone()));
    assert_eq!(found, expected);
}
