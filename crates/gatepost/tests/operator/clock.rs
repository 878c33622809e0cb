//! An administrator accepts a clock that is suddenly ahead.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use gatepost_message::{MessageId, Publication, Topic};
use gatepost_store::{ClockSource, Store, StoreChange, StoreSettings};

use super::curl;
use super::support::{Gateway, run, text_of};

const AGO: Duration = Duration::from_hours(30 * 24);
const ROWS: u64 = 150;

/// A clock of a month ago that stands still.
struct Earlier(SystemTime);

impl ClockSource for Earlier {
    fn now(&self) -> SystemTime {
        self.0
    }

    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }
}

/// Fills the data of a server that ended a month ago: the history of its last minutes.
fn fill(folder: &std::path::Path) {
    let then = SystemTime::now() - AGO;
    let settings = StoreSettings::default();
    let opened = Store::open_with_clock(folder, &settings, Arc::new(Earlier(then)));
    let (store, _) = opened.expect("a store");
    let topic = Topic::new("a").expect("a topic");
    let changes = (1..=ROWS).map(|second| {
        StoreChange::History(Arc::new(Publication {
            id: MessageId::floor_at(then - Duration::from_secs(second)),
            ..Publication::new(topic.clone(), "x")
        }))
    });
    store.submit(changes).expect("taken");
    store.close(); // commits waiting changes
}

fn clock(gateway: &Gateway, action: &str) -> String {
    let arguments = ["clock", action, "--url", &gateway.url("")];
    let output = run(env!("CARGO_BIN_EXE_gatepost"), &arguments, b"");
    assert!(output.status.success(), "{}", text_of(&output));
    text_of(&output)
}

#[test]
fn rows_wait_until_an_administrator_accepts_the_clock() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("gatepost-data");
    std::fs::create_dir(&data).expect("a folder");
    fill(&data);
    let gateway = Gateway::start_in(folder.path(), "rules.paths = []\n");
    assert!(
        gateway.log().contains("the clock is 30d ahead"),
        "{}",
        gateway.log()
    );
    let held = format!("gatepost_store_held_rows {ROWS}\n");
    assert!(curl(&gateway, "/metrics", &[]).contains(&held));
    let shown = clock(&gateway, "show");
    assert!(
        shown.starts_with("150 rows are held back: the clock is 30d"),
        "{shown}"
    );
    let accepted = clock(&gateway, "accept");
    assert!(
        accepted.starts_with("the clock is accepted: 150 rows"),
        "{accepted}"
    );
    assert_eq!(clock(&gateway, "show").trim(), "no rows are held back");
    assert!(curl(&gateway, "/metrics", &[]).contains("gatepost_store_held_rows 0\n"));
}
