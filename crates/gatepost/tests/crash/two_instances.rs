//! Two instances on one data folder, in every phase of the first: at its first start, at a later
//! one, while it recovers, serves, waits for the disk, and stops.
//!
//! `faults.c` pauses the first in the middle of its phase, at an operation on the database. A
//! second server is then refused, `gatepost user add` creates its user or reports that it did not,
//! `gatepost check` succeeds, and a copy of the database, if one can be made, is intact.

use std::path::{Path, PathBuf};
use std::process::Output;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::disk_faults::{damage, library};
use crate::support::{Gateway, PATIENCE, command, run, text_of};

const SETTINGS: &str = "rules.paths = []\nstore.on_damage = \"recover\"\nsandbox = \"off\"\n";
/// The first operations that are held, one in each round.
const SKIPS: [u32; 4] = [0, 3, 9, 30];
const NAMES: [&str; 4] = ["anna", "bert", "carl", "dora"];

/// A data folder, and the means to hold its first server.
struct Phases {
    folder: tempfile::TempDir,
    library: PathBuf,
}

impl Phases {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("password"), "secret\n").expect("a password");
        let library = library(folder.path());
        Self { folder, library }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The next operation on the database waits, after as many as the start was configured to skip.
    fn hold(&self) {
        std::fs::write(self.path().join("hold"), "").expect("a file");
    }

    fn await_held(&self, is_over: impl Fn() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !self.path().join("held").exists() && !is_over() {
            assert!(Instant::now() < deadline, "no operation was held");
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn release(&self) {
        for name in ["hold", "held"] {
            let _ = std::fs::remove_file(self.path().join(name));
        }
    }

    fn start(&self, skip: u32) -> Gateway {
        let plan = format!("hold:{skip}:1000000");
        let preload = self.library.to_string_lossy();
        let environment = [
            ("LD_PRELOAD", &*preload),
            ("DISK_FAULT", &*plan),
            ("HOLD", self.path().to_str().expect("a path")),
        ];
        Gateway::try_start_in(self.path(), SETTINGS, &environment)
            .unwrap_or_else(|log| panic!("the first server did not start:\n{log}"))
    }

    /// Holds the first server during its start, while the second is tried.
    fn start_with_second(&self, skip: u32, name: &str) -> Gateway {
        self.hold();
        thread::scope(|scope| {
            let starting = scope.spawn(|| self.start(skip));
            self.await_held(|| starting.is_finished());
            self.try_second(name);
            starting.join().expect("started")
        })
    }

    fn gatepost(&self, arguments: &[&str]) -> Output {
        let mut gatepost = command(env!("CARGO_BIN_EXE_gatepost"));
        gatepost.args(arguments).current_dir(self.path());
        gatepost.output().expect("gatepost runs")
    }

    /// Does everything that another process may do, and then lets the first continue.
    fn try_second(&self, name: &str) {
        let second = self.gatepost(&["serve", "--config=gatepost.toml"]);
        let text = text_of(&second);
        assert_eq!(second.status.code(), Some(69), "{text}");
        assert!(text.contains("another gatepost is running"), "{text}");
        let checked = self.gatepost(&["check", "--config=gatepost.toml"]);
        assert!(checked.status.success(), "{}", text_of(&checked));
        self.copy_database();
        let added = thread::scope(|scope| {
            let add = ["user", "add", name, "--password-file", "password"];
            let adding = scope.spawn(move || self.gatepost(&add));
            self.release();
            adding.join().expect("it ends")
        });
        assert!(added.status.success(), "{}", text_of(&added));
        self.expect_user(name);
    }

    fn expect_user(&self, name: &str) {
        let listed = text_of(&self.gatepost(&["user", "list"]));
        assert!(listed.contains(name), "{name} is missing in {listed}");
    }

    /// As a backup does it. There may be no database yet, or none that can be copied now.
    fn copy_database(&self) {
        let file = self.path().join("gatepost-data/gatepost.db");
        let copy = self.path().join("copy.db");
        let _ = std::fs::remove_file(&copy);
        let copied = Connection::open_with_flags(&file, OpenFlags::SQLITE_OPEN_READ_ONLY)
            .and_then(|database| database.execute("VACUUM INTO ?", [copy.to_str()]));
        if let Err(error) = copied {
            let is_damaged = self.path().join("damaged").exists();
            let expected = match error.sqlite_error_code() {
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => is_damaged,
                _ => true,
            };
            assert!(expected, "{error}");
            return;
        }
        let copy = Connection::open(&copy).expect("a copy");
        let answer: String = copy
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .expect("an answer");
        assert_eq!(answer, "ok");
    }
}

fn is_serving(gateway: &Gateway) {
    let answer = run("curl", &["-sf", &gateway.url("/healthz")], b"");
    assert!(answer.status.success(), "{}", text_of(&answer));
}

#[test]
fn a_second_instance_during_the_first_start() {
    for skip in SKIPS {
        let phases = Phases::new();
        let gateway = phases.start_with_second(skip, "anna");
        is_serving(&gateway);
        assert!(!gateway.log().contains("damaged"), "{}", gateway.log());
        gateway.kill();
    }
}

#[test]
fn a_second_instance_during_a_later_start() {
    let phases = Phases::new();
    for (skip, name) in SKIPS.into_iter().zip(NAMES) {
        let gateway = phases.start_with_second(skip, name);
        is_serving(&gateway);
        assert!(!gateway.log().contains("damaged"), "{}", gateway.log());
        gateway.kill();
    }
    for name in NAMES {
        phases.expect_user(name);
    }
}

#[test]
fn a_second_instance_during_a_recovery() {
    let phases = Phases::new();
    phases.start(0).kill();
    std::fs::write(phases.path().join("damaged"), "").expect("a file");
    for (skip, name) in SKIPS.into_iter().zip(NAMES) {
        damage(phases.path());
        let gateway = phases.start_with_second(skip, name);
        is_serving(&gateway);
        gateway.kill();
    }
    for name in NAMES {
        phases.expect_user(name);
    }
}

#[test]
fn a_second_instance_while_the_first_serves_and_waits_for_the_disk() {
    let phases = Phases::new();
    let gateway = phases.start(0);
    phases.try_second("anna");
    phases.hold();
    thread::scope(|scope| {
        let url = gateway.url("/topics/jobs/a");
        let publishing = scope.spawn(move || run("curl", &["-s", "-d", "x", &url], b""));
        phases.await_held(|| false);
        phases.try_second("bert");
        let published = publishing.join().expect("it ends");
        assert!(published.status.success(), "{}", text_of(&published));
    });
    is_serving(&gateway);
    gateway.kill();
    phases.start(0).kill();
    phases.expect_user("anna");
    phases.expect_user("bert");
}

#[test]
fn a_second_instance_while_the_first_stops() {
    let phases = Phases::new();
    let mut gateway = phases.start(0);
    phases.hold();
    gateway.signal("TERM");
    phases.await_held(|| false);
    phases.try_second("anna");
    let deadline = Instant::now() + PATIENCE;
    while gateway.is_running() {
        assert!(Instant::now() < deadline, "it ends");
        thread::sleep(Duration::from_millis(1));
    }
    let gateway = phases.start(0);
    is_serving(&gateway);
    phases.expect_user("anna");
}
