//! The index's file: a database of its own, which can be deleted at any time.
//!
//! Entries are indexed in blocks of a few entries that follow each other in the journal. The table
//! `block` says where each ends: a block covers the ids after the end of the one before, whatever
//! rows are there. Its checksum covers the ids and the checksums of these rows, so that a row that
//! was added, replaced or removed without the index is noticed. The signatures of blocks are stored
//! in [parts](super::part), which are dropped as a whole.

use rusqlite::{Connection, params};

use super::part::{self, IndexPart, PART_BLOCKS};
use super::signature::Signature;
use super::terms::{self, JournalTerms};
use crate::JournalEntry;

/// The format of the file, its terms included. A file of another format is replaced.
pub(super) const FORMAT: i64 = 2;
/// Pages of the write-ahead log before they are moved into the file.
const LOG_PAGES_MAX: i64 = 500;
/// Has a connection free the pages that it caches.
pub(super) const RELEASE_MEMORY: &str = "PRAGMA shrink_memory";
/// The memory of the pages that a connection caches, in KiB; SQLite writes it as a negative number.
const CACHE_KIB_MAX: i64 = 1_024;
/// The number of the first block of a file, with which a part begins.
const FIRST_BLOCK: i64 = PART_BLOCKS;

/// Entries that are indexed together.
#[derive(Default)]
pub(super) struct Block {
    signature: Signature,
    checksum: crc32fast::Hasher,
    rows: usize,
    last: i64,
}

impl Block {
    /// Adds a row of the journal; `entry` is `None` if it is not intact.
    pub(super) fn add(&mut self, id: i64, crc: Option<i64>, entry: Option<&JournalEntry>) {
        if let Some(entry) = entry {
            terms::add_entry(&mut self.signature, entry);
        }
        self.checksum.update(&id.to_le_bytes());
        self.checksum.update(&crc.unwrap_or(-1).to_le_bytes());
        self.rows += 1;
        self.last = id;
    }

    pub(super) const fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn checksum(&self) -> i64 {
        i64::from(self.checksum.clone().finalize())
    }
}

/// A block in the file.
pub(super) struct StoredBlock {
    pub(super) number: i64,
    /// Its ids are above this one.
    pub(super) after: i64,
    pub(super) last: i64,
    pub(super) checksum: i64,
}

/// Creates the tables in a new file. Returns whether the file can be used.
pub(super) fn prepare(connection: &Connection) -> rusqlite::Result<bool> {
    let format: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if format == 0 {
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    }
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // The latest blocks may be lost with the machine's power, but the file is consistent.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES_MAX)?;
    limit_cache(connection)?;
    if format == 0 {
        connection.execute_batch(&format!(
            "BEGIN;
             CREATE TABLE block (
                 number INTEGER PRIMARY KEY,
                 last INTEGER NOT NULL UNIQUE,
                 checksum INTEGER NOT NULL
             );
             {chunks}
             PRAGMA user_version = {FORMAT};
             COMMIT;",
            chunks = part::TABLE,
        ))?;
        return Ok(true);
    }
    if format != FORMAT {
        return Ok(false);
    }
    let answer: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    Ok(answer == "ok")
}

pub(super) fn limit_cache(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "cache_size", -CACHE_KIB_MAX)
}

/// The last id of the newest block.
pub(super) fn last_id(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    connection.query_row("SELECT max(last) FROM block", [], |row| row.get(0))
}

/// The next blocks after this number.
pub(super) fn blocks_after(
    connection: &Connection,
    number: i64,
    count: usize,
) -> rusqlite::Result<Vec<StoredBlock>> {
    let condition = "block.number > ?1 ORDER BY block.number LIMIT ?2";
    blocks_where(connection, condition, [number, count as i64])
}

/// The block that covers this id.
pub(super) fn block_of(connection: &Connection, id: i64) -> rusqlite::Result<Option<StoredBlock>> {
    let condition = "block.last >= ?1 ORDER BY block.last LIMIT ?2";
    let found = blocks_where(connection, condition, [id, 1])?;
    Ok(found.into_iter().next())
}

fn blocks_where(
    connection: &Connection,
    condition: &str,
    values: [i64; 2],
) -> rusqlite::Result<Vec<StoredBlock>> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT block.number, block.last, block.checksum, earlier.last
         FROM block LEFT JOIN block AS earlier ON earlier.number = block.number - 1
         WHERE {condition}"
    ))?;
    let blocks = statement.query_map(values, |row| {
        let earlier: Option<i64> = row.get(3)?;
        Ok(StoredBlock {
            number: row.get(0)?,
            last: row.get(1)?,
            checksum: row.get(2)?,
            after: earlier.unwrap_or(i64::MIN),
        })
    })?;
    blocks.collect()
}

