//! A part of the index: the signatures of up to 64 blocks, stored by bit.
//!
//! For each bit of a signature there is a word, in which each block of the part has one bit. So a
//! search reads one word for each bit that it requires, and not the signatures. The words are
//! stored in chunks of about a page, each with a checksum: a bit that is lost would hide entries.

use rusqlite::{Connection, OptionalExtension, params};

use super::signature::{SIGNATURE_BITS, Signature};

/// The blocks of a part, as many as a word has bits: 1,024 entries.
pub(super) const PART_BLOCKS: i64 = u64::BITS as i64;
/// The words of a chunk. A row with them fits into a page of 4,096 bytes.
const CHUNK_WORDS: usize = 504;
const CHUNK_BYTES: usize = CHUNK_WORDS * size_of::<u64>();
const CHUNKS: i64 = (SIGNATURE_BITS / CHUNK_WORDS) as i64;

/// The table of chunks; a chunk's number is that of its part times [`CHUNKS`], and its own.
pub(super) const TABLE: &str = "CREATE TABLE chunk (
    number INTEGER PRIMARY KEY,
    words BLOB NOT NULL,
    checksum INTEGER NOT NULL
);";

/// The words of a part in memory.
pub(super) struct IndexPart {
    number: i64,
    words: Vec<u64>,
}

impl IndexPart {
    /// A part without blocks.
    pub(super) fn new(number: i64) -> Self {
        Self {
            number,
            words: vec![0; SIGNATURE_BITS],
        }
    }

    /// Reads a part. It is an error if it is not there, or not as it was written.
    pub(super) fn read(connection: &Connection, number: i64) -> rusqlite::Result<Self> {
        let mut part = Self::new(number);
        for (chunk, words) in (0..).zip(part.words.chunks_exact_mut(CHUNK_WORDS)) {
            with_chunk(connection, number * CHUNKS + chunk, |bytes| {
                let stored = bytes.chunks_exact(size_of::<u64>());
                for (word, stored) in words.iter_mut().zip(stored) {
                    *word = word_in(stored);
                }
            })?;
        }
        Ok(part)
    }

    /// Sets the signature of a block, its place in the part being `column`.
    pub(super) fn set(&mut self, column: u32, signature: &Signature) {
        let bit = 1 << column;
        let of_words = self.words.chunks_exact_mut(u64::BITS as usize);
        for (words, &signature) in of_words.zip(signature.words()) {
            for (place, word) in words.iter_mut().enumerate() {
                let is_set = signature >> place & 1;
                *word = *word & !bit | is_set << column;
            }
        }
    }

    /// Writes the part.
    pub(super) fn write(&self, connection: &Connection) -> rusqlite::Result<()> {
        let mut put = connection.prepare_cached(
            "INSERT OR REPLACE INTO chunk (number, words, checksum) VALUES (?, ?, ?)",
        )?;
        let mut bytes = Vec::with_capacity(CHUNK_BYTES);
        for (chunk, words) in (0..).zip(self.words.chunks_exact(CHUNK_WORDS)) {
            bytes.clear();
            bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
            let number = self.number * CHUNKS + chunk;
            put.execute(params![number, &bytes[..], checksum(&bytes)])?;
        }
        Ok(())
    }
}

/// The blocks of a part whose signatures have bits at all of these places, which are in order: one
/// bit for each block.
pub(super) fn blocks_with(
    connection: &Connection,
    part: i64,
    places: &[usize],
) -> rusqlite::Result<u64> {
    let mut blocks = u64::MAX;
    let in_chunks = places.chunk_by(|one, other| one / CHUNK_WORDS == other / CHUNK_WORDS);
    for places in in_chunks {
        let chunk = (places[0] / CHUNK_WORDS) as i64;
        with_chunk(connection, part * CHUNKS + chunk, |bytes| {
            for place in places {
                let at = place % CHUNK_WORDS * size_of::<u64>();
                blocks &= word_in(&bytes[at..]);
            }
        })?;
        if blocks == 0 {
            break;
        }
    }
    Ok(blocks)
}

/// Removes the parts before this one.
pub(super) fn remove_before(connection: &Connection, part: i64) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM chunk WHERE number < ?", [part * CHUNKS])?;
    Ok(())
}

/// Reads a chunk. One that is not there, or not as it was written, is an error.
fn with_chunk(
    connection: &Connection,
    number: i64,
    read: impl FnOnce(&[u8]),
) -> rusqlite::Result<()> {
    let mut chunk =
        connection.prepare_cached("SELECT words, checksum FROM chunk WHERE number = ?")?;
    let is_whole = chunk
        .query_row([number], |row| {
            let bytes = row.get_ref(0)?.as_blob()?;
            let stored: i64 = row.get(1)?;
            let is_whole = bytes.len() == CHUNK_BYTES && checksum(bytes) == stored;
            if is_whole {
                read(bytes);
            }
            Ok(is_whole)
        })
        .optional()?;
    if is_whole == Some(true) {
        return Ok(());
    }
    Err(rusqlite::Error::SqliteFailure(
        rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT),
        Some("a part of the journal's index is damaged".to_owned()),
    ))
}

/// The word with which these bytes begin.
fn word_in(bytes: &[u8]) -> u64 {
    bytes
        .first_chunk()
        .map_or(0, |word| u64::from_le_bytes(*word))
}

fn checksum(bytes: &[u8]) -> i64 {
    crc32fast::hash(bytes).into()
}
