//! The thread that keeps the index up to date, in short [steps](super::updating) with pauses.
//!
//! An index that is damaged or cannot be read is deleted and built again. Every error ends the use
//! of the index for a while: searches read the journal row by row meanwhile.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::file;
use super::journal_rows::JournalRows;
use super::{BLOCK_ROWS, JournalIndex};
use crate::background::StoreEnd;
use crate::connection::connect_to;
use crate::folder::{DataFolder, remove};
use crate::watch::DiskHealth;
use crate::{StoreError, schema};

/// The pause when there is nothing to do.
const IDLE_PAUSE: Duration = Duration::from_secs(1);
/// The pause after an error.
const ERROR_PAUSE: Duration = Duration::from_mins(1);
/// A step that has more to do is followed by a pause of this many times its duration: a fifth of a
/// processor at most.
const PAUSE_FACTOR: u32 = 4;

/// The amounts of one step.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepSizes {
    /// The rows of a new block.
    pub(super) block_rows: usize,
    /// Entries that are indexed in one step.
    pub(super) rows: usize,
    /// The newest entries, which are not indexed yet.
    pub(super) rows_waiting: usize,
    /// Blocks that are compared with the journal, or indexed again, in one step.
    pub(super) blocks: usize,
}

const STEP_SIZES: StepSizes = StepSizes {
    block_rows: BLOCK_ROWS,
    rows: 1_024,
    rows_waiting: 512,
    blocks: 128,
};

pub(crate) struct Indexer {
    folder: DataFolder,
    pub(super) journal: JournalRows,
    pub(super) index: Arc<JournalIndex>,
    pub(super) health: Arc<DiskHealth>,
    pub(super) sizes: StepSizes,
    pub(super) state: IndexerState,
    /// The value of [`JournalIndex::written`] before the last search for new entries.
    pub(super) written: Option<u64>,
    /// Whether the last step had work, so that pages are cached.
    pub(super) has_worked: bool,
    /// The time until the next step.
    pause: Duration,
}

pub(super) enum IndexerState {
    Closed,
    /// The blocks up to this number agree with the journal.
    Comparing(Connection, i64),
    Running(Connection),
}

impl Indexer {
    pub(crate) fn new(
        folder: DataFolder,
        journal: Connection,
        index: Arc<JournalIndex>,
        health: Arc<DiskHealth>,
    ) -> Self {
        Self {
            folder,
            journal: JournalRows::new(journal),
            index,
            health,
            sizes: STEP_SIZES,
            state: IndexerState::Closed,
            written: None,
            has_worked: false,
            pause: IDLE_PAUSE,
        }
    }

    /// The same indexer for another index, which works in other steps.
    #[cfg(test)]
    pub(super) fn for_test(self, index: Arc<JournalIndex>, sizes: StepSizes) -> Self {
        Self {
            index,
            sizes,
            ..self
        }
    }

    /// Works until the store ends.
    pub(crate) fn run(mut self, end: &StoreEnd) {
        while !end.comes_within(self.pause) {
            self.step();
        }
    }

    /// Does some work; returns whether there is more.
    pub(super) fn step(&mut self) -> bool {
        let began = Instant::now();
        if self.index.is_unreadable.swap(false, Ordering::Relaxed) {
            self.close();
            self.discard();
        }
        match self.work() {
            Ok(true) => {
                self.pause = began.elapsed() * PAUSE_FACTOR;
                true
            }
            Ok(false) => {
                self.pause = IDLE_PAUSE;
                false
            }
            Err(error) => {
                tracing::warn!(
                    target: "store", %error,
                    "the journal is searched without its index for a minute"
                );
                self.close();
                if !is_passing(&error) {
                    self.discard();
                }
                self.pause = ERROR_PAUSE;
                false
            }
        }
    }

    fn work(&mut self) -> Result<bool, StoreError> {
        match std::mem::replace(&mut self.state, IndexerState::Closed) {
            IndexerState::Closed => self.open(),
            IndexerState::Comparing(connection, number) => self.compare(connection, number),
            IndexerState::Running(connection) => self.update(connection),
        }
    }

    /// Ends the use of the index.
    fn close(&mut self) {
        self.index.coverage.lock().until = None;
        *self.index.reader.lock() = None;
        self.state = IndexerState::Closed;
        self.written = None;
    }

    fn discard(&self) {
        for file in self.folder.journal_index_files() {
            if let Err(error) = remove(&file) {
                tracing::warn!(target: "store", %error, "the index cannot be removed");
            }
        }
    }

    fn connect(&self) -> Result<Connection, StoreError> {
        let flags = OpenFlags::default();
        connect_to(&self.folder, DataFolder::journal_index, flags).map_err(|error| match error {
            StoreError::Open { cause, .. } => StoreError::Open {
                file: self.folder.journal_index(),
                cause,
            },
            other => other,
        })
    }

    /// Opens the index, or creates it when there are enough entries: a server that judges no
    /// messages needs no file.
    fn open(&mut self) -> Result<bool, StoreError> {
        let written = self.index.written.load(Ordering::Relaxed);
        if self.written == Some(written) {
            return Ok(false);
        }
        let entries_min = self.sizes.rows + self.sizes.rows_waiting;
        if !self.folder.journal_index().exists()
            && self.journal.id_after(i64::MIN, entries_min)?.is_none()
        {
            self.written = Some(written);
            return Ok(false);
        }
        let connection = self.connect()?;
        connection.busy_timeout(schema::BUSY_TIME_MAX)?;
        if !file::prepare(&connection)? {
            drop(connection);
            self.discard();
            return Ok(true);
        }
        let reader = self.connect()?;
        reader.busy_timeout(schema::BUSY_TIME_MAX)?;
        reader.pragma_update(None, "query_only", true)?;
        file::limit_cache(&reader)?;
        *self.index.reader.lock() = Some(reader);
        let until = file::last_id(&connection)?.unwrap_or(i64::MIN);
        self.index.reading_until.store(until, Ordering::SeqCst);
        self.state = IndexerState::Comparing(connection, 0);
        Ok(true)
    }
}

/// Whether the error says nothing about the content of the file.
fn is_passing(error: &StoreError) -> bool {
    let (StoreError::Database(cause) | StoreError::Open { cause, .. }) = error else {
        return matches!(error, StoreError::File { .. });
    };
    matches!(
        cause.sqlite_error_code(),
        Some(
            ErrorCode::CannotOpen
                | ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::DiskFull
                | ErrorCode::OutOfMemory
                | ErrorCode::PermissionDenied
                | ErrorCode::ReadOnly
        )
    )
}
