//! Queries.
//!
//! Reading takes the reader's connection for the length of one query; callers on the I/O runtime
//! use queries at the start and for an operator's page, never for each message.
//!
//! The checksum of every row is verified. A damaged one ends a query with
//! [`StoreError::DamagedRow`], unless `store.on_damage = "recover"`: then lists are continued
//! without it, and it is logged and counted.

mod journal;
mod series;
mod session;

use std::sync::atomic::Ordering;

use bytes::Bytes;
use gatepost_message::{MessageId, Publication};
use rusqlite::{Params, Row, params};

pub use journal::JournalStep;
pub use session::QueueSize;

use crate::key_range::end_of_prefix;
use crate::table::{self, StoreTable};
use crate::{OnDamage, Store, StoreError, rows};

impl Store {
    /// Every retained message.
    pub fn retained(&self) -> Result<Vec<Publication>, StoreError> {
        let mut publications = Vec::new();
        self.each_retained(|publication| publications.push(publication))?;
        Ok(publications)
    }

    /// Visits every retained message.
    pub fn each_retained(&self, visit: impl FnMut(Publication)) -> Result<(), StoreError> {
        let read = |row: &Row<'_>| rows::publication(row, true);
        self.each(&table::RETAINED, "", [], read, visit)
    }

    /// The retained messages of the next topics after `topic`, sorted by topic, and the last of
    /// these topics: at most `count`, with at most `bytes_max` bytes in total, but at least one.
    /// `None` if there is no further topic. Damaged rows are skipped.
    pub fn retained_after(
        &self,
        topic: &str,
        count: usize,
        bytes_max: u64,
    ) -> Result<Option<(Vec<Publication>, String)>, StoreError> {
        let Some(last) = self.last_retained_of(topic, count, bytes_max)? else {
            return Ok(None);
        };
        let mut publications = Vec::new();
        let read = |row: &Row<'_>| rows::publication(row, true);
        let next = "WHERE topic > ? AND topic <= ? ORDER BY topic";
        let visit = |publication| publications.push(publication);
        self.each(&table::RETAINED, next, params![topic, last], read, visit)?;
        Ok(Some((publications, last)))
    }

    /// The last topic after `topic` that belongs to the same step.
    fn last_retained_of(
        &self,
        topic: &str,
        count: usize,
        bytes_max: u64,
    ) -> Result<Option<String>, StoreError> {
        let reader = self.reader();
        let mut sizes = reader.prepare_cached(
            "SELECT topic, octet_length(payload) + coalesce(octet_length(properties), 0)
             FROM retained WHERE topic > ? ORDER BY topic LIMIT ?",
        )?;
        let mut rows = sizes.query(params![topic, count as i64])?;
        let (mut last, mut bytes) = (None, 0);
        while let Some(row) = rows.next()? {
            bytes += row.get::<_, Option<u64>>(1)?.unwrap_or_default();
            if last.is_some() && bytes > bytes_max {
                break;
            }
            // Values of another type come after all texts.
            let Ok(topic) = row.get(0) else { break };
            last = Some(topic);
        }
        Ok(last)
    }

    /// Visits the retained messages of topics after `topic` that begin with `prefix`, sorted by
    /// topic.
    pub fn each_retained_below(
        &self,
        prefix: &str,
        topic: &str,
        visit: impl FnMut(Publication),
    ) -> Result<(), StoreError> {
        let read = |row: &Row<'_>| rows::publication(row, true);
        let below = "WHERE topic > ?1 AND topic BETWEEN ?2 AND ?3 ORDER BY topic";
        let last = format!("{prefix}{}", char::MAX);
        self.each(
            &table::RETAINED,
            below,
            params![topic, prefix, last],
            read,
            visit,
        )
    }

    /// The number of topics after `topic` that retain a message.
    pub fn retained_count_after(&self, topic: &str) -> Result<u64, StoreError> {
        let connection = self.reader();
        let mut statement =
            connection.prepare_cached("SELECT count(*) FROM retained WHERE topic > ?")?;
        Ok(statement.query_row([topic], |row| row.get(0))?)
    }

    /// The last messages of each topic's history, in the order of their positions: at most
    /// `per_topic` of each topic and `total` in total.
    pub fn history(&self, per_topic: usize, total: usize) -> Result<Vec<Publication>, StoreError> {
        let mut publications = Vec::new();
        self.each_of_history(per_topic, total, |_, publication| {
            publications.push(publication);
        })?;
        Ok(publications)
    }

