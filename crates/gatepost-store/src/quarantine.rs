//! The quarantine: what is in it, and what enters and leaves it.
//!
//! Without a cluster, the database decides. In a cluster,
//! [`SharedMailboxes`](crate::SharedMailboxes) does, and the rows are what this server has read of
//! the cluster's quarantine.

use bytes::Bytes;
use gatepost_message::{Envelope, MessageId};
use rusqlite::{OptionalExtension, params};

use crate::{
    JournalEntry, MailboxClaim, MailboxDelivery, QuarantineEntry, Store, StoreChange, StoreError,
    Ticket, rows, table,
};

impl Store {
    /// Puts a message into quarantine, with its journal entry.
    pub fn quarantine_message(&self, entry: QuarantineEntry) -> Result<Ticket, StoreError> {
        match self.inner.mailboxes.get() {
            None => self.submit([StoreChange::Quarantine(Box::new(entry))]),
            Some(cluster) => Ok(cluster.quarantine(entry)),
        }
    }

    /// Takes a message out of quarantine. The journal entry replaces its earlier one.
    pub fn unquarantine(
        &self,
        id: MessageId,
        entry: Option<JournalEntry>,
    ) -> Result<Ticket, StoreError> {
        match self.inner.mailboxes.get() {
            None => self.submit(unquarantine_changes(id, entry)),
            Some(cluster) => Ok(cluster.unquarantine(id, entry)),
        }
    }

    /// Puts a message that is released into mailboxes, and then takes it out of quarantine: in one
    /// commit, or, in a cluster, after the cluster has stored the mail. After a crash between the
    /// two, both may be repeated: a mailbox has a mail of the same id once.
    pub fn release(
        &self,
        delivery: MailboxDelivery,
        released: Option<JournalEntry>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send + use<> {
        let id = delivery.id;
        let is_shared = self.inner.mailboxes.get().is_some();
        let changes = match &released {
            Some(entry) if !is_shared => unquarantine_changes(id, Some(entry.clone())),
            _ => Vec::new(),
        };
        let delivered = self.deliver_with(delivery, changes);
        let store = self.clone();
        async move {
            delivered.await?;
            match released.filter(|_| is_shared) {
                None => Ok(()),
                Some(entry) => store.unquarantine(id, Some(entry))?.committed().await,
            }
        }
    }

    /// Claims a message in quarantine for one release, on this server or in the cluster, and waits
    /// until the database has what happened to it before. `None` if another one has it.
    pub async fn claim_quarantined(
        &self,
        id: MessageId,
    ) -> Result<Option<MailboxClaim>, StoreError> {
        match self.inner.mailboxes.get() {
            None => Ok(self.inner.claimed.claim(id)),
            Some(cluster) => cluster.claim_quarantined(id).await,
        }
    }

    /// The ids of all messages in quarantine.
    pub fn quarantine_ids(&self) -> Result<Vec<MessageId>, StoreError> {
        let connection = self.reader();
        let mut statement = connection.prepare_cached("SELECT id FROM quarantine ORDER BY id")?;
        let ids = statement.query_map([], |row| row.get(0).map(rows::id_from_row))?;
        Ok(ids.collect::<rusqlite::Result<_>>()?)
    }

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
        is_theirs: impl Fn(&Envelope, &str) -> bool,
    ) -> Result<Vec<JournalEntry>, StoreError> {
        let mut entries = self.quarantine(i64::MAX as usize)?;
        entries.retain(|entry| {
            let envelope = &entry.envelope;
            let mut recipients = envelope.recipients.iter();
            recipients.any(|recipient| is_theirs(envelope, recipient))
        });
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

/// The changes of the database that take a message out of quarantine.
fn unquarantine_changes(id: MessageId, entry: Option<JournalEntry>) -> Vec<StoreChange> {
    let replaced = entry.map(|entry| StoreChange::ReplaceJournal(Box::new(entry)));
    let changes = [StoreChange::Unquarantine(id)].into_iter();
    changes.chain(replaced).collect()
}

impl StoreChange {
    /// The changes of this server's database that take over a message in quarantine of the
    /// cluster. One of the same id is replaced, and its journal entry too.
    pub fn add_quarantined(entry: QuarantineEntry) -> [Self; 3] {
        [
            Self::Unquarantine(entry.journal.id),
            Self::ReplaceJournal(Box::new(entry.journal.clone())),
            Self::Quarantine(Box::new(entry)),
        ]
    }

    /// The changes of this server's database for a message that has left the quarantine of the
    /// cluster.
    pub fn remove_quarantined(id: MessageId, entry: Option<JournalEntry>) -> Vec<Self> {
        unquarantine_changes(id, entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_release_at_a_time_has_a_message() {
        let store = Store::in_memory().expect("a store");
        let id = MessageId::next();
        let claim = async |id| store.claim_quarantined(id).await.expect("no failure");
        let mut first = claim(id).await.expect("free");
        assert!(claim(id).await.is_none());
        assert!(claim(MessageId::next()).await.is_some());
        first.release().await.expect("released");
        let second = claim(id).await;
        assert!(second.is_some());
        drop(second);
        assert!(claim(id).await.is_some());
    }
}
