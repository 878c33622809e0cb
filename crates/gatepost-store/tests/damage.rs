//! Bytes that the disk alters are detected, and the readable rows around them are kept.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use gatepost_message::{MessageId, Publication, Topic};
use gatepost_store::{
    OnDamage, SessionChange, SessionRow, Store, StoreChange, StoreError, StoreSettings,
};

const MESSAGES: usize = 3_000;

fn recovering() -> StoreSettings {
    StoreSettings {
        on_damage: OnDamage::Recover,
        ..StoreSettings::default()
    }
}

fn payload(number: usize) -> String {
    format!("{number:0>300}")
}

/// A database with history, mail, a session, and a mail that fills many pages.
async fn fill(folder: &Path) {
    let (store, _) = Store::open(folder, &StoreSettings::default()).expect("a store");
    let topic = Topic::new("a").expect("a topic");
    let mut changes: Vec<StoreChange> = (0..MESSAGES)
        .map(|number| Publication::new(topic.clone(), payload(number)))
        .map(|publication| StoreChange::History(Arc::new(publication)))
        .collect();
    for _ in 0..200 {
        changes.push(StoreChange::add_mail(
            "anna",
            MessageId::next(),
            vec![b'm'; 900].into(),
        ));
    }
    changes.push(StoreChange::add_mail(
        "bert",
        MessageId::next(),
        vec![b'L'; 300_000].into(),
    ));
    changes.push(StoreChange::Session(SessionChange::Put(Box::new(
        SessionRow {
            number: 7,
            client: "client".to_owned(),
            user: None,
            kind: "mqtt".to_owned(),
            expiry: std::time::Duration::from_hours(1),
            ended: None,
            sent: None,
            will: None,
        },
    ))));
    store
        .submit(changes)
        .expect("taken")
        .committed()
        .await
        .expect("a commit");
    store.close();
}

fn history(store: &Store) -> Vec<String> {
    let history = store.history(10_000, 10_000).expect("history");
    let text =
        |publication: Publication| String::from_utf8_lossy(&publication.payload).into_owned();
    history.into_iter().map(text).collect()
}

#[tokio::test]
async fn a_flipped_bit_is_never_delivered() {
    let folder = tempfile::tempdir().expect("a folder");
    fill(folder.path()).await;
    let file = folder.path().join("gatepost.db");
    let mut bytes = fs::read(&file).expect("the file");
    let text = payload(1_234);
    let places = bytes
        .windows(text.len())
        .position(|window| window == text.as_bytes());
    bytes[places.expect("the payload is there") + 100] ^= 4;
    fs::write(&file, bytes).expect("written");

    let (store, _) =
        Store::open(folder.path(), &StoreSettings::default()).expect("no page is wrong");
    let read = store.history(10_000, 10_000);
    assert!(
        matches!(read, Err(StoreError::DamagedRow { table: "history" })),
        "{:?}",
        read.map(|all| all.len())
    );
    drop(store);
    let (store, _) = Store::open(folder.path(), &recovering()).expect("a store");
    let read = history(&store);
    assert_eq!(read.len(), MESSAGES - 1);
    let is_as_written = |text: &String| text.parse().is_ok_and(|number| payload(number) == *text);
    assert!(read.iter().all(is_as_written));
    assert!(store.damaged_rows() > 0);
}

#[tokio::test]
async fn a_damaged_mail_is_an_error_and_not_gone() {
    let folder = tempfile::tempdir().expect("a folder");
    fill(folder.path()).await;
    let file = folder.path().join("gatepost.db");
    let mut bytes = fs::read(&file).expect("the file");
    let text = [b'L'; 4_000];
    let place = bytes.windows(text.len()).position(|window| window == text);
    bytes[place.expect("the mail is there")] ^= 1;
    fs::write(&file, bytes).expect("written");
    let (store, _) = Store::open(folder.path(), &recovering()).expect("a store");
    let id = store.mailbox("bert").expect("a list")[0].id;
    assert!(matches!(
        store.mailbox_mail("bert", id),
        Err(StoreError::DamagedRow { .. })
    ));
}

