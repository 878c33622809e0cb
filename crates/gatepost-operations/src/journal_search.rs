//! A search through the whole journal, in steps.
//!
//! The journal is sorted by id, and ids by time, so its key is the index of a time range. For the
//! other conditions, the store's index of the journal names the entries that may match, and those
//! are compared. So a search finds a text anywhere in a word or an address, and finds the same
//! entries as one that compares all rows, which it does if there is no index. A step reads so few
//! rows that other queries of the same connection wait for milliseconds only, and a search that
//! takes long ends with the position at which the next one continues.

use std::time::{Duration, Instant};

use gatepost_message::MessageId;
use gatepost_store::{JournalEntry, Store, StoreError};

use crate::request::Search;
use crate::search::JournalFilter;

/// The rows of the first step, and the most of a later one: a common word fills a page soon.
const FIRST_STEP_ROWS: usize = 250;
const STEP_ROWS_MAX: usize = 2_000;
/// No id is higher: the database's integers are signed.
const LAST: MessageId = MessageId::from_number(i64::MAX as u64);

/// The result of a search.
#[derive(Debug, Default)]
pub(crate) struct FoundEntries {
    pub(crate) entries: Vec<JournalEntry>,
    pub(crate) next: Option<MessageId>,
    pub(crate) compared: usize,
}

/// Searches, and returns the matches found so far after `time_max`.
pub(crate) fn search_journal(
    store: &Store,
    search: &Search,
    time_max: Duration,
) -> Result<FoundEntries, StoreError> {
    let began = Instant::now();
    let filter = JournalFilter::new(search);
    let terms = filter.terms();
    let from = search
        .since
        .map_or(MessageId::from_number(0), MessageId::floor_at);
    let until = search.until.map_or(LAST, MessageId::floor_at);
    let mut before = search.before.map_or(until, |before| before.min(until));
    let mut found = FoundEntries::default();
    // Without conditions the next rows are the result.
    let mut rows = if filter.is_empty() {
        search.count.saturating_add(1)
    } else {
        FIRST_STEP_ROWS
    };
    loop {
        let step = store.journal_step(&terms, from, before, rows)?;
        found.compared += step.entries.len();
        let entries = step.entries.into_iter();
        let matching = entries.filter(|entry| filter.matches(entry));
        found.entries.extend(matching);
        if found.entries.len() > search.count {
            found.entries.truncate(search.count);
            found.next = found.entries.last().map(|entry| entry.id);
            return Ok(found);
        }
        let Some(next) = step.next else {
            return Ok(found);
        };
        before = next;
        if began.elapsed() > time_max {
            found.next = Some(before);
            return Ok(found);
        }
        rows = (rows * 2).clamp(FIRST_STEP_ROWS, STEP_ROWS_MAX);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use gatepost_message::{Action, Envelope, Listener, Peer, RuleHit, Topic, TopicFilter};
    use gatepost_store::{StoreChange, StoreSettings};

    use super::*;

    /// Enough for the store to index the older half.
    const ENTRIES: usize = 4_096;
    const WAIT_MAX: Duration = Duration::from_mins(2);

    /// An entry whose every field that is compared has a text of its own.
    fn entry(number: usize) -> JournalEntry {
        let topic = |name: &str| Topic::new(&format!("{name}/{number}/end")).expect("a topic");
        JournalEntry {
            id: MessageId::next(),
            envelope: Envelope {
                client: Some(format!("client-{number}.example")),
                user: Some(format!("User{number}x")),
                sender: Some(format!("sender{number}@example.org")),
                recipients: vec![format!("first{number}@a"), format!("second{number}@b")],
                ..Envelope::new(
                    Listener::Smtp,
                    Peer::Address(([192, 0, 2, 1], number as u16).into()),
                )
            },
            topic: Some(topic("mail")),
            topics: vec![topic("mail"), topic("copy")],
            subject: Some(format!("Grüße subject{number}x")),
            size: 1,
            action: Action::ALL[number % Action::ALL.len()],
            score: None,
            hits: vec![RuleHit {
                name: format!("RULE_{}_A", number % 64).into(),
                score: 1.0,
            }],
            reason: format!("reason{number}x"),
            procedure: String::new(),
            duration: Duration::ZERO,
            deliveries: 0,
        }
    }

    /// Searches of which each finds the entry by another field.
    fn searches(number: usize, entry: &JournalEntry) -> Vec<Search> {
        let texts = [
            entry.id.to_string()[2..].to_owned(),
            format!("SUBJECT{number}X"),
            format!("üße subject{number}x"),
            format!("ender{number}@EXAMPLE"),
            format!("rst{number}@a"),
            format!("cond{number}@b"),
            format!("opy/{number}/"),
            format!("eason{number}x"),
            format!("2.0.2.1:{number}"),
            format!("rule_{}_a", number % 64),
        ];
        let text = |text| Search {
            text,
            ..Search::default()
        };
        let sender = |sender| Search {
            sender,
            ..Search::default()
        };
        let topic = |filter: String| Search {
            topic: TopicFilter::new(&filter).ok(),
            ..Search::default()
        };
        let mut searches: Vec<Search> = texts.into_iter().map(text).collect();
        searches.extend([
            sender(format!("NDER{number}@")),
            sender(format!("ser{number}x")),
            sender(format!("ent-{number}.")),
            topic(format!("copy/{number}/end")),
            topic(format!("+/{number}/#")),
            Search {
                rule: format!("rule_{}_A", number % 64),
                ..Search::default()
            },
            Search {
                verdict: Some(entry.action),
                text: format!("n{number}x"),
                ..Search::default()
            },
        ]);
        searches
    }

    #[test]
    fn the_index_knows_every_field_that_a_search_compares() {
        let folder = tempfile::tempdir().expect("a folder");
        let (store, _) = Store::open(folder.path(), &StoreSettings::default()).expect("a store");
        let entries: Vec<_> = (0..ENTRIES).map(entry).collect();
        let changes = entries.iter().cloned().map(Box::new);
        let ticket = store.submit(changes.map(StoreChange::Journal));
        let ticket = ticket.expect("accepted");
        let began = Instant::now();
        let absent = Search {
            text: "absent".to_owned(),
            count: 1,
            ..Search::default()
        };
        // The newest entries are read row by row; half of all are old enough.
        while ticket.outcome().is_none()
            || search_journal(&store, &absent, WAIT_MAX)
                .expect("found")
                .compared
                > ENTRIES / 2
        {
            assert!(began.elapsed() < WAIT_MAX, "the journal is indexed");
            thread::sleep(Duration::from_millis(50));
        }
        for number in (0..ENTRIES).step_by(ENTRIES / 16 + 1) {
            for mut search in searches(number, &entries[number]) {
                search.count = 3;
                let filter = JournalFilter::new(&search);
                let matching = entries.iter().rev().filter(|entry| filter.matches(entry));
                let expected: Vec<_> = matching.map(|entry| entry.id).collect();
                assert!(expected.contains(&entries[number].id), "{search:?}");
                let mut ids = Vec::new();
                loop {
                    let found = search_journal(&store, &search, WAIT_MAX).expect("found");
                    assert!(found.entries.len() <= search.count, "{search:?}");
                    ids.extend(found.entries.iter().map(|entry| entry.id));
                    search.before = found.next;
                    if found.next.is_none() {
                        break;
                    }
                }
                assert_eq!(ids, expected, "{search:?}");
            }
        }
    }
}
