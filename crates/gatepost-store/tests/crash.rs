//! `kill -9` at any moment loses nothing that was committed.
//!
//! The test starts itself as a child that commits numbered messages and prints each number once its
//! ticket is committed; the parent kills the child after a chosen number and checks the database.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use gatepost_message::{Publication, Topic};
use gatepost_store::{Store, StoreChange, StoreSettings};

const FOLDER: &str = "GATEPOST_STORE_CRASH_FOLDER";
const ROUNDS: usize = 12;

#[test]
fn committed_means_kept_through_kill_9() {
    if let Ok(folder) = std::env::var(FOLDER) {
        commit_until_killed(Path::new(&folder));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut acknowledged = 0;
    for round in 0..ROUNDS {
        acknowledged += run_and_kill(folder.path(), 1 + round * 37);
        let (store, recovery) =
            Store::open(folder.path(), &StoreSettings::default()).expect("a start after a kill");
        assert_eq!(recovery.damaged_file, None, "a kill damages nothing");
        let kept = store
            .history(usize::MAX >> 1, usize::MAX >> 1)
            .expect("history")
            .len();
        assert!(
            kept >= acknowledged,
            "round {round}: {kept} kept of {acknowledged} acknowledged"
        );
    }
    assert!(acknowledged >= ROUNDS);
}

/// Runs the child until it has acknowledged `count` messages, kills it, and returns how many it
/// had acknowledged by then.
fn run_and_kill(folder: &Path, count: usize) -> usize {
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args([
            "--exact",
            "committed_means_kept_through_kill_9",
            "--nocapture",
        ])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the child starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let is_acknowledgement = |line: &String| line.ends_with("committed");
    let before = lines
        .by_ref()
        .map_while(Result::ok)
        .filter(is_acknowledgement)
        .take(count)
        .count();
    child.kill().expect("the child is ours to kill");
    let after = lines
        .map_while(Result::ok)
        .filter(is_acknowledgement)
        .count();
    child.wait().expect("the child ends");
    assert_eq!(before, count, "the child runs until it is killed");
    before + after
}

fn commit_until_killed(folder: &Path) -> ! {
    let (store, _) = Store::open(folder, &StoreSettings::default()).expect("a store");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    let topic = Topic::new("crash").expect("a topic");
    loop {
        let publication = Arc::new(Publication::new(topic.clone(), vec![7_u8; 2_000]));
        let ticket = store
            .submit([StoreChange::History(publication)])
            .expect("room");
        runtime.block_on(ticket.committed()).expect("a commit");
        let mut output = std::io::stdout().lock();
        writeln!(output, "committed").expect("the parent reads");
    }
}
