//! The tables as they are written and read: columns, keys, and the checksum of each row.
//!
//! Every row ends with a CRC-32 of its other columns. It is computed when the row is written, and
//! checked whenever the row is read, by the [scrub](crate::watch) and by a
//! [recovery](crate::recovery), so that a disk that alters bytes is noticed instead of believed.
//! Rows of earlier versions have no checksum (NULL) and are read as they are.
//!
//! An *added* row must be new. If a row with its key is there, adding it again changes nothing
//! where both are the same, and is an error ([`StoreError::Collision`]) where they differ: the
//! earlier one was acknowledged to its sender. A row that is *set* replaces an earlier one by
//! intention.

use std::sync::LazyLock;

use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, Row, ToSql};

use crate::StoreError;

/// One table.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    /// All columns but the checksum, in the order in which the checksum covers them.
    pub(crate) columns: &'static [&'static str],
    /// The columns of the key, in whose order rows are walked through.
    pub(crate) key: &'static [&'static str],
    /// The columns, then `crc`: what every query selects.
    pub(crate) selected: String,
    add: String,
    add_at: String,
    set: String,
}

impl Table {
    fn new(
        name: &'static str,
        columns: &'static [&'static str],
        key: &'static [&'static str],
    ) -> Self {
        let selected = format!("{}, crc", columns.join(", "));
        let places = vec!["?"; columns.len() + 1].join(", ");
        let values = format!("INTO {name} ({selected}) VALUES ({places})");
        let on_conflict = format!(
            "ON CONFLICT ({}) DO UPDATE SET crc = excluded.crc WHERE {name}.crc IS excluded.crc",
            key.join(", ")
        );
        Self {
            add: format!("INSERT {values} {on_conflict}"),
            add_at: format!(
                "INSERT INTO {name} ({selected}, rowid) VALUES ({places}, ?) {on_conflict}"
            ),
            set: format!("INSERT OR REPLACE {values}"),
            name,
            columns,
            key,
            selected,
        }
    }

    /// Inserts a new row.
    pub(crate) fn add(
        &self,
        connection: &Connection,
        values: &[&dyn ToSql],
    ) -> Result<(), StoreError> {
        self.added(write(connection, &self.add, values, None)?)
    }

    /// Inserts a new row at a place among the rows; a place that another row has is a collision
    /// too. The checksum does not cover the place: SQLite's VACUUM may renumber rows, in the same
    /// order.
    pub(crate) fn add_at(
        &self,
        connection: &Connection,
        place: i64,
        values: &[&dyn ToSql],
    ) -> Result<(), StoreError> {
        match write(connection, &self.add_at, values, Some(place)) {
            Err(error) if is_place_taken(&error) => self.added(0),
            written => self.added(written?),
        }
    }

    fn added(&self, rows: usize) -> Result<(), StoreError> {
        match rows {
            0 => Err(StoreError::Collision { table: self.name }),
            _ => Ok(()),
        }
    }

    /// Inserts a row, or replaces the one with its key.
    pub(crate) fn set(
        &self,
        connection: &Connection,
        values: &[&dyn ToSql],
    ) -> Result<(), StoreError> {
        write(connection, &self.set, values, None)?;
        Ok(())
    }

    /// Whether the row, selected as [`Table::selected`], is as it was written.
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

fn is_place_taken(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error().map(|error| error.extended_code);
    code == Some(rusqlite::ffi::SQLITE_CONSTRAINT_ROWID)
}

fn write(
    connection: &Connection,
    sql: &str,
    values: &[&dyn ToSql],
    place: Option<i64>,
) -> rusqlite::Result<usize> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut checksum = Checksum::default();
    for (index, value) in values.iter().enumerate() {
        let value = value.to_sql()?;
        match &value {
            ToSqlOutput::Borrowed(value) => checksum.update(*value),
            ToSqlOutput::Owned(value) => checksum.update(value.into()),
            _ => checksum.update(ValueRef::Null),
        }
        statement.raw_bind_parameter(index + 1, value)?;
    }
    statement.raw_bind_parameter(values.len() + 1, checksum.finish())?;
    if let Some(place) = place {
        statement.raw_bind_parameter(values.len() + 2, place)?;
    }
    statement.raw_execute()
}

/// A CRC-32 over typed values. Each is preceded by its type and length, so that bytes cannot move
/// from one column to its neighbour.
#[derive(Default)]
pub(crate) struct Checksum(crc32fast::Hasher);

impl Checksum {
    pub(crate) fn update(&mut self, value: ValueRef<'_>) {
        let mut head = [0_u8; 9];
        let (kind, number, bytes): (u8, u64, &[u8]) = match value {
            ValueRef::Null => (0, 0, &[]),
            ValueRef::Integer(number) => (1, number as u64, &[]),
            // SQLite keeps no negative zero, and a NaN as NULL.
            ValueRef::Real(number) if number.is_nan() => (0, 0, &[]),
            ValueRef::Real(number) => (2, (number + 0.0).to_bits(), &[]),
            ValueRef::Text(text) => (3, text.len() as u64, text),
            ValueRef::Blob(blob) => (4, blob.len() as u64, blob),
        };
        head[0] = kind;
        head[1..].copy_from_slice(&number.to_le_bytes());
        self.0.update(&head);
        self.0.update(bytes);
    }

    pub(crate) fn finish(self) -> i64 {
        self.0.finalize().into()
    }
}

/// The checksum of a whole row.
pub(crate) fn checksum_of<'a>(values: impl IntoIterator<Item = &'a Value>) -> i64 {
    let mut checksum = Checksum::default();
    for value in values {
        checksum.update(value.into());
    }
    checksum.finish()
}

macro_rules! tables {
    ($($constant:ident, $name:literal, [$($column:literal),*], key [$($key:literal),*];)*) => {
        $(pub(crate) static $constant: LazyLock<Table> =
            LazyLock::new(|| Table::new($name, &[$($column),*], &[$($key),*]));)*

        /// All tables, those first without which the others mean nothing.
        pub(crate) static ALL: [&LazyLock<Table>; 10] = [$(&$constant),*];
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
}
