//! The index of the journal: which entries may contain a text, a rule, a topic or a verdict?
//!
//! A search reads the rows of the candidates only, and compares each, so it finds the same entries
//! as one that reads the whole journal. The index is derived from the journal, so it is not part of
//! a backup and may be late: entries that it does not cover yet are the newest, and are read row by
//! row.
//!
//! Nothing of it is in the path of a message. It has a file and a thread ([`indexer`]) of
//! its own, which reads the journal like any query and never takes the store's writer. The writer
//! only notes the ids of entries that are written below the indexed ones: entries that were
//! replaced, or whose message took long. They are read row by row, too, until the indexer has read
//! them again. The schema of the database does not know the index, so an earlier release of the
//! program can continue with the database.
//!
//! Reasons for the form, with the figures in `docs/notes/broker-performance.md`:
//! - A text has a term for each three consecutive characters, because a search finds a part of a
//!   word. An index of words would not find `example.org` by `ample`.
//! - The terms are not stored: each sets a few bits of a [signature], whose length is fixed. An
//!   inverted index (FTS5) took several times as long to write, and is not faster to search.
//! - Entries are indexed in blocks of [`BLOCK_ROWS`]. Neighbours share most of their terms, so a
//!   signature for them all is shorter. A candidate costs the reading of a block.
//! - Blocks are grouped in [parts](part), which are dropped when the journal was trimmed beyond
//!   them.
//!
//! Invariant: below [`Coverage::until`], an entry that has the terms of a search is in a block that
//! has them, or its id is in [`Coverage::changed`].

mod file;
mod indexer;
mod journal_rows;
mod part;
mod signature;
mod terms;
#[cfg(test)]
mod tests;
mod updating;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;
use rusqlite::Connection;

pub(crate) use indexer::Indexer;
pub use terms::JournalTerms;

use crate::{StoreChange, rows};

/// The rows of a block.
pub(crate) const BLOCK_ROWS: usize = 16;
/// More changed entries than these make the index unused until it was compared with the journal.
const CHANGED_MAX: usize = 10_000;

/// The index as searches and the store's writer see it. The default has no file and covers nothing.
pub(crate) struct JournalIndex {
    coverage: Mutex<Coverage>,
    /// The connection of searches.
    reader: Mutex<Option<Connection>>,
    part_blocks: i64,
    /// The indexer may have read all ids up to this one. Set before it reads them.
    reading_until: AtomicI64,
    /// Entries written since the start, so that the indexer looks for new ones only if there are.
    written: AtomicU64,
    /// A search could not read the index.
    is_unreadable: AtomicBool,
}

/// The part of the journal that the index covers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Coverage {
    /// The highest id; `None` while the index cannot be used.
    until: Option<i64>,
    /// Ids up to it whose rows have changed, each with a number that increases with every change.
    changed: BTreeMap<i64, u64>,
    changes: u64,
    /// Too many have changed: the index must be compared with the journal.
    is_unsure: bool,
}

/// The parts of the journal in which a search must compare rows.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Candidates {
    /// The first id of each range and the one after its last; newest first, without overlap.
    pub(crate) ranges: Vec<(i64, i64)>,
    /// The first id to which the ranges are complete; `None` if they are complete.
    pub(crate) down_to: Option<i64>,
}

impl Default for JournalIndex {
    fn default() -> Self {
        Self {
            coverage: Mutex::default(),
            reader: Mutex::default(),
            part_blocks: part::PART_BLOCKS,
            reading_until: AtomicI64::new(i64::MIN),
            written: AtomicU64::new(0),
            is_unreadable: AtomicBool::new(false),
        }
    }
}

impl JournalIndex {
    /// Called by the writer after a commit, before any caller learns of it.
    ///
    /// The indexer raises `reading_until` before it reads. So if this sees the earlier value, the
    /// commit came before the reading, and the indexer has read the rows.
    pub(crate) fn committed(&self, changes: &[StoreChange]) {
        let mut written = 0;
        for change in changes {
            let id = match change {
                StoreChange::Journal(entry) | StoreChange::ReplaceJournal(entry) => entry.id,
                StoreChange::Quarantine(entry) => entry.journal.id,
                _ => continue,
            };
            written += 1;
            let id = rows::id_to_row(id);
            if id <= self.reading_until.load(Ordering::SeqCst) {
                self.mark(id);
            }
        }
        if written > 0 {
            self.written.fetch_add(written, Ordering::Relaxed);
        }
    }

    fn mark(&self, id: i64) {
        let mut coverage = self.coverage.lock();
        coverage.changes += 1;
        let number = coverage.changes;
        coverage.changed.insert(id, number);
        if coverage.changed.len() > CHANGED_MAX {
            coverage.changed.clear();
            coverage.until = None;
            coverage.is_unsure = true;
        }
    }

    /// The highest id that the index covers; `None` if searches have to do without it.
    pub(crate) fn until(&self) -> Option<i64> {
        self.coverage.lock().until
    }

    /// The candidates among the ids from `from` on and before `before`, of at most about `count`
    /// blocks; `None` if the index cannot be used. All of these ids must be covered.
    pub(crate) fn candidates(
        &self,
        terms: &JournalTerms,
        (from, before): (i64, i64),
        count: usize,
    ) -> Option<Candidates> {
        // While the reader is locked, the file is not replaced. The changed ids come before the
        // query: the indexer forgets them after its commit only.
        let reader = self.reader.lock();
        let coverage = self.coverage.lock().clone();
        coverage.until.filter(|until| before <= until + 1)?;
        let ids = (from, before);
        let found = file::candidates(reader.as_ref()?, terms, ids, count, self.part_blocks);
        drop(reader);
        let blocks = found
            .inspect_err(|error| {
                tracing::warn!(target: "store", %error, "the index of the journal cannot be read");
                self.is_unreadable.store(true, Ordering::Relaxed);
            })
            .ok()?;
        let down_to = blocks
            .last()
            .filter(|_| blocks.len() >= count)
            .map(|last| last.after.saturating_add(1))
            .filter(|first| *first > from);
        let from = down_to.unwrap_or(from);
        let mut ranges: Vec<(i64, i64)> = blocks
            .iter()
            .map(|block| {
                (
                    from.max(block.after.saturating_add(1)),
                    before.min(block.last + 1),
                )
            })
            .collect();
        if from < before {
            let changed = coverage.changed.range(from..before);
            ranges.extend(changed.map(|(id, _)| (*id, *id + 1)));
        }
        Some(Candidates {
            ranges: joined(ranges),
            down_to,
        })
    }
}

impl Coverage {
    /// Extends the coverage, unless the index must be compared first.
    fn reaches(&mut self, until: i64) {
        if !self.is_unsure {
            self.until = Some(until);
        }
    }
}

/// The same ids in ranges without overlap, highest first.
fn joined(mut ranges: Vec<(i64, i64)>) -> Vec<(i64, i64)> {
    ranges.sort_unstable_by_key(|&(_, end)| std::cmp::Reverse(end));
    let mut joined: Vec<(i64, i64)> = Vec::with_capacity(ranges.len());
    for (start, end) in ranges {
        match joined.last_mut() {
            Some(last) if end >= last.0 => last.0 = last.0.min(start),
            _ => joined.push((start, end)),
        }
    }
    joined
}
