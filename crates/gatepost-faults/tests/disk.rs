//! The faults have the effects on SQLite that their documentation states.

use std::path::Path;

use gatepost_faults::{Disk, Fault, FaultEffect, FileKind, FileOperation};
use rusqlite::Connection;

fn open(folder: &Path) -> rusqlite::Result<Connection> {
    let database = Connection::open(folder.join("a.db"))?;
    database.pragma_update(None, "journal_mode", "WAL")?;
    database.pragma_update(None, "synchronous", "FULL")?;
    database.execute_batch("CREATE TABLE IF NOT EXISTS number (value INTEGER)")?;
    Ok(database)
}

fn insert(database: &Connection, value: i64) -> rusqlite::Result<usize> {
    database.execute("INSERT INTO number VALUES (?)", [value])
}

fn count(database: &Connection) -> i64 {
    let count = database.query_row("SELECT count(*) FROM number", [], |row| row.get(0));
    count.expect("a count")
}

#[test]
fn errors_end_with_the_fault() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = Disk::at(folder.path());
    let database = open(folder.path()).expect("open");
    for effect in [
        FaultEffect::Error,
        FaultEffect::Full,
        FaultEffect::Short(100),
    ] {
        disk.inject(
            Fault::new(FileOperation::Write, effect)
                .on(FileKind::Log)
                .times(1),
        );
        assert!(insert(&database, 1).is_err(), "{effect:?}");
    }
    disk.inject(Fault::new(FileOperation::Sync, FaultEffect::Error).after(1));
    assert!(insert(&database, 2).is_ok(), "the first sync goes well");
    assert!(insert(&database, 3).is_err());
    disk.remove_faults();
    assert!(insert(&database, 4).is_ok());
    disk.inject(Fault::new(FileOperation::Open, FaultEffect::NoDescriptor));
    assert!(open(folder.path()).is_err());
    assert!(disk.count(FileOperation::Sync) >= 3);
}

#[test]
fn a_power_cut_loses_only_unsynced_data() {
    for chance in [0, 1, 2] {
        let folder = tempfile::tempdir().expect("a folder");
        let disk = Disk::at(folder.path());
        let database = open(folder.path()).expect("open");
        for value in 0..50 {
            insert(&database, value).expect("synced");
        }
        disk.inject(Fault::new(FileOperation::Sync, FaultEffect::Lie));
        for value in 50..100 {
            insert(&database, value).expect("not synced");
        }
        disk.cut_power();
        assert!(insert(&database, 100).is_err());
        drop(database);
        let mut turn = 0_u32;
        disk.restore_power(&mut || {
            turn += 1;
            match chance {
                0 => false,
                1 => true,
                _ => !turn.is_multiple_of(7),
            }
        })
        .expect("restored");
        let database = open(folder.path()).expect("open");
        let left = count(&database);
        match chance {
            0 => assert_eq!(left, 50),
            1 => assert_eq!(left, 100),
            _ => assert!((50..100).contains(&left), "{left}"),
        }
    }
}
