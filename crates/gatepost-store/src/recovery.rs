//! Opening after damage: set the damaged file aside, keep what is whole, never refuse to start.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::Connection;

use crate::{StoreError, schema};

/// What happened when the database was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Where the damaged file is now; `None` if the file was whole or new.
    pub set_aside: Option<PathBuf>,
    /// Rows taken over from it.
    pub rows_recovered: u64,
    /// Tables of which not everything could be read.
    pub tables_incomplete: Vec<&'static str>,
}

pub(crate) fn open_or_recover(file: &Path) -> Result<(Connection, Recovery), StoreError> {
    if let Ok(connection) = open_whole(file) {
        return Ok((connection, Recovery::default()));
    }
    let damaged = set_aside(file)?;
    let mut connection = Connection::open(file)?;
    schema::prepare(&mut connection)?;
    let mut recovery = Recovery {
        set_aside: Some(damaged.clone()),
        ..Recovery::default()
    };
    for table in schema::TABLES {
        match copy_rows(&connection, &damaged, table) {
            Ok((rows, complete)) => {
                recovery.rows_recovered += rows;
                if !complete {
                    recovery.tables_incomplete.push(table);
                }
            }
            Err(_) => recovery.tables_incomplete.push(table),
        }
    }
    Ok((connection, recovery))
}

fn open_whole(file: &Path) -> rusqlite::Result<Connection> {
    let mut connection = Connection::open(file)?;
    schema::prepare(&mut connection)?;
    let answer: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if answer == "ok" {
        Ok(connection)
    } else {
        Err(rusqlite::Error::InvalidQuery)
    }
}

/// Renames the file and its write-ahead log, which belongs to it.
fn set_aside(file: &Path) -> Result<PathBuf, StoreError> {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    let with_suffix = |suffix: &str| {
        let mut name = file.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    let target = |suffix: &str| with_suffix(&format!(".damaged-{seconds}{suffix}"));
    for suffix in ["", "-wal", "-shm"] {
        let source = with_suffix(suffix);
        if source.exists() {
            std::fs::rename(&source, target(suffix)).map_err(|error| StoreError::Folder {
                path: source,
                cause: std::sync::Arc::new(error),
            })?;
        }
    }
    Ok(target(""))
}

/// Copies from both ends towards the damage; the second value says whether there was none.
fn copy_rows(
    connection: &Connection,
    damaged: &Path,
    table: &str,
) -> rusqlite::Result<(u64, bool)> {
    let old = Connection::open(damaged)?;
    let key = schema::key_of(table);
    // One transaction: a commit for each row would take an `fsync` for each.
    let transaction = connection.unchecked_transaction()?;
    let upwards = format!("SELECT * FROM {table} ORDER BY {key}");
    let (mut rows, complete) = copy_query(&transaction, &old, table, &upwards)?;
    if !complete {
        let downwards = format!("SELECT * FROM {table} ORDER BY {key} DESC");
        rows += copy_query(&transaction, &old, table, &downwards)?.0;
    }
    transaction.commit()?;
    Ok((rows, complete))
}

/// Copies row by row until the first that cannot be read; the second value says whether that was
/// the end of the table.
fn copy_query(
    connection: &Connection,
    old: &Connection,
    table: &str,
    query: &str,
) -> rusqlite::Result<(u64, bool)> {
    let mut select = old.prepare(query)?;
    let columns = select.column_count();
    // By name: the damaged file may be of a version that had fewer.
    let names = select.column_names().join(", ");
    let marks = vec!["?"; columns].join(", ");
    let mut insert = connection.prepare(&format!(
        "INSERT OR IGNORE INTO {table} ({names}) VALUES ({marks})"
    ))?;
    let mut rows = select.query([])?;
    let mut copied = 0;
    loop {
        match rows.next() {
            Ok(Some(row)) => {
                let values = (0..columns)
                    .map(|column| row.get::<_, rusqlite::types::Value>(column))
                    .collect::<rusqlite::Result<Vec<_>>>()?;
                copied += insert.execute(rusqlite::params_from_iter(values))? as u64;
            }
            Ok(None) => return Ok((copied, true)),
            Err(error) => {
                tracing::warn!(target: "store", table, %error, "rows from here on are damaged");
                return Ok((copied, false));
            }
        }
    }
}
