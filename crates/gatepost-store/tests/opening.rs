//! Starts with whole, damaged, locked, unreadable and newer databases.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gatepost_message::{Publication, Topic};
use gatepost_store::{OnDamage, Store, StoreChange, StoreError, StoreSettings};

const NO_DATABASE: &[u8] = b"these are not the bytes you look for";

fn publication(payload: &str) -> Arc<Publication> {
    let topic = Topic::new("alarms/fire").expect("a valid topic");
    Arc::new(Publication::new(topic, payload.to_owned()))
}

fn recovering() -> StoreSettings {
    StoreSettings {
        on_damage: OnDamage::Recover,
        ..StoreSettings::default()
    }
}

fn open(folder: &Path) -> Result<Store, StoreError> {
    Store::open(folder, &StoreSettings::default()).map(|(store, _)| store)
}

async fn commit(store: &Store, changes: impl IntoIterator<Item = StoreChange>) {
    let ticket = store.submit(changes).expect("taken");
    ticket.committed().await.expect("a commit");
}

fn history(store: &Store) -> usize {
    store.history(10_000, 10_000).expect("history").len()
}

/// A database with 2,000 messages of 400 bytes and one that is retained.
async fn fill(folder: &Path) -> PathBuf {
    let store = open(folder).expect("a store");
    let many = (0..2_000).map(|n| publication(&format!("{n:0>400}")));
    commit(&store, many.map(StoreChange::History)).await;
    commit(&store, [StoreChange::Retain(publication("hot"))]).await;
    store.close();
    drop(store);
    folder.join("gatepost.db")
}

/// Overwrites ten pages in the middle, which belong to the history.
fn damage(file: &Path) -> Vec<u8> {
    let mut bytes = fs::read(file).expect("the file");
    let middle = bytes.len() / 2;
    bytes[middle..middle + 40_000].fill(0x5a);
    fs::write(file, &bytes).expect("the damaged file");
    bytes
}

/// The names in a folder, without those of locks.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name())
        .map(|name| name.to_string_lossy().into_owned())
        .filter(|name| {
            Path::new(name)
                .extension()
                .is_none_or(|kind| kind != "lock")
        })
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn damage_refuses_the_start_and_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = fill(folder.path()).await;
    let damaged = damage(&file);
    let Err(error) = open(folder.path()) else {
        panic!("a damaged database was opened");
    };
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    let sentence = error.to_string();
    assert!(
        sentence.contains("store.on_damage = \"recover\""),
        "{sentence}"
    );
    assert!(
        fs::read(&file).expect("the file") == damaged,
        "the file changed"
    );
    let secondary = Store::open_secondary(folder.path(), &recovering());
    drop(secondary);
    assert!(
        fs::read(&file).expect("the file") == damaged,
        "the file changed"
    );
}

#[tokio::test]
async fn a_recovery_keeps_the_damaged_file_and_every_row_that_can_be_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = fill(folder.path()).await;
    let damaged = damage(&file);
    let (store, recovery) = Store::open(folder.path(), &recovering()).expect("a recovery");
    let kept = recovery.damaged_file.expect("the damage was noticed");
    assert!(
        fs::read(&kept).expect("the damaged file") == damaged,
        "the copy changed"
    );
    assert_eq!(recovery.tables_incomplete, ["history"]);
    assert_eq!(store.retained().expect("retained").len(), 1);
    let recovered = history(&store);
    assert!(
        (1_500..2_000).contains(&recovered),
        "{recovered} of 2000 recovered"
    );
    drop(store);

    // The next damage finds its own name.
    damage(&file);
    let (_store, again) = Store::open(folder.path(), &recovering()).expect("a recovery");
    assert_ne!(again.damaged_file.expect("noticed"), kept);
    assert!(
        fs::read(&kept).expect("the damaged file") == damaged,
        "the copy changed"
    );
}

#[tokio::test]
async fn a_file_that_is_no_database_is_kept_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("gatepost.db");
    fs::write(&file, NO_DATABASE).expect("the file");
    assert!(matches!(
        open(folder.path()),
        Err(StoreError::Damaged { .. })
    ));
    let secondary = Store::open_secondary(folder.path(), &recovering());
    assert!(matches!(secondary, Err(StoreError::Damaged { .. })));
    let (store, recovery) = Store::open(folder.path(), &recovering()).expect("a recovery");
    let kept = recovery.damaged_file.expect("the damage was noticed");
    assert_eq!(fs::read(kept).expect("the damaged file"), NO_DATABASE);
    assert_eq!(recovery.rows_recovered, 0);
    commit(&store, [StoreChange::Retain(publication("b"))]).await;
}

#[tokio::test]
async fn a_log_without_its_database_is_damage() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("gatepost.db-wal");
    fs::write(&log, NO_DATABASE).expect("the file");
    assert!(matches!(
        open(folder.path()),
        Err(StoreError::Damaged { .. })
    ));
    assert_eq!(fs::read(&log).expect("the log"), NO_DATABASE);
    let (store, recovery) = Store::open(folder.path(), &recovering()).expect("a recovery");
    let kept = recovery.damaged_file.expect("the damage was noticed");
    assert_eq!(kept, folder.path().join("gatepost.db.damaged-1"));
    let kept_log = folder.path().join("gatepost.db.damaged-1-wal");
    assert_eq!(fs::read(kept_log).expect("the log"), NO_DATABASE);
    store.close();
}

