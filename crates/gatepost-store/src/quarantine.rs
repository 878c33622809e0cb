//! Looking into the quarantine.

use bytes::Bytes;
use gatepost_message::MessageId;
use rusqlite::{OptionalExtension, params};

use crate::{JournalEntry, QuarantineEntry, Store, StoreError, rows};

impl Store {
    /// The stories of the messages in quarantine, newest first, without their bodies.
    pub fn quarantine(&self, count: usize) -> Result<Vec<JournalEntry>, StoreError> {
        let connection = self.reader();
        let mut statement = connection.prepare_cached(&format!(
            "SELECT {} FROM journal WHERE id IN (SELECT id FROM quarantine) ORDER BY id DESC LIMIT ?",
            rows::JOURNAL_COLUMNS
        ))?;
        let entries = statement
            .query_map(params![count as i64], rows::journal_entry)?
            .collect::<rusqlite::Result<Vec<_>>>()?;
        Ok(entries.into_iter().flatten().collect())
    }

    /// One message in quarantine, whole.
    pub fn quarantined(&self, id: MessageId) -> Result<Option<QuarantineEntry>, StoreError> {
        let kept: Option<(Vec<u8>, Option<String>, bool)> = self
            .reader()
            .prepare_cached("SELECT body, properties, retain FROM quarantine WHERE id = ?")?
            .query_row(params![rows::id_to_row(id)], |row| row.try_into())
            .optional()?;
        let Some((body, properties, retain)) = kept else {
            return Ok(None);
        };
        Ok(self.journal_entry(id)?.map(|story| QuarantineEntry {
            story,
            body: Bytes::from(body),
            properties: rows::properties_from_text(properties),
            retain,
        }))
    }
}
