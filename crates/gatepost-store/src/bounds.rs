//! Limits in bytes and rows for the history, the quarantine and the journal.
//!
//! The sums are counted once at the start and then follow every change, so that a commit never
//! counts rows. They are part of a commit: if a commit exceeds a limit, the oldest rows are removed
//! in the same transaction, and a commit that fails changes no sum. The newest message is always
//! kept.
//!
//! A transaction removes a bounded number of rows: a few more than it adds, so that a table that is
//! far beyond its limit, after the limit was lowered or much became too old, reaches it in steps
//! between which other changes are committed. Removing all at once, or once a minute, would keep
//! every commit waiting for seconds.
//!
//! A command in another process can remove rows while the server runs. SQLite reports that another
//! connection has changed the file; the sums are then counted again, in the pass over old rows.

use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension, Params, ToSql};

use crate::StoreSettings;

/// The interval of log lines about messages that leave the quarantine early.
const WARN_EVERY: Duration = Duration::from_mins(1);
/// Rows that one transaction removes from a table, besides twice as many as it adds.
pub(crate) const STEP_ROWS: u64 = 1_000;
/// A commit removes rows only once a table exceeds its limit by this share of it, or by this many
/// rows: removed together, they cost less than one in each commit.
const EXCESS_SHARE: u64 = 64;
const EXCESS_ROWS_MAX: u64 = 256;

/// A table whose rows are limited.
pub(crate) struct LimitedTable {
    table: &'static str,
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
/// Only its rows are limited.
pub(crate) const JOURNAL: LimitedTable = LimitedTable {
    table: "journal",
    bytes: "0",
};

/// The size of a table, or of a part of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TableTotals {
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
}

impl TableTotals {
    /// Adds one row.
    pub(crate) const fn add(&mut self, bytes: u64) {
        self.rows += 1;
        self.bytes += bytes;
    }

    pub(crate) const fn remove(&mut self, removed: Self) {
        self.rows = self.rows.saturating_sub(removed.rows);
        self.bytes = self.bytes.saturating_sub(removed.bytes);
    }

    /// The part beyond a limit.
    const fn beyond(self, limit: Self) -> Self {
        Self {
            rows: self.rows.saturating_sub(limit.rows),
            bytes: self.bytes.saturating_sub(limit.bytes),
        }
    }

    const fn is_none(self) -> bool {
        self.rows == 0 && self.bytes == 0
    }
}

impl LimitedTable {
    fn count(&self, connection: &Connection) -> rusqlite::Result<TableTotals> {
        let sql = format!(
            "SELECT count(*), coalesce(sum({}), 0) FROM {}",
            self.bytes, self.table
        );
        connection.query_row(&sql, [], |row| {
            Ok(TableTotals {
                rows: row.get(0)?,
                bytes: row.get(1)?,
            })
        })
    }

    /// Removes the rows that match this condition with these values.
    pub(crate) fn delete(
        &self,
        connection: &Connection,
        condition: &str,
        values: impl Params,
    ) -> rusqlite::Result<TableTotals> {
        let sql = format!(
            "DELETE FROM {} WHERE {condition} RETURNING {}",
            self.table, self.bytes
        );
        let mut statement = connection.prepare_cached(&sql)?;
        let mut removed = TableTotals::default();
        for bytes in statement.query_map(values, |row| row.get::<_, u64>(0))? {
            removed.add(bytes?);
        }
        Ok(removed)
    }

    /// Removes the oldest [`STEP_ROWS`] of the rows that match this condition with these values,
    /// and the other rows of the last message; returns whether there may be more.
    pub(crate) fn delete_step(
        &self,
        connection: &Connection,
        condition: &str,
        values: &[&dyn ToSql],
        kept: &mut TableTotals,
    ) -> rusqlite::Result<bool> {
        let sql = format!(
            "SELECT id FROM {} WHERE {condition} ORDER BY id LIMIT 1 OFFSET {}",
            self.table,
            STEP_ROWS - 1
        );
        let mut statement = connection.prepare_cached(&sql)?;
        let last: Option<i64> = statement.query_row(values, |row| row.get(0)).optional()?;
        let removed = match last {
            Some(last) => {
                let condition = format!("{condition} AND id <= ?");
                let values = values.iter().copied().chain([&last as &dyn ToSql]);
                self.delete(connection, &condition, rusqlite::params_from_iter(values))?
            }
            None => self.delete(connection, condition, values)?,
        };
        kept.remove(removed);
        Ok(last.is_some())
    }

