//! Checks that a backup is intact: SQLite's integrity check, and the checksum of each row.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::{BackupError, unusable};
use crate::folder::file_error;
use crate::table::{self, StoreTable};
use crate::{StoreError, schema};

/// The contents of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupContents {
    /// The size of its file.
    pub bytes: u64,
    /// The version of its schema.
    pub schema: usize,
    /// Rows of each table that has some; records of other crates by their kind (`record bayes`).
    pub rows: Vec<(String, u64)>,
    /// Rows whose checksum is wrong, because the server's disk altered them.
    pub rows_damaged: u64,
}

/// Reads the whole file and changes nothing.
pub fn verify_backup(file: &Path) -> Result<BackupContents, BackupError> {
    let opened = File::open(file).and_then(|opened| opened.metadata());
    let bytes = opened.map_err(|cause| file_error(file, cause))?.len();
    let unusable_because = |reason: &str| BackupError::Unusable {
        file: file.to_owned(),
        reason: reason.to_owned(),
    };
    let log = with_suffix(file, "-wal");
    if log.metadata().is_ok_and(|log| log.len() > 0) {
        let reason = "it has a write-ahead log beside it, so it is a database in use or a copy of \
                      one; make a backup of it by `gatepost backup`";
        return Err(unusable_because(reason));
    }
    let failed = |error: rusqlite::Error| unusable(file, &error);
    let connection = open_immutable(file)?;
    let found = schema::version(&connection).map_err(failed)?;
    let known = schema::VERSION;
    if found == 0 {
        return Err(unusable_because("it is not a database of Gatepost"));
    }
    if found > known {
        let file = file.to_owned();
        return Err(StoreError::LaterSchema { file, found, known }.into());
    }
    let answer: String = connection
        .query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
        .map_err(failed)?;
    if answer != "ok" {
        return Err(unusable_because(&answer));
    }
    let mut contents = BackupContents {
        bytes,
        schema: found,
        rows: Vec::new(),
        rows_damaged: 0,
    };
    // Rows of an earlier schema have no checksums, or lack columns.
    if found == known {
        for table in table::ALL {
            contents.rows_damaged += damaged_rows(&connection, table).map_err(failed)?;
        }
    }
    contents.rows = rows(&connection).map_err(failed)?;
    Ok(contents)
}

/// Opens without a lock and without a log, so that a backup on a read-only medium can be read.
fn open_immutable(file: &Path) -> Result<Connection, BackupError> {
    let path = std::path::absolute(file).map_err(|cause| file_error(file, cause))?;
    let name = path
        .to_str()
        .ok_or_else(|| BackupError::Name(path.clone()))?;
    let name = name
        .replace('%', "%25")
        .replace('?', "%3f")
        .replace('#', "%23");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = Connection::open_with_flags(format!("file:{name}?immutable=1"), flags);
    opened.map_err(|error| unusable(file, &error))
}

fn damaged_rows(connection: &Connection, table: &StoreTable) -> rusqlite::Result<u64> {
    let sql = format!("SELECT {} FROM {}", table.selected, table.name);
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query([])?;
    let mut damaged = 0;
    while let Some(row) = rows.next()? {
        damaged += u64::from(!table.is_whole(row)?);
    }
    Ok(damaged)
}

/// The number of rows of each table.
fn rows(connection: &Connection) -> rusqlite::Result<Vec<(String, u64)>> {
    let mut counts = Vec::new();
    for table in table::ALL {
        // Tables of later schemas are missing in a file of an earlier one.
        let exists = connection.table_exists(None, table.name)?;
        if !exists || table.name == table::RECORD.name {
            continue;
        }
        let sql = format!("SELECT count(*) FROM {}", table.name);
        let count: i64 = connection.query_row(&sql, [], |row| row.get(0))?;
        counts.push((table.name.to_owned(), count.cast_unsigned()));
    }
    let mut spaces = connection
        .prepare("SELECT 'record ' || space, count(*) FROM record GROUP BY space ORDER BY space")?;
    let spaces = spaces.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?)))?;
    for space in spaces {
        let (name, count) = space?;
        counts.push((name, count.cast_unsigned()));
    }
    counts.retain(|(_, count)| *count > 0);
    Ok(counts)
}

pub(super) fn with_suffix(file: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(suffix);
    PathBuf::from(name)
}
