//! A backup of a server under load, restored for another instance.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::client::Publisher;
use super::gatepost;
use super::state::{self, rows};
use super::support::{await_some, text_of};

/// Tables to which the load adds rows, or whose rows its delivery changes.
const WITH_LOAD: [&str; 6] = [
    "history", "message", "delivery", "session", "clock", "series",
];

fn backup(folder: &Path, name: &str) -> std::process::Output {
    gatepost(
        folder,
        &["backup", folder.join(name).to_str().expect("a path")],
    )
}

#[test]
fn a_backup_under_load_restores_every_kind_of_state() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    state::add_users(path);
    let gateway = state::start(path);
    state::fill(&gateway);
    let (acknowledged, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let (before, output, after) = std::thread::scope(|scope| {
        let mut publisher = Publisher::connect(&gateway, "load");
        let (acknowledged, is_over) = (&acknowledged, &is_over);
        scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                let number = acknowledged.load(Ordering::Relaxed) + 1;
                publisher.publish("jobs/load", &number.to_string());
                acknowledged.store(number, Ordering::Relaxed);
            }
        });
        let at_least = |count: u64| {
            await_some("the load runs", || {
                (acknowledged.load(Ordering::Relaxed) >= count).then_some(())
            });
            acknowledged.load(Ordering::Relaxed)
        };
        let before = at_least(100);
        let output = backup(path, "copy.db");
        let after = at_least(acknowledged.load(Ordering::Relaxed) + 1);
        is_over.store(true, Ordering::Relaxed);
        (before, output, after)
    });
    assert!(output.status.success(), "{}", text_of(&output));
    assert!(after > before, "the server went on");
    let copy = path.join("copy.db");
    let mode = copy.metadata().expect("a backup").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let again = backup(path, "copy.db");
    assert_eq!(again.status.code(), Some(69), "{}", text_of(&again));
    gateway.kill();

    let source = rows(&path.join("gatepost-data/gatepost.db"));
    for (table, copied) in rows(&copy) {
        let source = &source[&table];
        assert!(!copied.is_empty(), "{table}");
        if !WITH_LOAD.contains(&table.as_str()) {
            assert_eq!(&copied, source, "{table}");
        } else if !["session", "clock"].contains(&table.as_str()) {
            let is_there = |row: &String| source.binary_search(row).is_ok();
            assert!(copied.iter().all(is_there), "{table}");
        }
    }

    let other = tempfile::tempdir().expect("a folder");
    std::fs::write(other.path().join("gatepost.toml"), "").expect("a config");
    let copy = copy.to_str().expect("a path");
    let restored = gatepost(other.path(), &["restore", copy]);
    assert!(restored.status.success(), "{}", text_of(&restored));
    let gateway = state::start(other.path());
    let got = state::expect(&gateway, &format!("got jobs/load {before}"));
    let numbers: Vec<u64> = got
        .iter()
        .filter_map(|line| line.strip_prefix("jobs/load ")?.parse().ok())
        .collect();
    let expected: Vec<u64> = (1..=numbers.len() as u64).collect();
    assert_eq!(numbers, expected, "in order, none twice and none missing");
    assert_eq!(got[..3], ["jobs/a first", "jobs/a second", "jobs/b half"]);
}

#[test]
fn a_restore_refuses_to_lose_data() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    state::add_users(path);
    let output = backup(path, "stopped.db");
    assert!(
        output.status.success(),
        "without a server: {}",
        text_of(&output)
    );
    let copy = path.join("stopped.db").display().to_string();
    let refused = |arguments: &[&str], code: i32, reason: &str| {
        let output = gatepost(path, arguments);
        let text = text_of(&output);
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(text.contains(reason), "{text}");
    };
    let gateway = state::start(path);
    refused(
        &["restore", "--replace", &copy],
        69,
        "another gatepost is running",
    );
    gateway.kill();
    refused(&["restore", &copy], 69, "exists already");
    let replaced = gatepost(path, &["restore", "--replace", &copy]);
    assert!(replaced.status.success(), "{}", text_of(&replaced));
    assert!(path.join("gatepost-data/gatepost.db.replaced-1").exists());

    let other = path.join("other.db");
    let other_name = other.display().to_string();
    let whole = std::fs::read(&copy).expect("a backup");
    std::fs::write(&other, b"no database at all").expect("written");
    refused(
        &["restore", "--replace", &other_name],
        65,
        "not a usable backup",
    );
    std::fs::write(&other, &whole[..whole.len() / 2]).expect("written");
    refused(
        &["restore", "--replace", &other_name],
        65,
        "not a usable backup",
    );
    refused(
        &["backup", "--verify", &other_name],
        65,
        "not a usable backup",
    );
    std::fs::write(&other, &whole).expect("written");
    let connection = rusqlite::Connection::open(&other).expect("a database");
    connection
        .execute("UPDATE record SET value = zeroblob(length(value))", [])
        .expect("altered");
    refused(
        &["restore", "--replace", &other_name],
        65,
        "do not fit their checksum",
    );
    refused(
        &["backup", "--verify", &other_name],
        65,
        "do not fit their checksum",
    );
    connection
        .pragma_update(None, "user_version", 99)
        .expect("altered");
    refused(
        &["restore", "--replace", &other_name],
        69,
        "a newer gatepost wrote it",
    );
    drop(connection);
    let nothing = path.join("nothing.db").display().to_string();
    refused(&["restore", "--replace", &nothing], 69, "No such file");
    drop(state::start(path));
}
