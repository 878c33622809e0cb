//! Searches with the index find what reading all rows finds, whatever happens to the journal and to
//! the index.

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gatepost_faults::FaultRandom;
use gatepost_message::{Action, Envelope, Listener, MessageId, Peer, RuleHit, Topic, TopicFilter};
use parking_lot::Mutex;
use rusqlite::Connection;

use super::file;
use super::indexer::{Indexer, StepSizes};
use super::journal_rows::JournalRows;
use super::{JournalIndex, JournalTerms};
use crate::{JournalEntry, ManualWriter, Store, StoreChange, StoreSettings, SystemClock, rows};

const SIZES: StepSizes = StepSizes {
    block_rows: 3,
    rows: 8,
    rows_waiting: 5,
    blocks: 4,
};
const PART_BLOCKS: i64 = 4;
const LAST: MessageId = MessageId::from_number(1 << 62);
const WORDS: [&str; 8] = [
    "invoice",
    "INVOICES",
    "anna@example.org",
    "b\0ß",
    "Grüße",
    "sensor/a",
    "re",
    "x",
];
const TOPICS: [&str; 4] = ["mail/a", "mail/b/c", "sensors/kitchen", "sensors"];
const RULES: [&str; 3] = ["BAYES_99", "BAYES_999", "invoice"];

/// A server's store and its indexer, which works only when the test wants it to.
struct Server {
    store: Store,
    writer: ManualWriter,
    database: Arc<Mutex<Connection>>,
    indexer: Indexer,
    index: Arc<JournalIndex>,
}

impl Server {
    fn start(folder: &Path) -> Self {
        let settings = StoreSettings::default();
        let clock = Arc::new(SystemClock::default());
        let index = Arc::new(JournalIndex {
            part_blocks: PART_BLOCKS,
            ..JournalIndex::default()
        });
        let (mut parts, _, _, indexer) =
            Store::open_parts(folder, &settings, clock).expect("a store");
        parts.journal_index = index.clone();
        let database = parts.writing.clone();
        // No test here cuts the power.
        let unsynced = database.lock().pragma_update(None, "synchronous", "OFF");
        unsynced.expect("set");
        let (store, committer) = Store::assemble(parts, &settings);
        Self {
            store,
            writer: ManualWriter::new(committer),
            database,
            indexer: indexer.for_test(index.clone(), SIZES),
            index,
        }
    }

    fn write(&mut self, change: StoreChange) {
        self.store.submit([change]).expect("accepted");
        self.writer.commit(usize::MAX);
    }

    fn all(&self) -> Vec<JournalEntry> {
        self.store.journal_recent(usize::MAX).expect("entries")
    }

    fn find(&self, condition: &Condition, from: MessageId, before: MessageId) -> Vec<u64> {
        let terms = condition.terms();
        let (mut before, mut found) = (before, Vec::new());
        loop {
            let step = self
                .store
                .journal_step(&terms, from, before, 6)
                .expect("a step");
            let matching = step.entries.iter().filter(|entry| condition.matches(entry));
            found.extend(matching.map(|entry| entry.id.number()));
            let Some(next) = step.next else {
                return found;
            };
            assert!(next < before, "each step goes on");
            before = next;
        }
    }

    /// The result of reading all rows.
    fn expected(&self, condition: &Condition, ids: &Range<MessageId>) -> Vec<u64> {
        self.all()
            .iter()
            .filter(|entry| ids.contains(&entry.id) && condition.matches(entry))
            .map(|entry| entry.id.number())
            .collect()
    }

    /// The share of the journal that is compared in a search for a text that no entry contains.
    fn rows_read(&self) -> usize {
        let terms = Condition::Text("absent word".to_owned()).terms();
        let (first, end) = (MessageId::from_number(0), LAST);
        let step = self.store.journal_step(&terms, first, end, usize::MAX / 32);
        let step = step.expect("a step");
        match step.next {
            Some(next) => {
                let rest = self
                    .store
                    .journal_step(&terms, first, next, usize::MAX / 32);
                step.entries.len() + rest.expect("a step").entries.len()
            }
            None => step.entries.len(),
        }
    }
}

#[derive(Debug)]
enum Condition {
    Text(String),
    Verdict(Action),
    Rule(&'static str),
    Topic(TopicFilter),
}

impl Condition {
    fn random(random: &mut FaultRandom) -> Self {
        match random.below(5) {
            0 => Self::Verdict(Action::ALL[random.below(6) as usize]),
            1 => Self::Rule(RULES[random.below(3) as usize]),
            2 => {
                let filters = [
                    "mail/#",
                    "sensors/#",
                    "+/kitchen",
                    "mail/b/c",
                    "#",
                    "mail/+",
                ];
                let filter = filters[random.below(6) as usize];
                Self::Topic(TopicFilter::new(filter).expect("a filter"))
            }
            _ => {
                let word: Vec<char> = WORDS[random.below(8) as usize].chars().collect();
                let start = random.below(word.len() as u64) as usize;
                let end = start + 1 + random.below((word.len() - start) as u64) as usize;
                Self::Text(word[start..end].iter().collect())
            }
        }
    }