    /// As [`Store::history`], one after the other and with their positions.
    pub fn each_of_history(
        &self,
        per_topic: usize,
        total: usize,
        mut visit: impl FnMut(MessageId, Publication),
    ) -> Result<(), StoreError> {
        // The index alone is read and sorted; a query that also selected payloads would sort them.
        let newest = "SELECT rowid FROM (
                SELECT rowid, max(rowid, id) AS place, \
                    row_number() OVER (PARTITION BY topic ORDER BY max(rowid, id) DESC) AS age
                FROM (SELECT rowid, id, topic FROM history ORDER BY id DESC LIMIT ?2)
             ) WHERE age <= ?1 ORDER BY place";
        let row_ids = {
            let connection = self.reader();
            let mut statement = connection.prepare_cached(newest)?;
            let found =
                statement.query_map(params![per_topic as i64, total as i64], |row| row.get(0))?;
            found.collect::<Result<Vec<i64>, _>>()?
        };
        let placed = |row: &Row<'_>| {
            let publication = rows::publication(row, false)?;
            let place = row.get::<_, i64>(table::HISTORY.columns.len() + 1)? as u64;
            // Rows of earlier versions have small row ids.
            Ok(publication.map(|one| (MessageId::from_number(place.max(one.id.number())), one)))
        };
        let sql = format!(
            "SELECT {}, rowid FROM history WHERE rowid = ?",
            table::HISTORY.selected
        );
        for row_id in row_ids {
            let visit = |(position, publication)| visit(position, publication);
            self.each_of(&table::HISTORY, &sql, [row_id], placed, visit)?;
        }
        Ok(())
    }

    /// One record of `space`.
    pub fn record(&self, space: &str, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let connection = self.reader();
        let table = &*table::RECORD;
        let mut statement = connection.prepare_cached(&format!(
            "SELECT {} FROM record WHERE space = ? AND key = ?",
            table.selected
        ))?;
        let mut found = statement.query(params![space, key])?;
        let Some(row) = found.next()? else {
            return Ok(None);
        };
        // If it were skipped, it would appear deleted: a mail would be lost, a user unknown.
        if !table.is_whole(row)? {
            self.count_damaged(table);
            return Err(StoreError::DamagedRow { table: table.name });
        }
        Ok(Some(Bytes::from(row.get::<_, Vec<u8>>(2)?)))
    }

    /// The records of `space` whose key starts with `prefix`, sorted by key.
    pub fn records(&self, space: &str, prefix: &[u8]) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
        let mut records = Vec::new();
        self.each_record(space, prefix, |key, value| records.push((key, value)))?;
        Ok(records)
    }

    /// Visits the records of `space` whose key starts with `prefix`, sorted by key. The visitor
    /// must not read from the store.
    pub fn each_record(
        &self,
        space: &str,
        prefix: &[u8],
        mut visit: impl FnMut(Bytes, Bytes),
    ) -> Result<(), StoreError> {
        let read = |row: &Row<'_>| {
            let (key, value): (Vec<u8>, Vec<u8>) = (row.get(1)?, row.get(2)?);
            Ok(Some((Bytes::from(key), Bytes::from(value))))
        };
        let visit = |(key, value)| visit(key, value);
        let Some(end) = end_of_prefix(prefix) else {
            let condition = "WHERE space = ? AND key >= ? ORDER BY key";
            return self.each(
                &table::RECORD,
                condition,
                params![space, prefix],
                read,
                visit,
            );
        };
        let condition = "WHERE space = ? AND key >= ? AND key < ? ORDER BY key";
        self.each(
            &table::RECORD,
            condition,
            params![space, prefix, end],
            read,
            visit,
        )
    }

    /// The keys of the records of `space`, sorted; their values are not read.
    pub(crate) fn record_keys(&self, space: &str) -> Result<Vec<Vec<u8>>, StoreError> {
        let connection = self.reader();
        let mut statement =
            connection.prepare_cached("SELECT key FROM record WHERE space = ? ORDER BY key")?;
        let keys = statement.query_map(params![space], |row| row.get(0))?;
        Ok(keys.collect::<rusqlite::Result<_>>()?)
    }

    /// Visits the intact rows of a table. Rows that no version of Gatepost wrote are skipped.
    pub(crate) fn each<T>(
        &self,
        table: &StoreTable,
        condition: &str,
        params: impl Params,
        read: impl Fn(&Row<'_>) -> rusqlite::Result<Option<T>>,
        visit: impl FnMut(T),
    ) -> Result<(), StoreError> {
        let sql = format!("SELECT {} FROM {} {condition}", table.selected, table.name);
        self.each_of(table, &sql, params, read, visit)
    }

    /// The same for a query that selects more columns after [`StoreTable::selected`].
    fn each_of<T>(
        &self,
        table: &StoreTable,
        sql: &str,
        params: impl Params,
        read: impl Fn(&Row<'_>) -> rusqlite::Result<Option<T>>,
        mut visit: impl FnMut(T),
    ) -> Result<(), StoreError> {
        let connection = self.reader();
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query(params)?;
        while let Some(row) = rows.next()? {
            if !table.is_whole(row)? {
                self.pass_over_damaged(table)?;
                continue;
            }
            if let Some(value) = rows::skip_foreign(read(row))? {
                visit(value);
            }
        }
        Ok(())
    }

    fn pass_over_damaged(&self, table: &StoreTable) -> Result<(), StoreError> {
        self.count_damaged(table);
        match self.inner.on_damage {
            OnDamage::Recover => Ok(()),
            OnDamage::Refuse => Err(StoreError::DamagedRow { table: table.name }),
        }
    }

    fn count_damaged(&self, table: &StoreTable) {
        self.inner
            .health
            .damaged_rows
            .fetch_add(1, Ordering::Relaxed);
        tracing::error!(
            target: "store",
            table = table.name,
            "the checksum of a row is wrong: the disk altered it",
        );
    }
}
