//! Figures over time: bounded, right with a wrong clock, and without a commit of their own.

use std::path::Path;
use std::time::{Duration, Instant};

use gatepost_store::{
    SeriesPoints, SeriesQuery, SeriesResolution, SeriesSample, Store, StoreChange, StoreError,
    StoreSettings, Ticket,
};

const SECOND_MS: u64 = 1_000;
const NOON_MS: u64 = 1_700_000_000_000;
const ROWS_MAX: u64 = 5;
/// Less than the minute for which a sample waits.
const PATIENCE: Duration = Duration::from_secs(30);

fn open(folder: &Path) -> Store {
    let opened = Store::open(folder, &StoreSettings::default());
    opened.expect("a store").0
}

fn sample(resolution: SeriesResolution, at_ms: u64, value: f64) -> StoreChange {
    StoreChange::Sample(Box::new(SeriesSample {
        resolution,
        at_ms,
        figures: vec![
            ("messages".to_owned(), value),
            ("judge".to_owned(), f64::NAN),
            ("memory".to_owned(), 1.0),
        ],
        rows_max: ROWS_MAX,
    }))
}

fn submit(store: &Store, at_ms: u64, value: f64) -> Ticket {
    let change = sample(SeriesResolution::Samples, at_ms, value);
    store.submit_unhurried(change).expect("taken")
}

/// The points of ten seconds from noon on.
fn points(store: &Store, prefers_averages: bool) -> SeriesPoints {
    let query = SeriesQuery {
        from_ms: NOON_MS,
        to_ms: NOON_MS + 10 * SECOND_MS,
        step_ms: SECOND_MS,
        prefers_averages,
        names: &["messages".to_owned(), "judge".to_owned()],
    };
    store.series(&query).expect("points")
}

fn messages(store: &Store) -> Vec<Option<f64>> {
    points(store, false).remove("messages").unwrap_or_default()
}

#[tokio::test]
async fn samples_survive_a_restart_and_the_oldest_are_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    for second in 0..7 {
        submit(&store, NOON_MS + second * SECOND_MS, second as f64 / 3.0);
    }
    // Another resolution has a limit of its own.
    let average = sample(SeriesResolution::Averages, NOON_MS, 7.0);
    store.submit_unhurried(average).expect("taken");
    store.close(); // commits waiting changes
    drop(store);

    let store = open(folder.path());
    submit(&store, NOON_MS + 9 * SECOND_MS + 999, 9.0);
    store.flush().await;
    let (some, none) = (Some, None);
    let expected = [
        none,
        none,
        none,
        some(1.0),
        some(1.333),
        some(1.667),
        some(2.0),
        none,
        none,
        some(9.0),
    ];
    assert_eq!(messages(&store), expected);
    let all = points(&store, false);
    let names: Vec<&String> = all.keys().collect();
    assert_eq!(
        names,
        ["messages"],
        "figures that are no numbers are not stored"
    );
}

#[tokio::test]
async fn averages_are_completed_by_later_samples() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    for second in 0..4 {
        submit(&store, NOON_MS + second * SECOND_MS, 1.0);
    }
    let at_ms = NOON_MS + SECOND_MS;
    let average = sample(SeriesResolution::Averages, at_ms, 5.0);
    store.submit_unhurried(average).expect("taken");
    store.flush().await;
    let found = points(&store, true).remove("messages").expect("points");
    assert_eq!(found[..5], [None, Some(5.0), Some(1.0), Some(1.0), None]);
}

#[tokio::test]
async fn points_are_averages_of_their_interval() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    for value in [1.0, 2.0, 6.0] {
        submit(&store, NOON_MS + SECOND_MS, value);
    }
    store.flush().await;
    assert_eq!(messages(&store)[..3], [None, Some(3.0), None]);
}