    /// Removes the oldest messages until as much is removed as `excess`, or `rows_max` rows;
    /// returns the number of messages too. The newest one stays, unless none may.
    fn delete_oldest(
        &self,
        connection: &Connection,
        excess: TableTotals,
        rows_max: u64,
        newest_stays: bool,
    ) -> rusqlite::Result<(TableTotals, u64)> {
        let table = self.table;
        let bytes = if excess.bytes > 0 { self.bytes } else { "0" };
        let condition = if newest_stays {
            format!("id < (SELECT max(id) FROM {table})")
        } else {
            "true".to_owned()
        };
        let sql = format!(
            "SELECT id, count(*), sum({bytes}) FROM {table} WHERE {condition} \
             GROUP BY id ORDER BY id"
        );
        let (mut found, mut messages, mut last) = (TableTotals::default(), 0, None);
        let mut statement = connection.prepare_cached(&sql)?;
        let mut rows = statement.query([])?;
        while (found.rows < excess.rows || found.bytes < excess.bytes)
            && found.rows < rows_max
            && let Some(row) = rows.next()?
        {
            last = Some(row.get::<_, i64>(0)?);
            found.rows += row.get::<_, u64>(1)?;
            found.bytes += row.get::<_, u64>(2)?;
            messages += 1;
        }
        drop(rows);
        match last {
            Some(last) => Ok((self.delete(connection, "id <= ?", [last])?, messages)),
            None => Ok((TableTotals::default(), 0)),
        }
    }
}

/// The sizes of the limited tables, or their limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct KeptTotals {
    pub(crate) history: TableTotals,
    pub(crate) quarantine: TableTotals,
    pub(crate) journal: TableTotals,
}

impl KeptTotals {
    const fn limits(settings: &StoreSettings) -> Self {
        Self {
            history: TableTotals {
                rows: settings.history_messages_max,
                bytes: settings.history_bytes_max.bytes(),
            },
            quarantine: TableTotals {
                rows: settings.quarantine_messages_max,
                bytes: settings.quarantine_bytes_max.bytes(),
            },
            journal: TableTotals {
                rows: settings.journal_entries_max,
                bytes: u64::MAX,
            },
        }
    }

    fn count(connection: &Connection) -> rusqlite::Result<Self> {
        Ok(Self {
            history: HISTORY.count(connection)?,
            quarantine: QUARANTINE.count(connection)?,
            journal: JOURNAL.count(connection)?,
        })
    }
}

/// The excess of rows that a transaction leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Excess {
    /// A small share of a limit.
    Share,
    None,
}

/// The sums of a server, and their limits.
pub(crate) struct TableBounds {
    kept: KeptTotals,
    limits: KeptTotals,
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
            kept: KeptTotals::count(connection)?,
            limits: KeptTotals::limits(settings),
            data_version: data_version(connection)?,
            leaving_early: 0,
            left_early: 0,
            warned: None,
        })
    }

    pub(crate) const fn kept(&self) -> KeptTotals {
        self.kept
    }

    /// Removes rows within the transaction until the sums in `kept` are within the limits, or a
    /// step's rows are removed; returns whether more have to be.
    pub(crate) fn enforce(
        &mut self,
        transaction: &Connection,
        kept: &mut KeptTotals,
        left: Excess,
    ) -> rusqlite::Result<bool> {
        let (before, limits) = (self.kept, self.limits);
        let enforce = |table: &LimitedTable, before: TableTotals, limit, kept: &mut TableTotals| {
            let added = kept.rows.saturating_sub(before.rows);
            enforce_limit(table, transaction, limit, left, STEP_ROWS + 2 * added, kept)
        };
        let history = enforce(&HISTORY, before.history, limits.history, &mut kept.history)?;
        let journal = enforce(&JOURNAL, before.journal, limits.journal, &mut kept.journal)?;
        let quarantine = enforce(
            &QUARANTINE,
            before.quarantine,
            limits.quarantine,
            &mut kept.quarantine,
        )?;
        self.leaving_early = quarantine.for_bytes;
        Ok(history.is_exceeded || journal.is_exceeded || quarantine.is_exceeded)
    }

    /// Adopts the sums of a committed transaction.
    pub(crate) fn committed(&mut self, kept: KeptTotals) {
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
        self.limits = KeptTotals::limits(settings);
        let version = data_version(connection)?;
        if version != self.data_version {
            self.kept = KeptTotals::count(connection)?;
            self.data_version = version;
        }
        Ok(())
    }
}

/// The result of enforcing one table's limit.
#[derive(Default)]
struct Enforced {
    /// Messages that were removed because of their bytes.
    for_bytes: u64,
    /// More has to be removed.
    is_exceeded: bool,
}

fn enforce_limit(
    table: &LimitedTable,
    transaction: &Connection,
    limit: TableTotals,
    left: Excess,
    rows_max: u64,
    kept: &mut TableTotals,
) -> rusqlite::Result<Enforced> {
    let mut excess = kept.beyond(limit);
    if left == Excess::Share && excess.rows <= (limit.rows / EXCESS_SHARE).min(EXCESS_ROWS_MAX) {
        excess.rows = 0;
    }
    if excess.is_none() {
        return Ok(Enforced::default());
    }
    let newest_stays = limit.rows > 0;
    let (removed, messages) = table.delete_oldest(transaction, excess, rows_max, newest_stays)?;
    kept.remove(removed);
    Ok(Enforced {
        for_bytes: if excess.bytes > 0 { messages } else { 0 },
        is_exceeded: removed.rows > 0 && !excess.beyond(removed).is_none(),
    })
}

/// Changes whenever another connection has committed; this connection's own commits do not change
/// it.
fn data_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "data_version", |row| row.get(0))
}
