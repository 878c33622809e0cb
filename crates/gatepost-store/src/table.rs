//! The tables as they are written and read: columns, keys, and the checksum of each row.
//!
//! Every row ends with a CRC-32 of its other columns. It is computed when the row is written, and
//! checked whenever the row is read, by the [scrub](crate::watch) and by a
//! [recovery](crate::recovery), so that bytes altered by a disk are detected. Rows of earlier
//! versions have no checksum (NULL) and are read without a check.
//!
//! An *added* row must be new. If a row with its key exists, adding it again changes nothing if
//! both are equal, and is an error ([`StoreError::Collision`]) if they differ: the earlier one was
//! acknowledged to its sender. A row that is *set* replaces an earlier one by intention.

use std::sync::LazyLock;

use rusqlite::types::ValueRef;
use rusqlite::{Row, ToSql};

use crate::StoreError;
use crate::checksum::{Checksum, checksum_of_parameters};
use crate::statements::Statements;

/// One table.
pub(crate) struct StoreTable {
    pub(crate) name: &'static str,
    /// All columns but the checksum, in the order in which the checksum covers them.
    pub(crate) columns: &'static [&'static str],
    /// The columns of the key, in whose order rows are walked through.
    pub(crate) key: &'static [&'static str],
    /// The columns that every query selects, the last of which is `crc`.
    pub(crate) selected: String,
    add: String,
    add_at: String,
    set: String,
    /// Finds the checksum of the row with a key.
    crc_of: String,
}

impl StoreTable {
    fn new(
        name: &'static str,
        columns: &'static [&'static str],
        key: &'static [&'static str],
    ) -> Self {
        let selected = format!("{}, crc", columns.join(", "));
        let places = vec!["?"; columns.len() + 1].join(", ");
        let values = format!("INTO {name} ({selected}) VALUES ({places})");
        let keys: Vec<_> = key.iter().map(|column| format!("{column} = ?")).collect();
        Self {
            add: format!("INSERT {values}"),
            add_at: format!("INSERT INTO {name} ({selected}, rowid) VALUES ({places}, ?)"),
            set: format!("INSERT OR REPLACE {values}"),
            crc_of: format!("SELECT crc FROM {name} WHERE {}", keys.join(" AND ")),
            name,
            columns,
            key,
            selected,
        }
    }

    /// Inserts a new row; returns `false` if it was added before.
    pub(crate) fn add(
        &'static self,
        statements: &mut Statements<'_>,
        values: &[&dyn ToSql],
    ) -> Result<bool, StoreError> {
        let written = write(statements, &self.add, values, None);
        self.added(statements, values, written)
    }

    /// As [`StoreTable::add`], at a place among the rows; a place that another row has is a
    /// collision too. The checksum does not cover the place: SQLite's VACUUM may renumber rows, in
    /// the same order.
    pub(crate) fn add_at(
        &'static self,
        statements: &mut Statements<'_>,
        place: i64,
        values: &[&dyn ToSql],
    ) -> Result<bool, StoreError> {
        let written = write(statements, &self.add_at, values, Some(place));
        self.added(statements, values, written)
    }

    /// Permits a row that was added before, and no other row with its key. Looked up after the
    /// failure: an `ON CONFLICT` clause would search for the key twice in every insertion.
    fn added(
        &'static self,
        statements: &mut Statements<'_>,
        values: &[&dyn ToSql],
        written: rusqlite::Result<()>,
    ) -> Result<bool, StoreError> {
        match written {
            Err(error) if is_key_taken(&error) => {
                let crc = checksum_of_parameters(values)?;
                match self.stored_crc(statements, values)? {
                    Some(stored) if stored == crc => Ok(false),
                    _ => Err(StoreError::Collision { table: self.name }),
                }
            }
            written => Ok(written.map(|()| true)?),
        }
    }

    /// Whether there is a row with the key of `values`.
    pub(crate) fn has_key_of(
        &'static self,
        statements: &mut Statements<'_>,
        values: &[&dyn ToSql],
    ) -> Result<bool, StoreError> {
        Ok(self.find(statements, values, |_| Ok(()))?.is_some())
    }

    /// The checksum of the row that has the key of `values`.
    fn stored_crc(
        &'static self,
        statements: &mut Statements<'_>,
        values: &[&dyn ToSql],
    ) -> rusqlite::Result<Option<i64>> {
        let found = self.find(statements, values, |row| row.get(0))?;
        Ok(found.flatten())
    }

    /// Finds the row that has the key of `values`; `read` gets its checksum.
    fn find<T>(
        &'static self,
        statements: &mut Statements<'_>,
        values: &[&dyn ToSql],
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Option<T>> {
        let statement = statements.prepare(&self.crc_of)?;
        for (index, key) in self.key.iter().enumerate() {
            let column = self.columns.iter().position(|column| column == key);
            let value = column.and_then(|column| values.get(column));
            statement.raw_bind_parameter(index + 1, value)?;
        }
        let mut rows = statement.raw_query();
        rows.next()?.map(read).transpose()
    }

    /// Inserts a row, or replaces the one with its key.
    pub(crate) fn set(
        &'static self,
        statements: &mut Statements<'_>,
        values: &[&dyn ToSql],
    ) -> Result<(), StoreError> {
        write(statements, &self.set, values, None)?;
        Ok(())
    }

    /// Whether the row, selected as [`StoreTable::selected`], is as it was written.
    pub(crate) fn is_whole(&self, row: &Row<'_>) -> rusqlite::Result<bool> {
        let stored = match row.get_ref(self.columns.len())? {
            ValueRef::Null => return Ok(true),
            ValueRef::Integer(number) => number,
            _ => return Ok(false),
        };
        let mut checksum = Checksum::default();
        for column in 0..self.columns.len() {
            checksum.update(row.get_ref(column)?);
        }
        Ok(checksum.finish() == stored)
    }
}

