//! A search through the whole journal, in steps.
//!
//! The journal is sorted by id, and ids by time, so its key is the index of a time range. The other
//! conditions are compared row by row. An index of all texts (FTS5 with trigrams, since a part of
//! an address can be anywhere in it) would answer in a millisecond, but costs each entry 38 µs when
//! it is written and 117 µs when it is removed; reading all 100,000 entries costs 0.17 s.
//! `docs/notes/broker-performance.md` has the figures. A step reads so few rows that other queries
//! of the same connection wait for milliseconds only, and a search that takes long ends with the
//! position at which the next one continues.

use std::time::{Duration, Instant};

use gatepost_message::MessageId;

use crate::error::OperationError;
use crate::operations::{Operations, as_json};
use crate::request::{JournalPage, Search};
use crate::search::JournalFilter;

/// The rows of a step.
const STEP_ROWS: usize = 2_000;
/// The time after which a search returns the matches found so far.
const SEARCH_TIME_MAX: Duration = Duration::from_secs(5);
/// No id is higher: the database's integers are signed.
const LAST: MessageId = MessageId::from_number(i64::MAX as u64);

impl Operations {
    /// Journal entries of judged messages that a search finds, newest first.
    pub async fn messages(&self, search: Search) -> Result<JournalPage, OperationError> {
        self.blocking(move |operations| operations.search_journal(&search))
            .await
    }

    fn search_journal(&self, search: &Search) -> Result<JournalPage, OperationError> {
        let began = Instant::now();
        let filter = JournalFilter::new(search);
        let from = search
            .since
            .map_or(MessageId::from_number(0), MessageId::floor_at);
        let until = search.until.map_or(LAST, MessageId::floor_at);
        let mut before = search.before.map_or(until, |before| before.min(until));
        let mut found = Vec::new();
        let mut next = None;
        // Without conditions the next rows are the result.
        let rows = if filter.is_empty() {
            search.count.saturating_add(1)
        } else {
            STEP_ROWS
        };
        while let (entries, Some(oldest)) = self.store.journal_step(from, before, rows)? {
            found.extend(entries.into_iter().filter(|entry| filter.matches(entry)));
            before = oldest;
            if found.len() > search.count {
                found.truncate(search.count);
                next = found.last().map(|entry| entry.id);
                break;
            }
            if began.elapsed() > SEARCH_TIME_MAX {
                next = Some(before);
                break;
            }
        }
        Ok(JournalPage {
            messages: as_json(found),
            next,
        })
    }
}