    fn terms(&self) -> JournalTerms {
        let mut terms = JournalTerms::default();
        match self {
            Self::Text(text) => terms.require_text(text),
            Self::Verdict(verdict) => terms.require_verdict(*verdict),
            Self::Rule(name) => terms.require_rule(name),
            Self::Topic(filter) => terms.require_topic(filter),
        }
        terms
    }

    fn matches(&self, entry: &JournalEntry) -> bool {
        match self {
            Self::Text(text) => {
                let text = text.to_lowercase();
                let texts = [entry.subject.as_deref(), Some(&entry.reason)];
                let mut texts = texts.into_iter().flatten();
                texts.any(|one| one.to_lowercase().contains(&text))
            }
            Self::Verdict(verdict) => entry.action == *verdict,
            Self::Rule(name) => entry.hits.iter().any(|hit| hit.name == *name),
            Self::Topic(filter) => {
                let mut topics = entry.all_topics().iter();
                topics.any(|topic| filter.matches(topic.as_str()))
            }
        }
    }
}

fn entry(random: &mut FaultRandom, id: MessageId) -> JournalEntry {
    let word = |random: &mut FaultRandom| WORDS[random.below(8) as usize];
    JournalEntry {
        id,
        envelope: Envelope::new(Listener::Smtp, Peer::Local),
        topic: Topic::new(TOPICS[random.below(4) as usize]).ok(),
        topics: Vec::new(),
        subject: (random.below(4) > 0).then(|| format!("{} {}", word(random), word(random))),
        size: 1,
        action: Action::ALL[random.below(6) as usize],
        score: None,
        hits: vec![RuleHit {
            name: RULES[random.below(3) as usize].into(),
            score: 1.0,
        }],
        reason: word(random).to_owned(),
        procedure: String::new(),
        duration: Duration::ZERO,
        deliveries: 0,
    }
}

/// Changes of the journal, of the index and of the server, with searches after each.
fn try_with(seed: u64) {
    let mut random = FaultRandom::new(seed);
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = Server::start(folder.path());
    let mut next_id = 1_000_u64;
    for _ in 0..120 {
        match random.below(20) {
            0..8 => {
                for _ in 0..random.below(12) {
                    next_id += 2 + 2 * random.below(5);
                    let new = entry(&mut random, MessageId::from_number(next_id));
                    server.write(StoreChange::Journal(Box::new(new)));
                }
            }
            8..10 => {
                // One whose message took long.
                let late = MessageId::from_number(next_id - 1 - 2 * random.below(40));
                if server.all().iter().all(|entry| entry.id != late) {
                    let late = entry(&mut random, late);
                    server.write(StoreChange::Journal(Box::new(late)));
                }
            }
            10..12 => {
                let all = server.all();
                if !all.is_empty() {
                    let id = all[random.below(all.len() as u64) as usize].id;
                    let other = entry(&mut random, id);
                    server.write(StoreChange::ReplaceJournal(Box::new(other)));
                }
            }
            12 => {
                let kept = next_id.saturating_sub(100 + random.below(200));
                let kept = rows::id_to_row(MessageId::from_number(kept));
                let database = server.database.lock();
                let trimmed = database.execute("DELETE FROM journal WHERE id < ?", [kept]);
                trimmed.expect("trimmed");
            }
            13 => {
                let index = folder.path().join("gatepost.journal-index");
                drop(server);
                match random.below(4) {
                    0 => fs::remove_file(&index).unwrap_or_default(),
                    1 if index.exists() => {
                        // Chunks are missing.
                        let index = Connection::open(&index).expect("a database");
                        let _ = index.execute_batch("DELETE FROM chunk WHERE number % 7 = 0");
                    }
                    2 if index.exists() => {
                        let mut bytes = fs::read(&index).expect("a file");
                        // From a page on: SQLite has no checksum of a page.
                        let pages = bytes.len() as u64 / 4_096;
                        let at = random.below(pages) as usize * 4_096;
                        bytes[at..].fill(0xa5);
                        fs::write(&index, bytes).expect("written");
                    }
                    _ => {}
                }
                server = Server::start(folder.path());
            }
            _ => {
                for _ in 0..random.below(12) {
                    server.indexer.step();
                }
            }
        }
        let condition = Condition::random(&mut random);
        let from = MessageId::from_number(random.below(next_id));
        let before = MessageId::from_number(next_id + 5 - random.below(60));
        let expected = server.expected(&condition, &(from..before));
        let found = server.find(&condition, from, before);
        assert_eq!(found, expected, "seed {seed}: {condition:?}");
    }
}

#[test]
fn the_index_finds_what_reading_all_rows_finds() {
    for seed in 0..20 {
        try_with(seed);
    }
}

#[test]
fn old_parts_are_dropped_and_covered_rows_are_not_read() {
    let mut random = FaultRandom::new(1);
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = Server::start(folder.path());
    let index = folder.path().join("gatepost.journal-index");
    let fewest = (SIZES.rows + SIZES.rows_waiting) as u64;
    for number in 1..=200 {
        if number == fewest {
            while server.indexer.step() {}
            assert!(!index.exists(), "so few entries need no index");
        }
        let new = entry(&mut random, MessageId::from_number(number * 2));
        server.write(StoreChange::Journal(Box::new(new)));
    }
    while server.indexer.step() {}
    let waiting = SIZES.rows + SIZES.rows_waiting;
    assert!(server.rows_read() < waiting, "{}", server.rows_read());
    let parts = || {
        let parts: u64 = Connection::open(&index)
            .expect("a database")
            .query_row("SELECT count(*) FROM chunk", [], |row| row.get(0))
            .expect("a count");
        parts
    };
    let parts_before = parts();
    let database = server.database.lock();
    let trimmed = database.execute("DELETE FROM journal WHERE id < 300", []);
    trimmed.expect("trimmed");
    drop(database);
    while server.indexer.step() {}
    assert!(parts() <= parts_before / 2, "{} of {parts_before}", parts());
    // The file of a backup, of another version, or nothing: the index is compared at the start.
    server
        .database
        .lock()
        .execute("DELETE FROM journal", [])
        .expect("emptied");
    drop(server);
    let server = Server::start(folder.path());
    assert!(server.all().is_empty());
}

#[test]
fn an_unreadable_index_is_built_again() {
    let mut random = FaultRandom::new(2);
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = Server::start(folder.path());
    for number in 1..=100 {
        let new = entry(&mut random, MessageId::from_number(number * 2));
        server.write(StoreChange::Journal(Box::new(new)));
    }
    while server.indexer.step() {}
    let index = Connection::open(folder.path().join("gatepost.journal-index"));
    let index = index.expect("a database");
    let damage = "UPDATE chunk SET words = zeroblob(length(words))";
    index.execute_batch(damage).expect("damaged");
    drop(index);
    assert_eq!(
        server.rows_read(),
        100,
        "without the index, all rows are read"
    );
    while server.indexer.step() {}
    let waiting = SIZES.rows + SIZES.rows_waiting;
    assert!(server.rows_read() < waiting, "{}", server.rows_read());
    assert!(server.index.until().is_some());
}

/// The writer's thread and the indexer's work at the same time; many messages take long.
#[test]
fn late_entries_are_found_while_the_index_is_built() {
    const ENTRIES: u64 = 4_000;
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = Server::start(folder.path());
    let store = server.store.clone();
    std::thread::scope(|scope| {
        let writer = &mut server.writer;
        let index = &server.index;
        let writing = scope.spawn(move || {
            let mut random = FaultRandom::new(3);
            // Ids of messages that are being judged.
            let mut judging = Vec::new();
            let mut ids = 1..=ENTRIES;
            loop {
                judging.extend(ids.next().map(|number| number * 2));
                if judging.is_empty() {
                    break;
                }
                let late = random.below(judging.len().min(20) as u64) as usize;
                if judging.len() > 20 || ids.is_empty() {
                    let id = MessageId::from_number(judging.swap_remove(late));
                    let new = entry(&mut random, id);
                    let change = StoreChange::Journal(Box::new(new));
                    store.submit([change]).expect("accepted");
                    writer.commit(usize::MAX);
                }
                // The indexer keeps up, so that entries are late for it.
                let newest = ENTRIES as i64 * 2 - ids.clone().count() as i64 * 2;
                while index
                    .until()
                    .is_some_and(|until| until > 0 && newest - until > 200)
                {
                    std::thread::yield_now();
                }
            }
        });
        while !writing.is_finished() {
            server.indexer.step();
        }
    });
    while server.indexer.step() {}
    let waiting = SIZES.rows + SIZES.rows_waiting;
    assert!(server.rows_read() < waiting, "{}", server.rows_read());
    assert_eq!(server.all().len() as u64, ENTRIES);
    let open = |name: &str| Connection::open(folder.path().join(name)).expect("a database");
    let journal = JournalRows::new(open("gatepost.db"));
    let blocks = file::blocks_after(&open("gatepost.journal-index"), 0, ENTRIES as usize);
    for block in blocks.expect("blocks") {
        assert!(
            journal.agree_with(&block).expect("read"),
            "{}",
            block.number
        );
    }
}
