//! Limits in bytes for the history and the quarantine.
//!
//! The sums are counted once at the start and then follow every change, so that a commit never
//! counts rows. They are part of a commit: if a commit exceeds a limit, the oldest rows are removed
//! in the same transaction, and a commit that fails changes no sum. The newest message is always
//! kept.
//!
//! A command in another process can remove rows while the server runs. SQLite reports that another
//! connection has changed the file; the sums are then counted again, in the pass over old rows.

use std::time::{Duration, Instant};

use rusqlite::{Connection, Params};

use crate::StoreSettings;

/// The interval of log lines about messages that leave the quarantine early.
const WARN_EVERY: Duration = Duration::from_mins(1);

/// A table whose rows are limited.
pub(crate) struct LimitedTable {
    pub(crate) table: &'static str,
    /// The bytes of a row that count, in SQL.
    bytes: &'static str,
}

pub(crate) const HISTORY: LimitedTable = LimitedTable {
    table: "history",
    bytes: "octet_length(topic) + octet_length(payload) + coalesce(octet_length(properties), 0)",
};
pub(crate) const QUARANTINE: LimitedTable = LimitedTable {
    table: "quarantine",
    bytes: "octet_length(body) + coalesce(octet_length(properties), 0)",
};

impl LimitedTable {
    fn count(&self, connection: &Connection) -> rusqlite::Result<u64> {
        let sql = format!(
            "SELECT coalesce(sum({}), 0) FROM {}",
            self.bytes, self.table
        );
        connection.query_row(&sql, [], |row| row.get(0))
    }

    /// Removes the rows that match this condition with these values; returns their bytes.
    pub(crate) fn delete(
        &self,
        connection: &Connection,
        condition: &str,
        values: impl Params,
    ) -> rusqlite::Result<u64> {
        let sql = format!(
            "DELETE FROM {} WHERE {condition} RETURNING {}",
            self.table, self.bytes
        );
        let mut statement = connection.prepare_cached(&sql)?;
        let mut removed = 0;
        for bytes in statement.query_map(values, |row| row.get::<_, u64>(0))? {
            removed += bytes?;
        }
        Ok(removed)
    }

    /// Removes the oldest messages until this many bytes are freed; returns the number of bytes and
    /// messages.
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
            Some(last) => Ok((self.delete(connection, "id <= ?", [last])?, messages)),
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
    const fn limits(settings: &StoreSettings) -> Self {
        Self {
            history: settings.history_bytes_max.bytes(),
            quarantine: settings.quarantine_bytes_max.bytes(),
        }
    }

    fn count(connection: &Connection) -> rusqlite::Result<Self> {
        Ok(Self {
            history: HISTORY.count(connection)?,
            quarantine: QUARANTINE.count(connection)?,
        })
    }
}

/// The sums of a server, and their limits.
pub(crate) struct TableBounds {
    kept: KeptBytes,
    limits: KeptBytes,
    /// SQLite's number of the state that the sums were counted in.
    data_version: i64,
    /// Messages that the present transaction takes out of the quarantine early.
    leaving_early: u64,
    /// Messages that left it early, since the last line in the log.
    left_early: u64,
    warned: Option<Instant>,
}

impl TableBounds {
    pub(crate) fn open(
        connection: &Connection,
        settings: &StoreSettings,
    ) -> rusqlite::Result<Self> {
        Ok(Self {
            kept: KeptBytes::count(connection)?,
            limits: KeptBytes::limits(settings),
            data_version: data_version(connection)?,
            leaving_early: 0,
            left_early: 0,
            warned: None,
        })
    }

    pub(crate) const fn kept(&self) -> KeptBytes {
        self.kept
    }

    /// Removes rows within the transaction until the sums in `kept` are within the limits.
    pub(crate) fn enforce(
        &mut self,
        transaction: &Connection,
        kept: &mut KeptBytes,
    ) -> rusqlite::Result<()> {
        self.leaving_early = 0;
        let over = kept.history.saturating_sub(self.limits.history);
        if over > 0 {
            let (removed, _) = HISTORY.delete_oldest(transaction, over)?;
            kept.history = kept.history.saturating_sub(removed);
        }
        let over = kept.quarantine.saturating_sub(self.limits.quarantine);
        if over > 0 {
            let (removed, messages) = QUARANTINE.delete_oldest(transaction, over)?;
            kept.quarantine = kept.quarantine.saturating_sub(removed);
            self.leaving_early = messages;
        }
        Ok(())
    }

    /// Adopts the sums of a committed transaction.
    pub(crate) fn committed(&mut self, kept: KeptBytes) {
        self.kept = kept;
        self.left_early += std::mem::take(&mut self.leaving_early);
        if self.left_early > 0 {
            self.warn();
        }
    }

    /// Logs immediately that messages were removed early, and then once a minute their number.
    fn warn(&mut self) {
        let is_recent = |warned: Instant| warned.elapsed() < WARN_EVERY;
        if self.warned.is_some_and(is_recent) {
            return;
        }
        tracing::warn!(
            target: "store", messages = self.left_early,
            "the quarantine is full: its oldest messages were removed before their age \
             (store.quarantine_bytes_max)"
        );
        self.left_early = 0;
        self.warned = Some(Instant::now());
    }

    /// Counts again if another process has changed the file; a reload may have changed the limits.
    pub(crate) fn review(
        &mut self,
        connection: &Connection,
        settings: &StoreSettings,
    ) -> rusqlite::Result<()> {
        self.limits = KeptBytes::limits(settings);
        let version = data_version(connection)?;
        if version != self.data_version {
            self.kept = KeptBytes::count(connection)?;
            self.data_version = version;
        }
        Ok(())
    }
}

/// Changes whenever another connection has committed; this connection's own commits do not change
/// it.
fn data_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "data_version", |row| row.get(0))
}
