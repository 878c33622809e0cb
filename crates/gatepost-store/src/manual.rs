//! A store without threads, for simulations: commits happen only when the simulation requests them,
//! so one seed always leads to the same commits.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use rusqlite::Connection;

use crate::clock::ClockSource;
use crate::committer::Committer;
use crate::open_database::OpenDatabase;
use crate::recovery::Recovery;
use crate::table;
use crate::{Store, StoreChange, StoreError, StoreSettings, schema};

/// Commits the changes submitted to its store, in the order of the submissions.
pub struct ManualWriter(Committer);

impl ManualWriter {
    pub(crate) fn new(committer: Committer) -> Self {
        committer.queue.separate();
        Self(committer)
    }

    /// The number of submissions that wait for a commit.
    pub fn waiting(&self) -> usize {
        self.0.queue.separate_count()
    }

    /// Commits the first `count` submissions that wait, together.
    pub fn commit(&mut self, count: usize) {
        self.commit_only(count, |_| true);
    }

    /// As [`ManualWriter::commit`], without the changes that `is_written` refuses: a store that
    /// loses changes, to prove that a simulation detects that.
    pub fn commit_only(&mut self, count: usize, mut is_written: impl FnMut(&StoreChange) -> bool) {
        let mut batches = self.0.queue.take_separate(count);
        for batch in &mut batches {
            batch.changes.retain(&mut is_written);
        }
        if !batches.is_empty() {
            self.0.commit_together(batches);
        }
    }

    /// Fails the commit of all waiting changes: nothing is written, and the store is not ready
    /// until a commit succeeds.
    pub fn fail(&mut self, error: &StoreError) {
        self.0.writer.note_failed(error);
        let queue = &self.0.queue;
        for batch in queue.take_separate(usize::MAX) {
            queue.decide(&batch.group, Err(error.clone()));
        }
    }

    /// Makes a trial commit if the last commit has failed, as the watch of a server does each
    /// second.
    pub fn probe(&mut self) {
        if self.0.writer.is_failing() {
            self.0.commit_together(Vec::new());
        }
    }
}

impl Store {
    /// As [`Store::open_with_clock`], without threads.
    pub fn open_manual(
        folder: &Path,
        settings: &StoreSettings,
        clock: Arc<dyn ClockSource>,
    ) -> Result<(Self, Recovery, ManualWriter), StoreError> {
        let (parts, recovery, _scrub, _indexer) = Self::open_parts(folder, settings, clock)?;
        let (store, committer) = Self::assemble(parts, settings);
        Ok((store, recovery, ManualWriter::new(committer)))
    }
}

/// A clock that a simulation sets.
pub struct ManualClock(Mutex<(SystemTime, Duration)>);

impl ManualClock {
    /// A clock that shows this time.
    pub fn at(time: SystemTime) -> Arc<Self> {
        Arc::new(Self(Mutex::new((time, Duration::ZERO))))
    }

    /// Lets time pass.
    pub fn pass(&self, time: Duration) {
        let mut state = self.0.lock();
        state.0 += time;
        state.1 += time;
    }

    /// Sets the time of day, as an administrator does: no time passes.
    pub fn jump(&self, to: SystemTime) {
        self.0.lock().0 = to;
    }
}

impl ClockSource for ManualClock {
    fn now(&self) -> SystemTime {
        self.0.lock().0
    }

    fn elapsed(&self) -> Duration {
        self.0.lock().1
    }
}

/// A database with one connection, which outlives its stores as a file outlives a server that
/// crashes: committed changes are there when the next store is opened.
pub struct SimulatedDatabase(Arc<Mutex<Connection>>);

impl SimulatedDatabase {
    /// An empty database in memory, where a commit is all or nothing.
    pub fn in_memory() -> Result<Self, StoreError> {
        Self::prepare(Connection::open_in_memory()?)
    }

    /// The database in this file, in the VFS below SQLite, created if it is missing, with pages of
    /// this size. The log is written back to the database whenever it has this many pages.
    ///
    /// The connection may stay open while that layer simulates a crash, if the next transaction
    /// then finds the same state as a new process would.
    pub fn at(file: &Path, page_bytes: u32, log_pages: u32) -> Result<Self, StoreError> {
        let connection = Connection::open(file)?;
        connection.pragma_update(None, "page_size", page_bytes)?;
        let database = Self::prepare(connection)?;
        let connection = database.0.lock();
        connection.pragma_update(None, "wal_autocheckpoint", log_pages)?;
        drop(connection);
        Ok(database)
    }

    fn prepare(mut connection: Connection) -> Result<Self, StoreError> {
        schema::prepare(&mut connection)?;
        Ok(Self(Arc::new(Mutex::new(connection))))
    }

    /// Checks every page, like the start of a server.
    pub fn check(&self) -> Result<(), StoreError> {
        let connection = self.0.lock();
        let mut check = connection.prepare_cached("PRAGMA quick_check(1)")?;
        let reason: String = check.query_row([], |row| row.get(0))?;
        if reason == "ok" {
            return Ok(());
        }
        let file = PathBuf::new();
        Err(StoreError::Damaged { file, reason })
    }

    /// Opens the database for a server. A store that was opened before must not be used any more.
    pub fn open(
        &self,
        settings: &StoreSettings,
        clock: Arc<dyn ClockSource>,
    ) -> Result<(Store, ManualWriter), StoreError> {
        let parts = OpenDatabase::of_simulated_server(self.0.clone(), settings, clock)?;
        let (store, committer) = Store::assemble(parts, settings);
        Ok((store, ManualWriter::new(committer)))
    }

    /// Resets it to an empty database.
    pub fn clear(&self) -> Result<(), StoreError> {
        let mut connection = self.0.lock();
        let transaction = connection.transaction()?;
        for table in table::ALL {
            transaction
                .prepare_cached(&format!("DELETE FROM {}", table.name))?
                .execute([])?;
        }
        transaction
            .prepare_cached("UPDATE clock SET highest_id = 0, accepted_ms = NULL")?
            .execute([])?;
        Ok(transaction.commit()?)
    }
}
