//! The steps by which the indexer follows the journal.
//!
//! After the start it compares the blocks with the journal, which another version of the program, a
//! restored backup or a recovery may have changed. Then it indexes changed blocks again, appends
//! new ones and drops old parts. The newest entries wait, so that those of messages that take
//! longer are rarely late.

use std::sync::atomic::Ordering;

use rusqlite::Connection;

use super::file::{self, Block, RELEASE_MEMORY, StoredBlock};
use super::indexer::{Indexer, IndexerState, StepSizes};
use crate::{StoreError, trim};

impl Indexer {
    /// Compares the blocks after this one with the journal, and indexes those that differ again.
    pub(super) fn compare(
        &mut self,
        connection: Connection,
        number: i64,
    ) -> Result<bool, StoreError> {
        let blocks = file::blocks_after(&connection, number, self.sizes.blocks)?;
        let Some(last) = blocks.last().map(|block| block.number) else {
            let until = file::last_id(&connection)?.unwrap_or(i64::MIN);
            self.index.coverage.lock().reaches(until);
            self.written = None;
            self.has_worked = true;
            self.state = IndexerState::Running(connection);
            return Ok(true);
        };
        let mut differing = Vec::new();
        for block in blocks {
            let is_same = self.journal.agree_with(&block)?;
            if !is_same {
                differing.push(block);
            }
        }
        self.index_again(&connection, &differing)?;
        self.state = IndexerState::Comparing(connection, last);
        Ok(true)
    }

    /// Does the next part of the work; returns whether there is more.
    pub(super) fn update(&mut self, connection: Connection) -> Result<bool, StoreError> {
        if std::mem::take(&mut self.index.coverage.lock().is_unsure) {
            self.state = IndexerState::Comparing(connection, 0);
            return Ok(true);
        }
        let has_space = self.health.admits(|| true).is_ok();
        let has_more =
            has_space && (self.index_changed(&connection)? || self.append(&connection)?);
        if !has_more {
            self.drop_parts(&connection)?;
            if self.has_worked {
                connection.execute_batch(RELEASE_MEMORY)?;
                self.journal.release_memory()?;
            }
        }
        self.has_worked = has_more;
        self.state = IndexerState::Running(connection);
        Ok(has_more)
    }

    /// Indexes the blocks of some changed entries again; returns whether there were any.
    fn index_changed(&self, connection: &Connection) -> rusqlite::Result<bool> {
        let changed: Vec<(i64, u64)> = {
            let coverage = self.index.coverage.lock();
            let some = coverage.changed.iter().take(self.sizes.blocks);
            some.map(|(id, number)| (*id, *number)).collect()
        };
        let mut blocks: Vec<StoredBlock> = Vec::new();
        for (id, _) in &changed {
            if let Some(block) = file::block_of(connection, *id)?
                && blocks.last().is_none_or(|last| last.number != block.number)
            {
                blocks.push(block);
            }
        }
        self.index_again(connection, &blocks)?;
        let mut coverage = self.index.coverage.lock();
        for (id, number) in &changed {
            // It may have changed again meanwhile.
            if coverage.changed.get(id) == Some(number) {
                coverage.changed.remove(id);
            }
        }
        Ok(!changed.is_empty())
    }

    /// Indexes these blocks as their rows are now.
    fn index_again(&self, connection: &Connection, blocks: &[StoredBlock]) -> rusqlite::Result<()> {
        if blocks.is_empty() {
            return Ok(());
        }
        let present = blocks
            .iter()
            .map(|block| Ok((block.number, self.journal.read(block)?)));
        let present: Vec<(i64, Block)> = present.collect::<rusqlite::Result<_>>()?;
        let transaction = connection.unchecked_transaction()?;
        file::replace(&transaction, &present, self.index.part_blocks)?;
        transaction.commit()
    }

    /// Appends the oldest entries that are not indexed; returns whether it did.
    fn append(&mut self, connection: &Connection) -> rusqlite::Result<bool> {
        let written = self.index.written.load(Ordering::Relaxed);
        if self.written == Some(written) {
            return Ok(false);
        }
        let Some(after) = self.index.until() else {
            return Ok(false);
        };
        let StepSizes {
            rows, rows_waiting, ..
        } = self.sizes;
        if self.journal.id_after(after, rows + rows_waiting)?.is_none() {
            self.written = Some(written);
            return Ok(false);
        }
        let Some(last) = self.journal.id_after(after, rows)? else {
            return Ok(false);
        };
        self.index.reading_until.store(last, Ordering::SeqCst);
        let mut blocks: Vec<Block> = Vec::with_capacity(rows.div_ceil(self.sizes.block_rows));
        self.journal.each(after, last, |id, crc, entry| {
            let block = match blocks.last_mut() {
                Some(block) if block.rows() < self.sizes.block_rows => block,
                _ => blocks.push_mut(Block::default()),
            };
            block.add(id, crc, entry.as_ref());
            Ok(())
        })?;
        let transaction = connection.unchecked_transaction()?;
        file::append(&transaction, &blocks, self.index.part_blocks)?;
        transaction.commit()?;
        self.index.coverage.lock().reaches(last);
        Ok(true)
    }

    /// Drops the parts that are older than the journal.
    fn drop_parts(&self, connection: &Connection) -> rusqlite::Result<()> {
        let oldest = self.journal.oldest_id()?.unwrap_or(i64::MAX);
        file::drop_before(connection, oldest, self.index.part_blocks)?;
        trim::return_free_pages(connection)
    }
}
