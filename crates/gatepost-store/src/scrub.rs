//! A slow pass over all rows that verifies each checksum.
//!
//! A disk may alter rows that no query reads for months. One step is made each second, in a
//! connection of its own, and reads a bounded number of rows and bytes; a pass is repeated after a
//! pause.

use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::types::Value;

use crate::table::{self, StoreTable};

/// Rows of one step.
const ROWS_MAX: usize = 500;
/// Bytes of one step; a larger row is read nevertheless.
const BYTES_MAX: usize = 1 << 20;
/// The time from the end of one pass to the beginning of the next.
const PAUSE: Duration = Duration::from_hours(6);

pub(crate) struct Scrub {
    connection: Connection,
    /// The table that is being read.
    table: usize,
    /// The key of the last row; empty at a table's beginning.
    last_key: Vec<Value>,
    resumes: Option<Instant>,
}

impl Scrub {
    pub(crate) const fn new(connection: Connection) -> Self {
        Self {
            connection,
            table: 0,
            last_key: Vec::new(),
            resumes: None,
        }
    }

    /// Reads some rows; returns how many of them are damaged.
    pub(crate) fn step(&mut self) -> u64 {
        if self.resumes.is_some_and(|resumes| Instant::now() < resumes) {
            return 0;
        }
        self.resumes = None;
        let table = &**table::ALL[self.table];
        match read(&self.connection, table, &mut self.last_key) {
            Ok(step) => {
                if step.is_end {
                    self.next_table();
                }
                step.damaged
            }
            Err(error) => {
                tracing::error!(
                    target: "store",
                    table = table.name,
                    %error,
                    "the scrub cannot read a table",
                );
                self.next_table();
                0
            }
        }
    }

    fn next_table(&mut self) {
        self.last_key.clear();
        self.table = (self.table + 1) % table::ALL.len();
        if self.table == 0 {
            self.resumes = Some(Instant::now() + PAUSE);
        }
    }
}

struct ScrubStep {
    damaged: u64,
    is_end: bool,
}

fn read(
    connection: &Connection,
    table: &StoreTable,
    last: &mut Vec<Value>,
) -> rusqlite::Result<ScrubStep> {
    let keys = table.key.join(", ");
    let after = if last.is_empty() {
        String::new()
    } else {
        format!("WHERE ({keys}) > ({})", vec!["?"; last.len()].join(", "))
    };
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {}, {keys} FROM {} {after} ORDER BY {keys} LIMIT {ROWS_MAX}",
        table.selected, table.name
    ))?;
    let mut rows = statement.query(rusqlite::params_from_iter(last.iter()))?;
    let (mut count, mut bytes, mut damaged) = (0, 0, 0);
    let mut key = Vec::new();
    let first_key = table.columns.len() + 1;
    while let Some(row) = rows.next()? {
        if !table.is_whole(row)? {
            damaged += 1;
            tracing::error!(
                target: "store",
                table = table.name,
                "the checksum of a stored row is wrong: the disk altered it",
            );
        }
        key.clear();
        for column in first_key..first_key + table.key.len() {
            key.push(row.get::<_, Value>(column)?);
        }
        for column in 0..table.columns.len() {
            bytes += row
                .get_ref(column)?
                .as_bytes_or_null()
                .ok()
                .flatten()
                .map_or(8, <[u8]>::len);
        }
        count += 1;
        if bytes > BYTES_MAX {
            break;
        }
    }
    let is_end = count < ROWS_MAX && bytes <= BYTES_MAX;
    drop(rows);
    drop(statement);
    if !key.is_empty() {
        *last = key;
    }
    Ok(ScrubStep { damaged, is_end })
}