/// Years ahead, back in 1970, and right again: the other samples remain, the number of rows is
/// bounded.
#[tokio::test]
async fn a_clock_that_jumps_removes_no_other_sample() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    submit(&store, NOON_MS, 1.0);
    submit(&store, NOON_MS + 50 * 365 * 86_400 * SECOND_MS, 2.0);
    submit(&store, 0, 3.0);
    submit(&store, u64::MAX, 4.0);
    submit(&store, NOON_MS + 2 * SECOND_MS, 5.0);
    store.flush().await;
    assert_eq!(messages(&store)[..3], [Some(1.0), None, Some(5.0)]);
    // Samples with wrong times are removed at their age.
    for second in 3..7 {
        submit(&store, NOON_MS + second * SECOND_MS, 6.0);
    }
    store.close();
    drop(store);
    let connection =
        rusqlite::Connection::open(folder.path().join("gatepost.db")).expect("a database");
    let (rows, first): (u64, i64) = connection
        .query_row("SELECT count(*), min(at_ms) FROM series", [], |row| {
            row.try_into()
        })
        .expect("rows");
    let noon = (NOON_MS + 2 * SECOND_MS) as i64;
    assert_eq!((rows, first), (ROWS_MAX, noon));
}

/// A commit each ten seconds would wear out a memory card.
#[tokio::test]
async fn a_sample_shares_the_commit_of_another_change() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    let before = store.commits();
    let waiting = submit(&store, NOON_MS, 1.0);
    let record = StoreChange::PutRecord {
        space: "test",
        key: bytes::Bytes::from_static(b"a"),
        value: bytes::Bytes::new(),
    };
    let urgent = store.submit([record]).expect("taken");
    urgent.committed().await.expect("committed");
    assert_eq!(waiting.outcome().map(|outcome| outcome.is_ok()), Some(true));
    store.close();
    assert_eq!(store.commits() - before, 1, "both in one commit");
}

/// A deferred change does not wait as long as a sample that was submitted before it.
#[tokio::test]
async fn a_sample_delays_no_other_change() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    let waiting = submit(&store, NOON_MS, 1.0);
    let record = StoreChange::DeleteRecord {
        space: "test",
        key: bytes::Bytes::from_static(b"a"),
    };
    store.submit_deferred([record]).expect("taken");
    // Without a flush, and without a caller that waits: a sample alone would take a minute.
    let given_up = Instant::now() + PATIENCE;
    while waiting.outcome().is_none() {
        assert!(Instant::now() < given_up);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn a_sample_is_committed_when_a_caller_waits_for_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    let waiting = submit(&store, NOON_MS, 1.0);
    let other = submit(&store, NOON_MS + SECOND_MS, 2.0);
    let committed = tokio::time::timeout(PATIENCE, waiting.committed()).await;
    committed.expect("at once").expect("committed");
    assert!(
        matches!(other.outcome(), Some(Ok(()))),
        "in the same commit"
    );
}

#[test]
fn a_nearly_full_disk_refuses_samples() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = StoreSettings {
        reserve: "9000000GB".parse().expect("a size"),
        ..StoreSettings::default()
    };
    let (store, _) = Store::open(folder.path(), &settings).expect("a store");
    let change = sample(SeriesResolution::Samples, NOON_MS, 1.0);
    let refused = store.submit_unhurried(change);
    assert!(refused.is_err_and(|error| matches!(error, StoreError::DiskFull { .. })));
}

#[tokio::test]
async fn a_damaged_sample_is_a_gap() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    submit(&store, NOON_MS, 1.0);
    submit(&store, NOON_MS + SECOND_MS, 2.0);
    store.close();
    drop(store);
    let connection =
        rusqlite::Connection::open(folder.path().join("gatepost.db")).expect("a database");
    connection
        .execute("UPDATE series SET crc = crc + 1 WHERE number = 0", [])
        .expect("altered");
    drop(connection);
    let store = open(folder.path());
    assert_eq!(messages(&store)[..2], [None, Some(2.0)]);
    assert_eq!(store.damaged_rows(), 1);
}

#[test]
fn settings_bound_the_rows() {
    let settings = StoreSettings::default();
    let rows = |settings: &StoreSettings| {
        [SeriesResolution::Samples, SeriesResolution::Averages]
            .map(|resolution| settings.series_rows_max(resolution))
    };
    assert_eq!(rows(&settings), [8_640, 8_640]);
    let period = |text: &str| text.parse().expect("a period");
    let greedy = StoreSettings {
        series_interval: period("1ms"),
        series_age_max: period("365d"),
        series_averages_interval: period("0s"),
        ..settings
    };
    assert_eq!(rows(&greedy), [100_000, 100_000]);
    let rounded = StoreSettings {
        series_interval: period("7s"),
        series_averages_interval: period("10s"),
        ..greedy
    };
    let averages = rounded.series_interval_of(SeriesResolution::Averages);
    assert_eq!(averages.as_secs(), 14, "whole samples");
}