#[tokio::test]
async fn a_truncated_file_keeps_its_intact_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    fill(folder.path()).await;
    let file = folder.path().join("gatepost.db");
    let mut bytes = fs::read(&file).expect("the file");
    bytes.truncate(bytes.len() / 100 * 95);
    fs::write(&file, &bytes).expect("cut");
    let (store, recovery) = Store::open(folder.path(), &recovering()).expect("a recovery");
    assert!(recovery.rows_recovered > 2_500, "{recovery:?}");
    assert!(
        recovery.pages_damaged + recovery.rows_damaged > 0,
        "{recovery:?}"
    );
    assert_eq!(store.mailbox("anna").expect("a list").len(), 200);
}

/// Each page is destroyed in a copy of its own: only the rows of that page are lost.
#[tokio::test]
async fn each_page_takes_only_its_own_rows() {
    const PAGE: usize = 4_096;
    let folder = tempfile::tempdir().expect("a folder");
    fill(folder.path()).await;
    let whole = fs::read(folder.path().join("gatepost.db")).expect("the file");
    let pages = whole.len() / PAGE;
    for page in (0..pages).step_by(pages / 25) {
        let copy = tempfile::tempdir().expect("a folder");
        let mut bytes = whole.clone();
        bytes[page * PAGE..(page + 1) * PAGE].fill(0x5a);
        fs::write(copy.path().join("gatepost.db"), bytes).expect("written");
        let (store, recovery) = Store::open(copy.path(), &recovering()).expect("a recovery");
        let (messages, mails) = (
            history(&store).len(),
            store.mailbox("anna").expect("a list").len(),
        );
        // 12 rows of history fill a page, or 4 of mail.
        assert!(
            messages >= MESSAGES - 14,
            "page {page}: {messages}; {recovery:?}"
        );
        assert!(mails >= 200 - 5, "page {page}: {mails}; {recovery:?}");
    }
}

#[tokio::test]
async fn a_recovery_reads_the_log_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let copy = tempfile::tempdir().expect("a folder");
    let (store, _) = Store::open(folder.path(), &StoreSettings::default()).expect("a store");
    let topic = Topic::new("a").expect("a topic");
    for number in 0..50 {
        let publication = Arc::new(Publication::new(topic.clone(), payload(number)));
        let ticket = store
            .submit([StoreChange::History(publication)])
            .expect("taken");
        ticket.committed().await.expect("a commit");
    }
    // As a kill leaves it: everything is in the log. Then the database's first page is lost.
    for name in ["gatepost.db", "gatepost.db-wal"] {
        fs::copy(folder.path().join(name), copy.path().join(name)).expect("copied");
    }
    fs::write(copy.path().join("gatepost.db"), b"no database").expect("written");
    let (store, recovery) = Store::open(copy.path(), &recovering()).expect("a recovery");
    assert_eq!(history(&store).len(), 50, "{recovery:?}");
}

#[tokio::test]
async fn a_removed_folder_is_noticed_by_the_next_commit() {
    let parent = tempfile::tempdir().expect("a folder");
    let folder = parent.path().join("data");
    let (store, _) = Store::open(&folder, &StoreSettings::default()).expect("a store");
    let change = || {
        StoreChange::Retain(Arc::new(Publication::new(
            Topic::new("a").expect("a topic"),
            "x",
        )))
    };
    store
        .submit([change()])
        .expect("taken")
        .committed()
        .await
        .expect("a commit");
    fs::remove_dir_all(&folder).expect("removed");
    let outcome = store.submit([change()]).expect("taken").committed().await;
    assert!(
        matches!(outcome, Err(StoreError::FileReplaced { .. })),
        "{outcome:?}"
    );
    let refused = store.submit([change()]);
    assert!(matches!(refused, Err(StoreError::FileReplaced { .. })));
    assert!(store.readiness().is_err());
}

#[tokio::test]
async fn a_full_disk_refuses_messages_and_accepts_removals() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = StoreSettings {
        // More than any disk has.
        reserve: "9000000GB".parse().expect("a size"),
        ..StoreSettings::default()
    };
    let (store, _) = Store::open(folder.path(), &settings).expect("a store");
    let topic = Topic::new("a").expect("a topic");
    let refused = store.submit([StoreChange::Retain(Arc::new(Publication::new(
        topic.clone(),
        "x",
    )))]);
    assert!(refused.is_err_and(|error| error.is_disk_full()));
    let removal = store.submit([StoreChange::Unretain(topic)]).expect("taken");
    removal.committed().await.expect("a commit");
    assert!(store.readiness().is_err_and(|error| error.is_disk_full()));
}
