//! The database of a released version under this one.
//!
//! `tests/data/schema-N.db` is a backup of a server of the version that had schema N, with at least
//! one row in each table. `GATEPOST_TEST_FIXTURE=FILE cargo test -p gatepost --test backup --
//! --ignored fixture` makes one of the present version.

use std::path::Path;

use super::gatepost;
use super::state;
use super::support::{Gateway, text_of};

/// The backups of released versions.
fn fixtures() -> Vec<std::path::PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let entries = std::fs::read_dir(&folder).expect("the folder of fixtures");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths
        .filter(|path| path.extension().is_some_and(|kind| kind == "db"))
        .collect()
}

#[test]
fn a_database_of_each_release_is_served() {
    let fixtures = fixtures();
    assert!(!fixtures.is_empty());
    for fixture in fixtures {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("gatepost-data");
        std::fs::create_dir(&data).expect("a folder");
        std::fs::copy(&fixture, data.join("gatepost.db")).expect("a copy");
        let gateway = state::start(folder.path());
        let got = state::expect(&gateway, "got jobs/b half");
        let expected = ["jobs/a first", "jobs/a second", "jobs/b half"];
        assert_eq!(got, expected, "{}", fixture.display());
        assert_eq!(gateway.terminate(), Some(0));
        let output = gatepost(folder.path(), &["user", "list"]);
        assert!(text_of(&output).contains("anna"), "{}", text_of(&output));
    }
}

#[test]
fn a_newer_database_is_refused_and_not_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    state::add_users(path);
    let file = path.join("gatepost-data/gatepost.db");
    let connection = rusqlite::Connection::open(&file).expect("a database");
    connection
        .pragma_update(None, "user_version", 99)
        .expect("altered");
    drop(connection);
    let before = std::fs::read(&file).expect("the database");
    let started = Gateway::try_start_in(path, state::SETTINGS, &[]);
    let log = started.err().expect("the start is refused");
    for part in [
        "has schema 99",
        "a newer gatepost wrote it",
        "nothing was changed",
    ] {
        assert!(log.contains(part), "{part}: {log}");
    }
    let copy = path.join("copy.db").display().to_string();
    let output = gatepost(path, &["backup", &copy]);
    assert_eq!(output.status.code(), Some(69), "{}", text_of(&output));
    assert!(!path.join("copy.db").exists());
    assert!(std::fs::read(&file).expect("the database") == before);
}

#[test]
#[ignore = "writes a fixture, to the file that GATEPOST_TEST_FIXTURE names"]
fn fixture() {
    let target = std::env::var("GATEPOST_TEST_FIXTURE").expect("the file to write");
    let folder = tempfile::tempdir().expect("a folder");
    state::add_users(folder.path());
    let gateway = state::start(folder.path());
    state::fill(&gateway);
    let output = gatepost(folder.path(), &["backup", &target]);
    assert!(output.status.success(), "{}", text_of(&output));
}
