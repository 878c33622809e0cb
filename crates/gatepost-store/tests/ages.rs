//! Ids and ages when the clock is wrong.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use gatepost_message::{MessageId, Publication, Topic, TopicFilter};
use gatepost_store::{ClockSource, ManualClock, Store, StoreChange, StoreError, StoreSettings};

const DAY: Duration = Duration::from_hours(24);
const PATIENCE: Duration = Duration::from_mins(1);

fn open(folder: &Path, clock: &Arc<ManualClock>) -> Store {
    let settings = StoreSettings::default();
    let opened = Store::open_with_clock(folder, &settings, clock.clone());
    opened.expect("a store").0
}

fn topic() -> Topic {
    Topic::new("a").expect("a topic")
}

fn publication_at(time: SystemTime, payload: &str) -> Arc<Publication> {
    Arc::new(Publication {
        id: MessageId::floor_at(time),
        ..Publication::new(topic(), payload.to_owned())
    })
}

async fn commit(store: &Store, change: StoreChange) -> Result<(), StoreError> {
    store.submit([change]).expect("taken").committed().await
}

fn history(store: &Store) -> usize {
    store.history(1_000, 1_000).expect("history").len()
}

/// A pass over old rows follows a commit, once a minute of the clock.
async fn trim(store: &Store, clock: &ManualClock) {
    clock.pass(Duration::from_mins(1));
    for _ in 0..2 {
        // The second waits for the pass after the first.
        commit(store, StoreChange::Unretain(topic()))
            .await
            .expect("a commit");
    }
}

#[tokio::test]
async fn a_clock_far_ahead_deletes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let now = SystemTime::now();
    let clock = ManualClock::at(now);
    let store = open(folder.path(), &clock);
    commit(&store, StoreChange::History(publication_at(now, "new")))
        .await
        .expect("a commit");
    commit(
        &store,
        StoreChange::History(publication_at(now - 8 * DAY, "old")),
    )
    .await
    .expect("a commit");
    trim(&store, &clock).await;
    assert_eq!(history(&store), 1, "a week is over for the old one");
    clock.jump(now + 35 * DAY);
    trim(&store, &clock).await;
    assert_eq!(history(&store), 1, "while it runs");
    assert!(store.time_for_ages() < now + DAY);
    store.close();
    drop(store);

    let store = open(folder.path(), &clock);
    trim(&store, &clock).await;
    assert_eq!(history(&store), 1, "at a start");
    assert!(store.time_for_ages() < now + DAY);
    store.close();
    drop(store);

    // On request, the clock is trusted.
    let settings = StoreSettings {
        clock_jump_max: gatepost_settings::Period(40 * DAY),
        ..StoreSettings::default()
    };
    let opened = Store::open_with_clock(folder.path(), &settings, clock.clone());
    let (store, _) = opened.expect("a store");
    trim(&store, &clock).await;
    assert_eq!(history(&store), 0);
}

/// More rows than a jump of the clock may remove without a confirmation.
const MANY: usize = 150;

/// A store with a message of each of the last hours.
async fn with_many_rows(folder: &Path, clock: &Arc<ManualClock>) -> Store {
    let store = open(folder, clock);
    let hours = (0..MANY as u64).map(Duration::from_hours);
    let changes = hours.map(|age| StoreChange::History(publication_at(clock.now() - age, "x")));
    let ticket = store.submit(changes).expect("taken");
    ticket.committed().await.expect("a commit");
    store
}

#[tokio::test]
async fn a_jump_that_would_delete_many_rows_waits_until_the_clock_is_accepted() {
    let folder = tempfile::tempdir().expect("a folder");
    let now = SystemTime::now();
    let clock = ManualClock::at(now);
    let store = with_many_rows(folder.path(), &clock).await;
    clock.jump(now + 30 * DAY);
    trim(&store, &clock).await;
    assert_eq!(
        store.held_expiry().expect("while it runs").rows,
        MANY as u64
    );
    store.close();
    drop(store);

    let store = open(folder.path(), &clock);
    let held = store.held_expiry().expect("from the start on");
    assert_eq!(held.rows, MANY as u64);
    // The stored time has milliseconds.
    assert_eq!(held.ahead.as_secs(), (30 * DAY).as_secs(), "{held:?}");
    // However long the answer takes, only the time that passes makes rows older.
    clock.pass(DAY / 2);
    trim(&store, &clock).await;
    assert_eq!(history(&store), MANY, "the oldest is not yet a week old");
    assert!(store.time_for_ages() < now + DAY);

    assert_eq!(
        store.accept_clock().map(|held| held.rows),
        Some(MANY as u64)
    );
    assert_eq!(store.held_expiry(), None);
    trim(&store, &clock).await;
    assert_eq!(history(&store), 0, "accepted, it is trusted");
    assert_eq!(store.held_expiry(), None);
}

