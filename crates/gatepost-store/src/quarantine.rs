//! Reading the quarantine.

use bytes::Bytes;
use gatepost_message::MessageId;
use rusqlite::{OptionalExtension, params};

use crate::{JournalEntry, QuarantineEntry, Store, StoreError, rows, table};

impl Store {
    /// The journal entries of quarantined messages, newest first, without their bodies.
    pub fn quarantine(&self, count: usize) -> Result<Vec<JournalEntry>, StoreError> {
        self.quarantine_page(0, count)
    }

    /// The same of those after the first `skip`.
    pub fn quarantine_page(
        &self,
        skip: usize,
        count: usize,
    ) -> Result<Vec<JournalEntry>, StoreError> {
        let bound = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.journal_where(
            "WHERE id IN (SELECT id FROM quarantine) ORDER BY id DESC LIMIT ? OFFSET ?",
            params![bound(count), bound(skip)],
        )
    }

    /// The journal entries of quarantined messages that arrived after this one, oldest first.
    pub fn quarantine_after(
        &self,
        id: MessageId,
        count: usize,
    ) -> Result<Vec<JournalEntry>, StoreError> {
        self.journal_where(
            "WHERE id IN (SELECT id FROM quarantine WHERE id > ?1) ORDER BY id LIMIT ?2",
            params![
                rows::id_to_row(id),
                i64::try_from(count).unwrap_or(i64::MAX)
            ],
        )
    }

    /// The number of messages in quarantine.
    pub fn quarantine_count(&self) -> Result<usize, StoreError> {
        let connection = self.reader();
        let mut statement = connection.prepare_cached("SELECT count(*) FROM quarantine")?;
        Ok(statement.query_row([], |row| row.get::<_, i64>(0))? as usize)
    }

    /// One complete message in quarantine.
    pub fn quarantined(&self, id: MessageId) -> Result<Option<QuarantineEntry>, StoreError> {
        let mut found: Option<(Vec<u8>, Option<String>, bool)> = None;
        self.each(
            &table::QUARANTINE,
            "WHERE id = ?",
            params![rows::id_to_row(id)],
            |row| Ok(Some((row.get(1)?, row.get(2)?, row.get(3)?))),
            |row| found = Some(row),
        )?;
        let Some((body, properties, retain)) = found else {
            return Ok(None);
        };
        Ok(self.journal_entry(id)?.map(|journal| QuarantineEntry {
            journal,
            body: Bytes::from(body),
            properties: rows::properties_from_text(properties),
            retain,
        }))
    }

    /// The journal entries of quarantined mail for one of these recipients, oldest first.
    pub fn quarantine_of(
        &self,
        is_theirs: impl Fn(&str) -> bool,
    ) -> Result<Vec<JournalEntry>, StoreError> {
        let mut entries = self.quarantine(i64::MAX as usize)?;
        entries.retain(|entry| entry.envelope.recipients.iter().any(|it| is_theirs(it)));
        entries.reverse();
        Ok(entries)
    }

    /// The size of a quarantined message; `None` if it was released or deleted.
    pub fn quarantined_size(&self, id: MessageId) -> Result<Option<u64>, StoreError> {
        let connection = self.reader();
        let mut statement =
            connection.prepare_cached("SELECT length(body) FROM quarantine WHERE id = ?")?;
        let size = statement.query_row(params![rows::id_to_row(id)], |row| row.get::<_, i64>(0));
        Ok(size.optional()?.map(|size| size as u64))
    }
}
