//! The database of a released version under this one.
//!
//! `tests/data/schema-N.db`, or its text `schema-N.sql`, is a backup of a server of the version
//! that had schema N, with at least one row in each table. `GATEPOST_TEST_FIXTURE=FILE cargo test
//! -p gatepost --test backup -- --ignored fixture` makes one of the present version; the name of a
//! text ends with `.sql`.

use std::path::Path;

use rusqlite::Connection;

use super::gatepost;
use super::sql_text;
use super::state;
use super::support::{Gateway, text_of};

/// Tables whose rows a start does not change. It gives a session's row its time, records what it
/// learns of itself, and adds samples of its figures.
const TABLES_KEPT: [&str; 8] = [
    "retained",
    "history",
    "journal",
    "quarantine",
    "subscription",
    "message",
    "delivery",
    "received",
];

/// The backups of released versions, by name.
fn fixtures() -> Vec<std::path::PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let entries = std::fs::read_dir(&folder).expect("the folder of fixtures");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut fixtures: Vec<_> = paths
        .filter(|path| {
            path.extension()
                .is_some_and(|kind| kind == "db" || kind == "sql")
        })
        .collect();
    fixtures.sort();
    fixtures
}

fn is_sql(path: &Path) -> bool {
    path.extension().is_some_and(|kind| kind == "sql")
}

/// Makes the database of a fixture. Its sessions ended a moment ago: otherwise they would expire a
/// week after the fixture was made.
fn unpack(fixture: &Path, database: &Path) {
    if is_sql(fixture) {
        let text = std::fs::read_to_string(fixture).expect("a text");
        sql_text::read(&text, database);
    } else {
        std::fs::copy(fixture, database).expect("a copy");
    }
    let connection = Connection::open(database).expect("a database");
    connection
        .execute("UPDATE session SET ended_ms = NULL, crc = NULL", [])
        .expect("altered");
}

#[test]
fn a_database_of_each_release_is_served_with_all_its_rows() {
    let fixtures = fixtures();
    assert!(fixtures.len() >= 2, "{fixtures:?}");
    for fixture in fixtures {
        let name = fixture.display();
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("gatepost-data");
        std::fs::create_dir(&data).expect("a folder");
        let database = data.join("gatepost.db");
        unpack(&fixture, &database);
        let before = state::rows(&database);
        assert!(before.values().all(|rows| !rows.is_empty()), "{name}");

        let gateway = state::start(folder.path());
        let now = state::rows(&database);
        for (table, rows) in &before {
            assert!(now[table].len() >= rows.len(), "{name}: {table}");
        }
        for table in TABLES_KEPT {
            // Steps of the schema add columns at the end.
            let is_kept = |row: &String| {
                let row = row.trim_end_matches(']');
                now[table].iter().any(|later| later.starts_with(row))
            };
            for row in &before[table] {
                assert!(is_kept(row), "{name}: {table}: {row}");
            }
        }
        let got = state::expect(&gateway, "got jobs/b half");
        let expected = ["jobs/a first", "jobs/a second", "jobs/b half"];
        assert_eq!(got, expected, "{name}");
        assert_eq!(gateway.terminate(), Some(0));
        let output = gatepost(folder.path(), &["user", "list"]);
        assert!(text_of(&output).contains("anna"), "{}", text_of(&output));
    }
}

/// A schema whose databases no test opens could lose rows in the next step.
#[test]
fn each_schema_since_the_first_release_has_a_fixture() {
    let folder = tempfile::tempdir().expect("a folder");
    state::add_users(folder.path());
    let database = folder.path().join("gatepost-data/gatepost.db");
    let connection = Connection::open(&database).expect("a database");
    let newest: u32 = connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .expect("a version");
    let names: Vec<String> = fixtures()
        .iter()
        .map(|path| path.file_stem().expect("a name").display().to_string())
        .collect();
    let expected: Vec<String> = (4..=newest)
        .map(|schema| format!("schema-{schema}"))
        .collect();
    assert_eq!(names, expected);
}

#[test]
fn a_newer_database_is_refused_and_not_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    state::add_users(path);
    let file = path.join("gatepost-data/gatepost.db");
    let connection = Connection::open(&file).expect("a database");
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
    let copy = folder.path().join("copy.db");
    let output = gatepost(folder.path(), &["backup", &copy.display().to_string()]);
    assert!(output.status.success(), "{}", text_of(&output));
    if is_sql(Path::new(&target)) {
        std::fs::write(target, sql_text::of(&copy)).expect("written");
    } else {
        std::fs::copy(copy, target).expect("a copy");
    }
}