/// The limits of a mass deletion are settings, also of a store that runs.
#[tokio::test]
async fn how_many_rows_a_jump_may_remove_is_a_setting() {
    let believing = [(MANY as u64, 25, false), (100, 100, false), (100, 99, true)];
    for (clock_expiry_rows, clock_expiry_percent, holds) in believing {
        let folder = tempfile::tempdir().expect("a folder");
        let now = SystemTime::now();
        let clock = ManualClock::at(now);
        let store = with_many_rows(folder.path(), &clock).await;
        store.set_limits(&StoreSettings {
            clock_expiry_rows,
            clock_expiry_percent,
            ..StoreSettings::default()
        });
        clock.jump(now + 30 * DAY);
        trim(&store, &clock).await;
        let limits = (clock_expiry_rows, clock_expiry_percent);
        assert_eq!(store.held_expiry().is_some(), holds, "{limits:?}");
    }
}

#[tokio::test]
async fn new_limits_of_a_store_that_runs_are_kept_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = ManualClock::at(SystemTime::now());
    let store = with_many_rows(folder.path(), &clock).await;
    let limits = |history_messages_max, history_bytes_max: &str| StoreSettings {
        history_messages_max,
        history_bytes_max: history_bytes_max.parse().expect("a size"),
        ..StoreSettings::default()
    };
    store.set_limits(&limits(10, "1MiB"));
    trim(&store, &clock).await;
    assert_eq!(history(&store), 10);
    // A topic and a payload of one byte each.
    store.set_limits(&limits(10, "8B"));
    trim(&store, &clock).await;
    trim(&store, &clock).await;
    assert_eq!(history(&store), 4);
    store.set_limits(&limits(0, "1MiB"));
    assert!(!store.keeps_history());
    trim(&store, &clock).await;
    assert_eq!(history(&store), 0);
}

#[tokio::test]
async fn rows_are_held_no_more_when_the_clock_is_set_right() {
    let folder = tempfile::tempdir().expect("a folder");
    let now = SystemTime::now();
    let clock = ManualClock::at(now);
    let store = with_many_rows(folder.path(), &clock).await;
    clock.jump(now + 30 * DAY);
    trim(&store, &clock).await;
    assert!(store.held_expiry().is_some());
    clock.jump(now + Duration::from_mins(2));
    trim(&store, &clock).await;
    assert_eq!(store.held_expiry(), None);
    assert_eq!(history(&store), MANY);
}

/// A server that is off for a night needs no confirmation.
#[tokio::test]
async fn a_short_absence_deletes_expired_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    let now = SystemTime::now();
    let clock = ManualClock::at(now);
    let store = with_many_rows(folder.path(), &clock).await;
    store.close();
    drop(store);
    clock.jump(now + DAY - Duration::from_mins(10));
    let store = open(folder.path(), &clock);
    assert_eq!(store.held_expiry(), None);
    trim(&store, &clock).await;
    let hours_too_old = MANY - (7 - 1) * 24;
    let left = history(&store);
    assert!(
        left <= MANY - hours_too_old + 1 && left > MANY / 2,
        "{left} are left"
    );
}

#[tokio::test]
async fn ids_continue_after_the_highest_of_an_earlier_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = ManualClock::at(SystemTime::now());
    let store = open(folder.path(), &clock);
    commit(
        &store,
        StoreChange::History(Arc::new(Publication::new(topic(), "x"))),
    )
    .await
    .expect("a commit");
    let highest = MessageId::highest();
    // Killed here: nothing is written that a clean stop would write.
    let copy = copy_of(folder.path());
    let database = rusqlite::Connection::open(copy.path().join("gatepost.db")).expect("open");
    let kept = kept_id(&database);
    assert!(kept >= highest.number(), "{kept} is below {highest:?}");
    assert!(
        kept - highest.number() < 3_000 << 20,
        "more than a second ahead"
    );
    // An earlier run whose clock was an hour ahead.
    let ahead = MessageId::floor_at(SystemTime::now() + Duration::from_hours(1));
    let sql = "UPDATE clock SET highest_id = ?";
    database
        .execute(sql, [ahead.number() as i64])
        .expect("updated");
    drop(database);
    let _store = open(copy.path(), &clock);
    assert!(MessageId::next() > ahead);
}

