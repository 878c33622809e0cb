//! The files of backups: a name is taken in one step, and an interrupted backup hinders no other.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use gatepost_store::{
    BackupError, ExistingDatabase, Store, StoreSettings, restore_backup, write_backup,
};

/// A data folder with a database.
fn database() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let (store, _) = Store::open(&data, &StoreSettings::default()).expect("a store");
    store.close();
    (folder, data)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name())
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn the_remains_of_an_interrupted_backup_are_replaced() {
    let (folder, data) = database();
    let target = folder.path().join("copy.db");
    let partial = folder.path().join("copy.db.partial");
    // As a kill at the beginning and in the middle leaves it.
    for left in [&b""[..], b"SQLite format 3\0 and some pages"] {
        fs::write(&partial, left).expect("a file");
        write_backup(&data, &target).expect("a backup");
        assert_eq!(names(folder.path()), ["copy.db", "data"]);
        fs::remove_file(&target).expect("removed");
    }
    // No backup has left this one.
    fs::write(&partial, "a file of another program").expect("a file");
    let refused = write_backup(&data, &target);
    assert!(matches!(refused, Err(BackupError::Exists(file)) if file == partial));
    assert_eq!(names(folder.path()), ["copy.db.partial", "data"]);
}

#[test]
fn a_backup_that_another_process_writes_is_left_alone() {
    let (folder, data) = database();
    let target = folder.path().join("copy.db");
    let partial = folder.path().join("copy.db.partial");
    let other = File::create(&partial).expect("a file");
    other.lock().expect("locked");
    let refused = write_backup(&data, &target);
    assert!(matches!(refused, Err(BackupError::BeingWritten(_))));
    assert!(partial.exists() && !target.exists());
}

#[test]
fn a_write_ahead_log_without_its_database_is_kept_by_a_restore() {
    let (folder, data) = database();
    let target = folder.path().join("copy.db");
    write_backup(&data, &target).expect("a backup");
    fs::remove_file(data.join("gatepost.db")).expect("removed");
    let log = data.join("gatepost.db-wal");
    fs::write(&log, "what is left").expect("written");
    let settings = StoreSettings::default();
    let restore = |existing| restore_backup(&target, &data, &settings, existing);
    let refused = restore(ExistingDatabase::Refused);
    assert!(matches!(refused, Err(BackupError::Exists(file)) if file == log));
    let (_, kept) = restore(ExistingDatabase::Kept).expect("restored");
    let kept = kept.expect("the log is kept");
    assert_eq!(kept, data.join("gatepost.db.replaced-1"));
    let kept_log = fs::read_to_string(data.join("gatepost.db.replaced-1-wal"));
    assert_eq!(kept_log.expect("the log"), "what is left");
    Store::open(&data, &settings).expect("the backup");
}

#[test]
fn files_that_root_makes_belong_to_the_owner_of_the_folder() {
    use std::os::unix::fs::{MetadataExt, chown};
    let (folder, data) = database();
    for name in ["gatepost.lock", "gatepost.db.lock"] {
        fs::remove_file(data.join(name)).expect("removed");
    }
    let owned = [data.clone(), data.join("gatepost.db")];
    if owned
        .iter()
        .any(|path| chown(path, Some(65_533), Some(65_532)).is_err())
    {
        // Only root can.
        return;
    }
    write_backup(&data, &folder.path().join("copy.db")).expect("a backup");
    for name in names(&data) {
        let found = fs::symlink_metadata(data.join(&name)).expect("a file");
        assert_eq!((found.uid(), found.gid()), (65_533, 65_532), "{name}");
    }
}