/// Adds blocks after the newest one.
pub(super) fn append(
    connection: &Connection,
    blocks: &[Block],
    part_blocks: i64,
) -> rusqlite::Result<()> {
    let mut insert = connection.prepare_cached(
        "INSERT INTO block (number, last, checksum)
         VALUES (coalesce((SELECT max(number) + 1 FROM block), ?), ?, ?)",
    )?;
    let mut numbered = Vec::with_capacity(blocks.len());
    for block in blocks {
        let number = insert.insert(params![FIRST_BLOCK, block.last, block.checksum()])?;
        numbered.push((number, block));
    }
    // Only a part's first block makes the part: if it is missing later, the index is damaged.
    let is_first = |number: i64| number % part_blocks == 0;
    write_signatures(connection, &numbered, part_blocks, is_first)
}

/// Indexes blocks again, whose rows have changed, in the order of their numbers.
pub(super) fn replace(
    connection: &Connection,
    blocks: &[(i64, Block)],
    part_blocks: i64,
) -> rusqlite::Result<()> {
    let mut update = connection.prepare_cached("UPDATE block SET checksum = ? WHERE number = ?")?;
    let mut numbered = Vec::with_capacity(blocks.len());
    for (number, block) in blocks {
        update.execute([block.checksum(), *number])?;
        numbered.push((*number, block));
    }
    write_signatures(connection, &numbered, part_blocks, |_| false)
}

/// Writes the signatures of numbered blocks. `is_first` says of a number that its part is new.
fn write_signatures(
    connection: &Connection,
    blocks: &[(i64, &Block)],
    part_blocks: i64,
    is_first: impl Fn(i64) -> bool,
) -> rusqlite::Result<()> {
    let of_one_part =
        |one: &(i64, &Block), other: &(i64, &Block)| one.0 / part_blocks == other.0 / part_blocks;
    for blocks in blocks.chunk_by(of_one_part) {
        let first = blocks[0].0;
        let number = first / part_blocks;
        let mut part = if is_first(first) {
            IndexPart::new(number)
        } else {
            IndexPart::read(connection, number)?
        };
        for (number, block) in blocks {
            part.set((number % part_blocks) as u32, &block.signature);
        }
        part.write(connection)?;
    }
    Ok(())
}

/// Drops the parts all of whose blocks end before this id.
pub(super) fn drop_before(
    connection: &Connection,
    oldest: i64,
    part_blocks: i64,
) -> rusqlite::Result<()> {
    let mut ends = connection.prepare_cached(
        // SQLite looks up only one of them in the key if they are in one query.
        "SELECT (SELECT min(number) FROM block), (SELECT max(number) FROM block)",
    )?;
    let (first, newest): (Option<i64>, Option<i64>) =
        ends.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let (Some(first), Some(newest)) = (first, newest) else {
        return Ok(());
    };
    // Ids may become lower after the last block, so the newest part stays.
    let kept = block_of(connection, oldest)?.map_or(newest, |block| block.number);
    for part in first / part_blocks..kept / part_blocks {
        let transaction = connection.unchecked_transaction()?;
        part::remove_before(&transaction, part + 1)?;
        transaction.execute(
            "DELETE FROM block WHERE number < ?",
            [(part + 1) * part_blocks],
        )?;
        transaction.commit()?;
    }
    Ok(())
}

/// The newest blocks that may contain entries with these terms, of the ids from `from` on and
/// before `before`: newest first, at most `count`.
pub(super) fn candidates(
    connection: &Connection,
    terms: &JournalTerms,
    (from, before): (i64, i64),
    count: usize,
    part_blocks: i64,
) -> rusqlite::Result<Vec<StoredBlock>> {
    // The blocks and the parts are of one state of the file.
    let transaction = connection.unchecked_transaction()?;
    let Some(oldest) = block_of(&transaction, from)? else {
        return Ok(Vec::new());
    };
    let newest = match block_of(&transaction, before.saturating_sub(1))? {
        Some(block) => block.number,
        None => transaction.query_row("SELECT max(number) FROM block", [], |row| row.get(0))?,
    };
    let places = terms.places();
    let mut found = Vec::new();
    for part in (oldest.number / part_blocks..=newest / part_blocks).rev() {
        let mut blocks = part::blocks_with(&transaction, part, &places)?;
        // The newest first.
        while blocks != 0 && found.len() < count {
            let column = blocks.ilog2();
            blocks &= !(1 << column);
            let number = part * part_blocks + i64::from(column);
            if (oldest.number..=newest).contains(&number) {
                found.extend(blocks_after(&transaction, number - 1, 1)?);
            }
        }
        if found.len() >= count {
            break;
        }
    }
    Ok(found)
}