/// The database as a kill at this moment leaves it.
fn copy_of(folder: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().expect("a folder");
    for name in ["gatepost.db", "gatepost.db-wal"] {
        std::fs::copy(folder.join(name), copy.path().join(name)).expect("copied");
    }
    copy
}

fn kept_id(database: &rusqlite::Connection) -> u64 {
    let kept: i64 = database
        .query_row("SELECT highest_id FROM clock", [], |row| row.get(0))
        .expect("the row");
    kept as u64
}

#[tokio::test]
async fn a_row_that_collides_is_an_error_and_the_first_one_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let now = SystemTime::now();
    let store = open(folder.path(), &ManualClock::at(now));
    let first = publication_at(now, "first");
    commit(&store, StoreChange::History(first.clone()))
        .await
        .expect("a commit");
    commit(&store, StoreChange::History(first.clone()))
        .await
        .expect("the same again");
    let second = publication_at(now, "second");
    let outcome = commit(&store, StoreChange::History(second)).await;
    assert!(
        matches!(outcome, Err(StoreError::Collision { table: "history" })),
        "{outcome:?}"
    );
    assert_eq!(
        store.history(10, 10).expect("history")[0].payload,
        first.payload
    );
    let mail = |text: &'static str| StoreChange::add_mail("anna", first.id, text.into());
    commit(&store, mail("first")).await.expect("a commit");
    assert!(commit(&store, mail("second")).await.is_err());
    let kept = store.mailbox_mail("anna", first.id).expect("read");
    assert_eq!(kept.as_deref(), Some(&b"first"[..]));
    assert!(store.readiness().is_ok(), "the disk is well");
}

#[tokio::test]
async fn a_clean_stop_leaves_everything_in_the_database_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path(), &ManualClock::at(SystemTime::now()));
    commit(
        &store,
        StoreChange::Retain(Arc::new(Publication::new(topic(), "x"))),
    )
    .await
    .expect("a commit");
    let other_handle = store.clone();
    store.close();
    let copy = tempfile::tempdir().expect("a folder");
    let backup = copy.path().join("gatepost.db");
    std::fs::copy(folder.path().join("gatepost.db"), &backup).expect("copied");
    let log = std::fs::metadata(folder.path().join("gatepost.db-wal"));
    assert_eq!(log.map_or(0, |log| log.len()), 0);
    let restored = open(copy.path(), &ManualClock::at(SystemTime::now()));
    assert_eq!(restored.retained().expect("retained").len(), 1);
    drop(other_handle);
}

#[tokio::test]
async fn a_file_shrinks_when_its_rows_are_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = ManualClock::at(SystemTime::now());
    let store = open(folder.path(), &clock);
    let ids: Vec<MessageId> = (0..300).map(|_| MessageId::next()).collect();
    let mail = bytes::Bytes::from(vec![b'x'; 64 * 1024]);
    for id in &ids {
        commit(&store, StoreChange::add_mail("anna", *id, mail.clone()))
            .await
            .expect("a commit");
    }
    for id in &ids {
        commit(&store, StoreChange::remove_mail("anna", *id))
            .await
            .expect("a commit");
    }
    let bytes = || {
        let pages = rusqlite::Connection::open(folder.path().join("gatepost.db")).expect("open");
        let pages: i64 = pages
            .pragma_query_value(None, "page_count", |row| row.get(0))
            .expect("a count");
        pages * 4_096
    };
    let before = bytes();
    let deadline = Instant::now() + PATIENCE;
    while bytes() > before / 2 {
        assert!(
            Instant::now() < deadline,
            "{} of {before} bytes are left",
            bytes()
        );
        trim(&store, &clock).await;
    }
}

#[tokio::test]
async fn a_topic_has_an_age_of_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let now = SystemTime::now();
    let clock = ManualClock::at(now);
    let store = open(folder.path(), &clock);
    let short = TopicFilter::new("short/#").expect("a filter");
    store.set_history_ages(vec![(short, Some(Duration::from_hours(1)))]);
    for (name, hours) in [("short/a", 2), ("short/b", 0), ("a", 3)] {
        let publication = Publication {
            id: MessageId::floor_at(now - Duration::from_hours(hours)),
            ..Publication::new(Topic::new(name).expect("a topic"), name.to_owned())
        };
        let change = StoreChange::History(Arc::new(publication));
        commit(&store, change).await.expect("a commit");
    }
    assert_eq!(history(&store), 3);
    trim(&store, &clock).await;
    let left = store.history(1_000, 1_000).expect("history");
    let mut left: Vec<&str> = left.iter().map(|one| one.topic.as_str()).collect();
    left.sort_unstable();
    assert_eq!(left, ["a", "short/b"]);
}
