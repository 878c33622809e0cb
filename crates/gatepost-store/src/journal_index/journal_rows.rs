//! The journal as the indexer reads it, in a connection of its own.

use rusqlite::{Connection, OptionalExtension, params};

use super::file::{Block, RELEASE_MEMORY, StoredBlock};
use crate::{JournalEntry, rows, table};

pub(super) struct JournalRows(Connection);

impl JournalRows {
    pub(super) const fn new(connection: Connection) -> Self {
        Self(connection)
    }

    /// Whether a block's rows are those that were indexed, or none are left.
    pub(super) fn agree_with(&self, block: &StoredBlock) -> rusqlite::Result<bool> {
        let mut rows = self
            .0
            .prepare_cached("SELECT id, crc FROM journal WHERE id > ? AND id <= ? ORDER BY id")?;
        let mut rows = rows.query(params![block.after, block.last])?;
        let mut found = Block::default();
        while let Some(row) = rows.next()? {
            found.add(row.get(0)?, row.get(1)?, None);
        }
        Ok(found.rows() == 0 || found.checksum() == block.checksum)
    }

    /// The present rows of a block.
    pub(super) fn read(&self, block: &StoredBlock) -> rusqlite::Result<Block> {
        let mut present = Block::default();
        self.each(block.after, block.last, |id, crc, entry| {
            present.add(id, crc, entry.as_ref());
            Ok(())
        })?;
        Ok(present)
    }

    /// Visits the rows after the first id, up to the second, in their order: id, checksum, and the
    /// entry if the row is intact.
    pub(super) fn each(
        &self,
        after: i64,
        last: i64,
        mut visit: impl FnMut(i64, Option<i64>, Option<JournalEntry>) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<()> {
        let table = &*table::JOURNAL;
        let sql = format!(
            "SELECT {} FROM journal WHERE id > ? AND id <= ? ORDER BY id",
            table.selected
        );
        let mut statement = self.0.prepare_cached(&sql)?;
        let mut rows = statement.query([after, last])?;
        while let Some(row) = rows.next()? {
            let entry = if table.is_whole(row)? {
                rows::skip_foreign(rows::journal_entry(row))?
            } else {
                None
            };
            visit(row.get(0)?, row.get(table.columns.len())?, entry)?;
        }
        Ok(())
    }

    /// The id of the `count`th row after this id.
    pub(super) fn id_after(&self, after: i64, count: usize) -> rusqlite::Result<Option<i64>> {
        self.0
            .prepare_cached("SELECT id FROM journal WHERE id > ? ORDER BY id LIMIT 1 OFFSET ?")?
            .query_row(params![after, count as i64 - 1], |row| row.get(0))
            .optional()
    }

    pub(super) fn release_memory(&self) -> rusqlite::Result<()> {
        self.0.execute_batch(RELEASE_MEMORY)
    }

    pub(super) fn oldest_id(&self) -> rusqlite::Result<Option<i64>> {
        let mut oldest = self.0.prepare_cached("SELECT min(id) FROM journal")?;
        oldest.query_row([], |row| row.get(0))
    }
}
