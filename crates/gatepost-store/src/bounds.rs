//! Limits in bytes for what the history and the quarantine keep.
//!
//! The sums are counted once at the start and then follow every change, so that a commit never
//! counts rows. They are part of a commit: what one adds beyond a limit makes the oldest rows leave
//! in the same transaction, and a commit that fails changes no sum. The newest message always
//! stays.
//!
//! A command in another process can remove rows while the server runs. SQLite says when another
//! connection has changed the file; the sums are then counted again, in the pass over old rows.

use rusqlite::{Connection, params};

use crate::StoreSettings;

/// A table whose rows are limited.
pub(crate) struct Limited {
    pub(crate) table: &'static str,
    /// The bytes of a row that count, in SQL.
    bytes: &'static str,
}

pub(crate) const HISTORY: Limited = Limited {
    table: "history",
    bytes: "octet_length(topic) + octet_length(payload) + coalesce(octet_length(properties), 0)",
};
pub(crate) const QUARANTINE: Limited = Limited {
    table: "quarantine",
    bytes: "octet_length(body) + coalesce(octet_length(properties), 0)",
};

impl Limited {
    fn count(&self, connection: &Connection) -> rusqlite::Result<u64> {
        let sql = format!(
            "SELECT coalesce(sum({}), 0) FROM {}",
            self.bytes, self.table
        );
        connection.query_row(&sql, [], |row| row.get(0))
    }

    /// Removes the rows that this condition names; their bytes.
    pub(crate) fn delete(
        &self,
        connection: &Connection,
        condition: &str,
        value: i64,
    ) -> rusqlite::Result<u64> {
        let sql = format!(
            "DELETE FROM {} WHERE {condition} RETURNING {}",
            self.table, self.bytes
        );
        let mut statement = connection.prepare_cached(&sql)?;
        let mut removed = 0;
        for bytes in statement.query_map(params![value], |row| row.get::<_, u64>(0))? {
            removed += bytes?;
        }
        Ok(removed)
    }

    /// Removes the oldest messages until so many bytes are gone; how many bytes and messages these
    /// were.
    fn delete_oldest(
        &self,
        connection: &Connection,
        bytes_over: u64,
    ) -> rusqlite::Result<(u64, u64)> {
        let Self { table, bytes } = self;
        let sql = format!(
            "SELECT id, sum({bytes}) FROM {table} WHERE id < (SELECT max(id) FROM {table}) \
             GROUP BY id ORDER BY id"
        );
        let (mut found, mut messages, mut last) = (0, 0, None);
        let mut statement = connection.prepare_cached(&sql)?;
        let mut rows = statement.query([])?;
        while found < bytes_over
            && let Some(row) = rows.next()?
        {
            last = Some(row.get::<_, i64>(0)?);
            found += row.get::<_, u64>(1)?;
            messages += 1;
        }
        drop(rows);
        match last {
            Some(last) => Ok((self.delete(connection, "id <= ?", last)?, messages)),
            None => Ok((0, 0)),
        }
    }
}

/// Kept data, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct KeptBytes {
    pub(crate) history: u64,
    pub(crate) quarantine: u64,
}

impl KeptBytes {
    fn count(connection: &Connection) -> rusqlite::Result<Self> {
        Ok(Self {
            history: HISTORY.count(connection)?,
            quarantine: QUARANTINE.count(connection)?,
        })
    }
}

/// The sums of a server, and their limits.
pub(crate) struct Bounds {
    kept: KeptBytes,
    limits: KeptBytes,
    /// SQLite's number of the state that the sums were counted in.
    data_version: i64,
    /// Messages that left the quarantine early, since the last line in the log.
    released_early: u64,
}

impl Bounds {
    pub(crate) fn open(
        connection: &Connection,
        settings: &StoreSettings,
    ) -> rusqlite::Result<Self> {
        Ok(Self {
            kept: KeptBytes::count(connection)?,
            limits: KeptBytes {
                history: settings.history_bytes_max.bytes(),
                quarantine: settings.quarantine_bytes_max.bytes(),
            },
            data_version: data_version(connection)?,
            released_early: 0,
        })
    }

    pub(crate) const fn kept(&self) -> KeptBytes {
        self.kept
    }

    /// Removes within the transaction what is over the limits of the sums in `kept`.
    pub(crate) fn enforce(
        &mut self,
        transaction: &Connection,
        kept: &mut KeptBytes,
    ) -> rusqlite::Result<()> {
        let over = kept.history.saturating_sub(self.limits.history);
        if over > 0 {
            let (removed, _) = HISTORY.delete_oldest(transaction, over)?;
            kept.history = kept.history.saturating_sub(removed);
        }
        let over = kept.quarantine.saturating_sub(self.limits.quarantine);
        if over > 0 {
            let (removed, messages) = QUARANTINE.delete_oldest(transaction, over)?;
            kept.quarantine = kept.quarantine.saturating_sub(removed);
            self.released_early += messages;
        }
        Ok(())
    }

    /// Takes over the sums of a transaction that has been committed.
    pub(crate) const fn committed(&mut self, kept: KeptBytes) {
        self.kept = kept;
    }

    /// Counts again if another process has changed the file; says what was removed early.
    pub(crate) fn review(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let version = data_version(connection)?;
        if version != self.data_version {
            self.kept = KeptBytes::count(connection)?;
            self.data_version = version;
        }
        if self.released_early > 0 {
            tracing::warn!(
                target: "store", messages = self.released_early,
                "the quarantine is full: its oldest messages were removed before their age \
                 (store.quarantine_bytes_max)"
            );
            self.released_early = 0;
        }
        Ok(())
    }
}

/// Changes whenever another connection has committed; our own commits leave it.
fn data_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "data_version", |row| row.get(0))
}
