//! The writer: one thread that turns groups of changes into commits.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use gatepost_message::MessageId;
use parking_lot::Mutex;
use rusqlite::{Connection, params};

use crate::group::Group;
use crate::rows;
use crate::session::Cancelled;
use crate::{Change, JournalEntry, StoreError, StoreSettings};

/// How often what is too old is removed. Each pass is one more delete per table, cheap by index.
const TRIM_EVERY: Duration = Duration::from_mins(1);

pub(crate) struct Writer {
    connection: Arc<Mutex<Connection>>,
    settings: StoreSettings,
    trimmed: Instant,
}

impl Writer {
    pub(crate) fn new(connection: Arc<Mutex<Connection>>, settings: StoreSettings) -> Self {
        Self {
            connection,
            settings,
            trimmed: Instant::now(),
        }
    }

    /// Commits one group and tells its tickets.
    pub(crate) fn commit(&mut self, changes: &[Change], group: &Group) {
        let outcome = self.apply(changes);
        if let Err(error) = &outcome {
            tracing::error!(target: "store", changes = changes.len(), %error, "a group of changes was not stored");
        }
        group.decide(outcome.map_err(StoreError::from));
        if self.trimmed.elapsed() >= TRIM_EVERY {
            self.trimmed = Instant::now();
            if let Err(error) = self.trim() {
                tracing::warn!(target: "store", %error, "what is too old could not be removed");
            }
        }
    }

    fn apply(&self, changes: &[Change]) -> rusqlite::Result<()> {
        let mut connection = self.connection.lock();
        let transaction = connection.transaction()?;
        let cancelled = Cancelled::find(changes);
        for change in changes {
            if !cancelled.covers(change) {
                apply_one(&transaction, change)?;
            }
        }
        transaction.commit()
    }

    /// Removes what is older, or more, than the settings allow.
    fn trim(&self) -> rusqlite::Result<()> {
        let settings = &self.settings;
        let before = |age: Duration| {
            let time = SystemTime::now()
                .checked_sub(age)
                .unwrap_or(SystemTime::UNIX_EPOCH);
            rows::id_to_row(MessageId::floor_at(time))
        };
        let connection = self.connection.lock();
        for (table, age, count) in [
            (
                "history",
                settings.history_age_max,
                settings.history_messages_max,
            ),
            (
                "journal",
                settings.journal_age_max,
                settings.journal_entries_max,
            ),
            ("quarantine", settings.quarantine_age_max, u64::MAX >> 1),
        ] {
            connection
                .prepare_cached(&format!("DELETE FROM {table} WHERE id < ?"))?
                .execute(params![before(age.duration())])?;
            connection
                .prepare_cached(&format!(
                    "DELETE FROM {table} WHERE id <= (SELECT id FROM {table} ORDER BY id DESC LIMIT 1 OFFSET ?)"
                ))?
                .execute(params![count as i64])?;
        }
        Ok(())
    }
}

fn apply_one(connection: &Connection, change: &Change) -> rusqlite::Result<()> {
    match change {
        Change::Retain(publication) => connection
            .prepare_cached(
                "INSERT OR REPLACE INTO retained (topic, id, qos, payload, properties) VALUES (?, ?, ?, ?, ?)",
            )?
            .execute(params![
                publication.topic.as_str(),
                rows::id_to_row(publication.id),
                publication.qos.level(),
                &publication.payload[..],
                rows::properties_to_text(publication.properties.as_deref()),
            ]),
        Change::Unretain(topic) => connection
            .prepare_cached("DELETE FROM retained WHERE topic = ?")?
            .execute(params![topic.as_str()]),
        Change::History(publication) => connection
            .prepare_cached(
                "INSERT OR REPLACE INTO history (id, topic, qos, payload, properties) VALUES (?, ?, ?, ?, ?)",
            )?
            .execute(params![
                rows::id_to_row(publication.id),
                publication.topic.as_str(),
                publication.qos.level(),
                &publication.payload[..],
                rows::properties_to_text(publication.properties.as_deref()),
            ]),
        Change::Quarantine(entry) => {
            insert_journal_entry(connection, &entry.story)?;
            connection
                .prepare_cached(
                    "INSERT OR REPLACE INTO quarantine (id, body, properties, retain) VALUES (?, ?, ?, ?)",
                )?
                .execute(params![
                    rows::id_to_row(entry.story.id),
                    &entry.body[..],
                    rows::properties_to_text(entry.properties.as_deref()),
                    entry.retain,
                ])
        }
        Change::Unquarantine(id) => connection
            .prepare_cached("DELETE FROM quarantine WHERE id = ?")?
            .execute(params![rows::id_to_row(*id)]),
        Change::Journal(entry) => insert_journal_entry(connection, entry),
        Change::Session(change) => return change.apply(connection),
        Change::PutRecord { space, key, value } => connection
            .prepare_cached("INSERT OR REPLACE INTO record (space, key, value) VALUES (?, ?, ?)")?
            .execute(params![space, &key[..], &value[..]]),
        Change::DeleteRecord { space, key } => connection
            .prepare_cached("DELETE FROM record WHERE space = ? AND key = ?")?
            .execute(params![space, &key[..]]),
        Change::DeleteRecords { space, prefix } => connection
            .prepare_cached("DELETE FROM record WHERE space = ?1 AND substr(key, 1, length(?2)) = ?2 AND key >= ?2")?
            .execute(params![space, &prefix[..]]),
    }?;
    Ok(())
}

fn insert_journal_entry(connection: &Connection, entry: &JournalEntry) -> rusqlite::Result<usize> {
    let envelope = &entry.envelope;
    connection
        .prepare_cached(&format!(
            "INSERT OR REPLACE INTO journal ({}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            rows::JOURNAL_COLUMNS
        ))?
        .execute(params![
            rows::id_to_row(entry.id),
            envelope.listener.name(),
            envelope.peer.to_string(),
            envelope.client,
            envelope.user,
            envelope.sender,
            rows::recipients_to_text(&envelope.recipients),
            entry.topic.as_ref().map(gatepost_message::Topic::as_str),
            entry.subject,
            entry.size as i64,
            entry.action.name(),
            entry.score.map(|score| score.value),
            entry.score.map(|score| score.required),
            rows::hits_to_text(&entry.hits),
            entry.reason,
            entry.procedure,
            entry.duration.as_micros() as i64,
            entry.deliveries as i64,
            rows::topics_to_text(&entry.topics),
        ])
}