#[tokio::test]
async fn another_error_than_damage_ends_the_start_and_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = fill(folder.path()).await;
    // A folder in the place of the write-ahead log: SQLite cannot open it.
    let log = folder.path().join("gatepost.db-wal");
    let _ = fs::remove_file(&log);
    fs::create_dir(&log).expect("a folder");
    let before = (fs::read(&file).expect("the file"), names(folder.path()));
    let Err(error) = Store::open(folder.path(), &recovering()) else {
        panic!("the database cannot be opened");
    };
    assert!(matches!(error, StoreError::Open { .. }), "{error}");
    assert!(
        before.0 == fs::read(&file).expect("the file"),
        "the file changed"
    );
    assert_eq!(before.1, names(folder.path()));
    fs::remove_dir(&log).expect("removed");
    assert_eq!(history(&open(folder.path()).expect("whole again")), 2_000);
}

#[tokio::test]
async fn a_partial_recovery_is_discarded_and_a_complete_one_finished() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = fill(folder.path()).await;
    // As a kill in the middle of a recovery leaves it.
    fs::write(folder.path().join("gatepost.db.recovering"), NO_DATABASE).expect("a partial file");
    damage(&file);
    let (store, recovery) = Store::open(folder.path(), &recovering()).expect("a recovery");
    let recovered = history(&store);
    assert!(recovered >= 1_500, "{recovered}");
    assert!(recovery.damaged_file.is_some());
    store.close();
    drop(store);

    // As a kill before the last renaming leaves it, with the log of the damaged database.
    let complete = fs::read(&file).expect("a whole file");
    fs::write(folder.path().join("gatepost.db.recovered"), complete).expect("a complete file");
    damage(&file);
    fs::write(folder.path().join("gatepost.db-wal"), NO_DATABASE).expect("a log");
    let secondary = Store::open_secondary(folder.path(), &StoreSettings::default());
    assert!(matches!(
        secondary,
        Err(StoreError::RecoveryInterrupted { .. })
    ));
    assert_eq!(history(&open(folder.path()).expect("completed")), recovered);
    assert!(!folder.path().join("gatepost.db.recovered").exists());
}

#[tokio::test]
async fn one_server_has_a_folder_at_a_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = open(folder.path()).expect("a store");
    assert!(matches!(
        open(folder.path()),
        Err(StoreError::AlreadyServing { .. })
    ));
    commit(&first, [StoreChange::History(publication("x"))]).await;
    first.close();
    let second = open(folder.path()).expect("a store");
    assert_eq!(history(&second), 1);
}

#[tokio::test]
async fn a_partial_new_database_is_discarded() {
    let folder = tempfile::tempdir().expect("a folder");
    let partial = folder.path().join("gatepost.db.creating");
    fs::write(&partial, NO_DATABASE).expect("a partial file");
    let store = open(folder.path()).expect("a store");
    commit(&store, [StoreChange::History(publication("kept"))]).await;
    assert_eq!(history(&store), 1);
    assert!(!partial.exists(), "renamed to gatepost.db");
}

#[test]
fn processes_that_create_the_database_together_all_find_it_whole() {
    for _ in 0..20 {
        let folder = tempfile::tempdir().expect("a folder");
        std::thread::scope(|scope| {
            let server = scope.spawn(|| open(folder.path()).expect("the server"));
            let commands = [(); 3].map(|()| {
                scope.spawn(|| {
                    Store::open_secondary(folder.path(), &StoreSettings::default())
                        .expect("a command")
                })
            });
            for (number, command) in commands.into_iter().enumerate() {
                let command = command.join().expect("opened");
                let put = StoreChange::PutRecord {
                    space: "test",
                    key: vec![number as u8].into(),
                    value: "v".into(),
                };
                let ticket = command.submit([put]).expect("taken");
                let runtime = tokio::runtime::Builder::new_current_thread().build();
                let committed = runtime.expect("a runtime").block_on(ticket.committed());
                committed.expect("a commit");
            }
            let server = server.join().expect("opened");
            assert_eq!(server.records("test", b"").expect("records").len(), 3);
        });
    }
}

#[tokio::test]
async fn a_database_of_a_newer_version_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = fill(folder.path()).await;
    // `user_version` is the 32-bit number at offset 60 of the header (SQLite file format 1.3).
    let mut bytes = fs::read(&file).expect("the file");
    bytes[60..64].copy_from_slice(&99_u32.to_be_bytes());
    fs::write(&file, &bytes).expect("a newer file");
    for opened in [
        open(folder.path()).map(drop),
        Store::open_secondary(folder.path(), &StoreSettings::default()).map(drop),
    ] {
        let error = opened.expect_err("a newer schema");
        assert!(
            matches!(error, StoreError::LaterSchema { found: 99, .. }),
            "{error}"
        );
    }
    assert!(
        fs::read(&file).expect("the file") == bytes,
        "the file changed"
    );
}

#[test]
fn the_folder_is_its_owners_only() {
    let parent = tempfile::tempdir().expect("a folder");
    let folder = parent.path().join("data");
    let _store = open(&folder).expect("a store");
    let mode = fs::metadata(&folder).expect("made").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}
