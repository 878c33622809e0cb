//! Entries of the journal, and the steps of a search through it.

use gatepost_message::MessageId;
use rusqlite::{Params, params};

use crate::journal_index::{BLOCK_ROWS, JournalTerms};
use crate::{JournalEntry, Store, StoreError, rows, table};

/// A step of a search.
#[derive(Debug)]
pub struct JournalStep {
    /// Entries, newest first. All that have the terms are among them.
    pub entries: Vec<JournalEntry>,
    /// The id before which the next step begins; `None` after the last one.
    pub next: Option<MessageId>,
}

impl Store {
    /// The newest entries of the journal, newest first.
    pub fn journal_recent(&self, count: usize) -> Result<Vec<JournalEntry>, StoreError> {
        self.journal_where("ORDER BY id DESC LIMIT ?", params![count as i64])
    }

    /// The newest journal entries of the ids from `from` on and before `before` that may have these
    /// terms: about `count` rows are read, so that a search through all of them does not block
    /// other queries. Rows that the [index](crate::journal_index) does not cover are all read.
    pub fn journal_step(
        &self,
        terms: &JournalTerms,
        from: MessageId,
        before: MessageId,
        count: usize,
    ) -> Result<JournalStep, StoreError> {
        let (from, before) = (rows::id_to_row(from), rows::id_to_row(before));
        let index = &self.inner.journal_index;
        let Some(until) = index.until().filter(|_| !terms.is_empty()) else {
            return self.rows_step(from, before, count);
        };
        let uncovered = until.saturating_add(1).max(from);
        if before > uncovered {
            let step = self.rows_step(uncovered, before, count)?;
            if step.next.is_some() {
                return Ok(step);
            }
        }
        let before = before.min(uncovered);
        let blocks = (count / BLOCK_ROWS).max(1);
        let Some(candidates) = index.candidates(terms, (from, before), blocks) else {
            return self.rows_step(from, before, count);
        };
        let mut entries = Vec::new();
        for (first, end) in candidates.ranges {
            let range = "WHERE id >= ? AND id < ? ORDER BY id DESC";
            entries.extend(self.journal_where(range, params![first, end])?);
        }
        let next = candidates.down_to.map(rows::id_from_row);
        Ok(JournalStep { entries, next })
    }

    /// A step that reads all rows.
    fn rows_step(&self, from: i64, before: i64, count: usize) -> Result<JournalStep, StoreError> {
        let oldest: Option<i64> = self
            .reader()
            .prepare_cached(
                "SELECT min(id) FROM (SELECT id FROM journal WHERE id >= ? AND id < ?
                 ORDER BY id DESC LIMIT ?)",
            )?
            .query_row(params![from, before, count as i64], |row| row.get(0))?;
        let Some(oldest) = oldest else {
            return Ok(JournalStep {
                entries: Vec::new(),
                next: None,
            });
        };
        let step = "WHERE id >= ? AND id < ? ORDER BY id DESC";
        Ok(JournalStep {
            entries: self.journal_where(step, params![oldest, before])?,
            next: Some(rows::id_from_row(oldest)),
        })
    }

    /// The journal entry of one message.
    pub fn journal_entry(&self, id: MessageId) -> Result<Option<JournalEntry>, StoreError> {
        let entries = self.journal_where("WHERE id = ?", params![rows::id_to_row(id)])?;
        Ok(entries.into_iter().next())
    }

    pub(crate) fn journal_where(
        &self,
        condition: &str,
        params: impl Params,
    ) -> Result<Vec<JournalEntry>, StoreError> {
        let mut entries = Vec::new();
        self.each(
            &table::JOURNAL,
            condition,
            params,
            rows::journal_entry,
            |entry| entries.push(entry),
        )?;
        Ok(entries)
    }
}
