//! Rows beyond the limits are removed in steps, between which other changes are committed.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use gatepost_message::{Action, Envelope, Listener, MessageId, Peer, Publication, Topic};
use gatepost_settings::Period;
use gatepost_store::{
    JournalEntry, ManualClock, ManualWriter, QuarantineEntry, Store, StoreChange, StoreSettings,
};

/// Rows that a step may remove, and rows that a commit of one row may remove before it.
const STEP_ROWS: usize = 1_000;
const COMMIT_ROWS: usize = STEP_ROWS + 2;
const HOUR: Duration = Duration::from_hours(1);

fn journal_entry() -> JournalEntry {
    JournalEntry {
        id: MessageId::next(),
        envelope: Envelope::new(Listener::Smtp, Peer::Local),
        topic: None,
        topics: Vec::new(),
        subject: None,
        size: 1,
        action: Action::Quarantine,
        score: None,
        hits: Vec::new(),
        reason: String::new(),
        procedure: String::new(),
        duration: Duration::ZERO,
        deliveries: 0,
    }
}

fn to_history() -> StoreChange {
    let topic = Topic::new("a").expect("a topic");
    StoreChange::History(Arc::new(Publication::new(topic, "x")))
}

fn to_journal() -> StoreChange {
    StoreChange::Journal(Box::new(journal_entry()))
}

fn to_quarantine() -> StoreChange {
    StoreChange::Quarantine(Box::new(QuarantineEntry {
        journal: journal_entry(),
        body: "x".into(),
        properties: None,
        retain: false,
    }))
}

/// Makes a change that adds one row.
type NewRow = fn() -> StoreChange;

const TABLES: [(&str, NewRow); 3] = [
    ("history", to_history),
    ("journal", to_journal),
    ("quarantine", to_quarantine),
];

/// Limits that keep this number of rows of each table.
fn keeping(rows: u64) -> StoreSettings {
    StoreSettings {
        history_messages_max: rows,
        journal_entries_max: rows,
        quarantine_messages_max: rows,
        ..StoreSettings::default()
    }
}

struct Server {
    store: Store,
    writer: ManualWriter,
    clock: Arc<ManualClock>,
    folder: tempfile::TempDir,
}

impl Server {
    fn start(settings: &StoreSettings) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let clock = ManualClock::at(SystemTime::now());
        let opened = Store::open_manual(folder.path(), settings, clock.clone());
        let (store, _, writer) = opened.expect("a store");
        Self {
            store,
            writer,
            clock,
            folder,
        }
    }

    /// Adds rows in one commit.
    fn add(&mut self, change: NewRow, rows: usize) {
        let changes = (0..rows).map(|_| change());
        let ticket = self.store.submit(changes).expect("taken");
        self.writer.commit(1);
        assert!(matches!(ticket.outcome(), Some(Ok(()))));
    }

    fn rows(&self, table: &str) -> usize {
        rows(self.folder.path(), table)
    }
}

fn rows(folder: &Path, table: &str) -> usize {
    let database = rusqlite::Connection::open(folder.join("gatepost.db")).expect("a database");
    let sql = format!("SELECT count(*) FROM {table}");
    let count = database.query_row(&sql, [], |row| row.get(0));
    count.expect("a count")
}

#[test]
fn a_commit_beyond_a_limit_removes_the_oldest_rows() {
    for (table, change) in TABLES {
        let mut server = Server::start(&keeping(1_000));
        for commit in 1..=40 {
            server.add(change, 150);
            let kept = server.rows(table);
            let expected = (150 * commit).min(1_000);
            // A commit removes rows once there are more of them than a 64th of the limit.
            let excess = kept - expected;
            assert!(excess <= 1_000 / 64, "{table}: {kept} of {expected}");
        }
    }
}

#[test]
fn one_commit_may_exceed_a_limit_many_times() {
    for (table, change) in TABLES {
        let mut server = Server::start(&keeping(100));
        server.add(change, 5_000);
        assert_eq!(server.rows(table), 100, "{table}");
        server.add(change, 1);
        assert_eq!(server.rows(table), 101, "{table}: the excess is small");
        // The pass over old rows, once a minute, leaves no excess.
        server.clock.pass(Duration::from_mins(1));
        server.add(change, 1);
        assert_eq!(server.rows(table), 100, "{table}");
    }
}

/// Commits of one row reduce a table to `left` rows, none of them by more than two steps.
fn reduces_in_steps(server: &mut Server, table: &str, change: NewRow, left: usize) {
    let mut before = server.rows(table);
    let mut commits = 0;
    server.clock.pass(Duration::from_mins(1));
    while before > left {
        server.add(change, 1);
        let after = server.rows(table);
        assert!(before - after < COMMIT_ROWS + STEP_ROWS, "{table}: {after}");
        assert!(after < before, "{table}: {after}");
        before = after;
        commits += 1;
    }
    assert_eq!(before, left, "{table}");
    assert!(commits >= 4, "{table}: {commits} commits");
}

#[test]
fn a_lowered_limit_is_reached_in_steps() {
    for (table, change) in TABLES {
        let mut server = Server::start(&keeping(100_000));
        server.add(change, 8_000);
        server.store.set_limits(&keeping(50));
        reduces_in_steps(&mut server, table, change, 50);
    }
}

#[test]
fn rows_that_grow_too_old_together_are_removed_in_steps() {
    let settings = StoreSettings {
        history_age_max: Period(HOUR),
        journal_age_max: Period(HOUR),
        quarantine_age_max: Period(HOUR),
        // Trusted: the test is about the steps.
        clock_jump_max: Period(24 * HOUR),
        ..keeping(100_000)
    };
    for (table, change) in TABLES {
        let mut server = Server::start(&settings);
        server.add(change, 4_500);
        server.clock.pass(2 * HOUR);
        // Added rows have the real time, by which they are too old as well.
        reduces_in_steps(&mut server, table, change, 0);
    }
}

#[tokio::test]
async fn a_server_without_commits_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = ManualClock::at(SystemTime::now());
    let opened = Store::open_with_clock(folder.path(), &keeping(100_000), clock.clone());
    let (store, _) = opened.expect("a store");
    let changes = (0..8_000).map(|_| to_history());
    let ticket = store.submit(changes).expect("taken");
    ticket.committed().await.expect("committed");
    store.set_limits(&keeping(50));
    clock.pass(Duration::from_mins(1));
    // The pass follows a commit, and its steps follow each other.
    let ticket = store.submit([to_history()]).expect("taken");
    ticket.committed().await.expect("committed");
    let started = Instant::now();
    while rows(folder.path(), "history") > 50 {
        assert!(started.elapsed() < Duration::from_mins(1));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(rows(folder.path(), "history"), 50);
}

#[test]
fn the_totals_of_a_table_follow_its_rows() {
    let mut server = Server::start(&keeping(10));
    let entry = journal_entry();
    let same = || StoreChange::Journal(Box::new(entry.clone()));
    let replaced = || StoreChange::ReplaceJournal(Box::new(entry.clone()));
    // Added once and replaced, an entry is one row: if it counted more often, rows would be removed
    // that are within the limit.
    for _ in 0..30 {
        let ticket = server.store.submit([same(), replaced()]).expect("taken");
        server.writer.commit(1);
        assert!(matches!(ticket.outcome(), Some(Ok(()))));
    }
    server.add(to_journal, 9);
    server.clock.pass(Duration::from_mins(1));
    server.add(to_history, 1);
    assert_eq!(server.rows("journal"), 10);
}
