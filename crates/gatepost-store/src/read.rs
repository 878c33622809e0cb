//! What can be read back.
//!
//! Reading takes the reader's connection for the length of one query; callers on the I/O runtime
//! use these at start and for a person's page, never per message.

use bytes::Bytes;
use gatepost_message::{MessageId, Publication};
use rusqlite::params;

use crate::{JournalEntry, Store, StoreError, rows};

impl Store {
    /// Every retained message.
    pub fn retained(&self) -> Result<Vec<Publication>, StoreError> {
        let connection = self.reader();
        let mut statement = connection
            .prepare_cached("SELECT id, topic, qos, payload, properties FROM retained")?;
        let publications = statement
            .query_map([], |row| rows::publication(row, true))?
            .collect::<rusqlite::Result<Vec<_>>>()?;
        Ok(publications.into_iter().flatten().collect())
    }

    /// The last messages of each topic's history, oldest first: at most `per_topic` of each topic
    /// and `total` in all.
    pub fn history(&self, per_topic: usize, total: usize) -> Result<Vec<Publication>, StoreError> {
        let connection = self.reader();
        let mut statement = connection.prepare_cached(
            "SELECT id, topic, qos, payload, properties FROM (
                SELECT *, row_number() OVER (PARTITION BY topic ORDER BY id DESC) AS age
                FROM (SELECT * FROM history ORDER BY id DESC LIMIT ?2)
             ) WHERE age <= ?1 ORDER BY id",
        )?;
        let publications = statement
            .query_map(params![per_topic as i64, total as i64], |row| {
                rows::publication(row, false)
            })?
            .collect::<rusqlite::Result<Vec<_>>>()?;
        Ok(publications.into_iter().flatten().collect())
    }

    /// The newest entries of the journal, newest first.
    pub fn journal_recent(&self, count: usize) -> Result<Vec<JournalEntry>, StoreError> {
        let connection = self.reader();
        let mut statement = connection.prepare_cached(&format!(
            "SELECT {} FROM journal ORDER BY id DESC LIMIT ?",
            rows::JOURNAL_COLUMNS
        ))?;
        let entries = statement
            .query_map(params![count as i64], rows::journal_entry)?
            .collect::<rusqlite::Result<Vec<_>>>()?;
        Ok(entries.into_iter().flatten().collect())
    }

    /// One message's story.
    pub fn journal_entry(&self, id: MessageId) -> Result<Option<JournalEntry>, StoreError> {
        let connection = self.reader();
        let mut statement = connection.prepare_cached(&format!(
            "SELECT {} FROM journal WHERE id = ?",
            rows::JOURNAL_COLUMNS
        ))?;
        let mut found = statement.query_map(params![rows::id_to_row(id)], rows::journal_entry)?;
        Ok(found.next().transpose()?.flatten())
    }

    /// One record of `space`.
    pub fn record(&self, space: &str, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let connection = self.reader();
        let mut statement =
            connection.prepare_cached("SELECT value FROM record WHERE space = ? AND key = ?")?;
        let mut found = statement.query_map(params![space, key], |row| row.get::<_, Vec<u8>>(0))?;
        Ok(found.next().transpose()?.map(Bytes::from))
    }

    /// The records of `space` whose key starts with `prefix`, sorted by key.
    pub fn records(&self, space: &str, prefix: &[u8]) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
        let connection = self.reader();
        let mut statement = connection.prepare_cached(
            "SELECT key, value FROM record
             WHERE space = ?1 AND key >= ?2 AND substr(key, 1, length(?2)) = ?2 ORDER BY key",
        )?;
        let records = statement
            .query_map(params![space, prefix], |row| {
                let (key, value): (Vec<u8>, Vec<u8>) = (row.get(0)?, row.get(1)?);
                Ok((Bytes::from(key), Bytes::from(value)))
            })?
            .collect::<rusqlite::Result<Vec<_>>>()?;
        Ok(records)
    }
}
