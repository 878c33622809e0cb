//! Reading the quarantine.

use bytes::Bytes;
use gatepost_message::MessageId;
use rusqlite::params;

use crate::{JournalEntry, QuarantineEntry, Store, StoreError, rows, table};

impl Store {
    /// The journal entries of quarantined messages, newest first, without their bodies.
    pub fn quarantine(&self, count: usize) -> Result<Vec<JournalEntry>, StoreError> {
        self.journal_where(
            "WHERE id IN (SELECT id FROM quarantine) ORDER BY id DESC LIMIT ?",
            params![count as i64],
        )
    }

    /// One message in quarantine, whole.
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
}