fn is_key_taken(error: &rusqlite::Error) -> bool {
    use rusqlite::ffi::{
        SQLITE_CONSTRAINT_PRIMARYKEY, SQLITE_CONSTRAINT_ROWID, SQLITE_CONSTRAINT_UNIQUE,
    };
    error.sqlite_error().is_some_and(|error| {
        matches!(
            error.extended_code,
            SQLITE_CONSTRAINT_PRIMARYKEY | SQLITE_CONSTRAINT_ROWID | SQLITE_CONSTRAINT_UNIQUE
        )
    })
}

/// Binds the values, their checksum and the place, and runs the statement.
fn write(
    statements: &mut Statements<'_>,
    sql: &'static str,
    values: &[&dyn ToSql],
    place: Option<i64>,
) -> rusqlite::Result<()> {
    let statement = statements.prepare(sql)?;
    let mut checksum = Checksum::default();
    for (index, value) in values.iter().enumerate() {
        let value = value.to_sql()?;
        checksum.update_parameter(&value);
        statement.raw_bind_parameter(index + 1, value)?;
    }
    statement.raw_bind_parameter(values.len() + 1, checksum.finish())?;
    if let Some(place) = place {
        statement.raw_bind_parameter(values.len() + 2, place)?;
    }
    statement.raw_execute()?;
    Ok(())
}

macro_rules! tables {
    ($($constant:ident, $name:literal, [$($column:literal),*], key [$($key:literal),*];)*) => {
        $(pub(crate) static $constant: LazyLock<StoreTable> =
            LazyLock::new(|| StoreTable::new($name, &[$($column),*], &[$($key),*]));)*

        /// All tables; tables that others depend on come first.
        pub(crate) static ALL: [&LazyLock<StoreTable>; 11] = [$(&$constant),*];
    };
}

tables! {
    RECORD, "record", ["space", "key", "value"], key ["space", "key"];
    SESSION, "session",
        ["number", "client", "user", "kind", "expiry_seconds", "ended_ms", "sent", "will_message",
         "will_delay_seconds"],
        key ["number"];
    SUBSCRIPTION, "subscription",
        ["session", "filter", "qos", "no_local", "retain_as_published", "identifier"],
        key ["session", "filter"];
    MESSAGE, "message", ["id", "topic", "qos", "payload", "properties", "retain", "number"],
        key ["number"];
    DELIVERY, "delivery",
        ["session", "sequence", "message", "qos", "retain", "released", "identifiers"],
        key ["session", "sequence"];
    RECEIVED, "received", ["session", "packet"], key ["session", "packet"];
    RETAINED, "retained", ["id", "topic", "qos", "payload", "properties"], key ["topic"];
    QUARANTINE, "quarantine", ["id", "body", "properties", "retain"], key ["id"];
    JOURNAL, "journal",
        ["id", "listener", "peer", "client", "user", "sender", "recipients", "topic", "subject",
         "size", "action", "score", "required", "hits", "reason", "procedure", "duration_us",
         "deliveries", "topics"],
        key ["id"];
    HISTORY, "history", ["id", "topic", "qos", "payload", "properties"], key ["id", "topic"];
    SERIES, "series", ["resolution", "number", "at_ms", "figures"], key ["resolution", "number"];
}
