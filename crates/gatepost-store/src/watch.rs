//! Monitoring of whether messages can be stored now.
//!
//! A thread checks the disk's free space and the file's name once a second, and walks slowly
//! through all rows ([scrub](crate::scrub)). The writer reports the outcome of each commit. After a
//! failed commit the thread tries one of its own, so that the store becomes ready again even if no
//! message is sent to a gateway that is not ready.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use gatepost_settings::ByteSize;
use parking_lot::Mutex;

use crate::StoreError;
use crate::background::StoreEnd;
use crate::reserve::DiskReserve;
use crate::stored_clock::HeldExpiry;

/// The interval at which the disk is checked.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// The known state of the disk. The default is that of a database in memory: healthy.
#[derive(Debug, Default)]
pub(crate) struct DiskHealth {
    file: Option<DatabaseFile>,
    /// The reason why the last commit failed, until one succeeds.
    failed: Mutex<Option<StoreError>>,
    /// The same, so that a commit need not lock.
    is_failing: AtomicBool,
    /// Whether a change was not stored since the start.
    has_lost: AtomicBool,
    is_replaced: AtomicBool,
    /// Bytes left when there were too few; else `u64::MAX`.
    available_if_full: AtomicU64,
    reserve_bytes: AtomicU64,
    pub(crate) damaged_rows: AtomicU64,
    /// Rows that are held back because the clock is ahead.
    held_expiry: Mutex<Option<HeldExpiry>>,
}

/// The database file and the identity of the file when it was opened.
#[derive(Debug)]
struct DatabaseFile {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
    reserve: DiskReserve,
}

impl DiskHealth {
    /// The file of the database that was just opened at `path`.
    pub(crate) fn of(path: PathBuf, reserve: DiskReserve) -> Self {
        let identity = identity(&path).unwrap_or_default();
        Self {
            file: Some(DatabaseFile {
                path,
                identity,
                reserve,
            }),
            available_if_full: AtomicU64::new(u64::MAX),
            ..Self::default()
        }
    }

    /// Fails if the database's name refers to another file now, or to none: later writes would be
    /// lost with the last descriptor.
    pub(crate) fn check_database_file(&self) -> Result<(), StoreError> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let is_replaced = identity(&file.path) != Some(file.identity);
        if is_replaced != self.is_replaced.load(Ordering::Relaxed) {
            self.is_replaced.store(is_replaced, Ordering::Relaxed);
            if is_replaced {
                let error = Self::replaced(file);
                tracing::error!(target: "store", "{error}");
            }
        }
        if is_replaced {
            Err(Self::replaced(file))
        } else {
            Ok(())
        }
    }

    fn replaced(file: &DatabaseFile) -> StoreError {
        StoreError::FileReplaced {
            file: file.path.clone(),
        }
    }

    /// Compares the free space with the reserve.
    pub(crate) fn check_space(&self) {
        let Some(file) = &self.file else {
            return;
        };
        let folder = file.path.parent().unwrap_or(&file.path);
        // A missing folder is detected by its own check.
        let Ok(space) = rustix::fs::statvfs(folder) else {
            return;
        };
        let available = ByteSize(space.f_bavail.saturating_mul(space.f_frsize));
        let total = ByteSize(space.f_blocks.saturating_mul(space.f_frsize));
        self.set_space(available, file.reserve.of(total));
    }

    fn set_space(&self, available: ByteSize, reserve: ByteSize) {
        let was_full = self.available_if_full.load(Ordering::Relaxed) != u64::MAX;
        let is_full = available < reserve;
        self.reserve_bytes.store(reserve.bytes(), Ordering::Relaxed);
        let stored = if is_full { available.bytes() } else { u64::MAX };
        self.available_if_full.store(stored, Ordering::Relaxed);
        match (was_full, is_full) {
            (false, true) => tracing::error!(
                target: "store",
                "{available} of disk space are left, less than the {reserve} of store.reserve: new \
                 messages are refused"
            ),
            (true, false) => tracing::info!(target: "store", "disk space is available again"),
            _ => {}
        }
    }

    pub(crate) fn held_expiry(&self) -> Option<HeldExpiry> {
        *self.held_expiry.lock()
    }

    /// Returns the previous value.
    pub(crate) fn set_held_expiry(&self, held: Option<HeldExpiry>) -> Option<HeldExpiry> {
        std::mem::replace(&mut *self.held_expiry.lock(), held)
    }

    pub(crate) fn commit_failed(&self, error: &StoreError) {
        *self.failed.lock() = Some(error.clone());
        self.is_failing.store(true, Ordering::Relaxed);
        self.note_lost();
    }

    /// A change that was submitted was not stored.
    pub(crate) fn note_lost(&self) {
        self.has_lost.store(true, Ordering::Release);
    }

    pub(crate) fn has_lost(&self) -> bool {
        self.has_lost.load(Ordering::Acquire)
    }

    pub(crate) fn commit_succeeded(&self) {
        if self.is_failing.load(Ordering::Relaxed) {
            *self.failed.lock() = None;
            self.is_failing.store(false, Ordering::Relaxed);
            tracing::info!(target: "store", "changes can be stored again");
        }
    }

    pub(crate) fn is_failing(&self) -> bool {
        self.is_failing.load(Ordering::Relaxed)
    }

    /// Whether changes can be accepted: all, or those that store messages.
    pub(crate) fn admits(&self, stores_message: impl FnOnce() -> bool) -> Result<(), StoreError> {
        if self.is_replaced.load(Ordering::Relaxed)
            && let Some(file) = &self.file
        {
            return Err(Self::replaced(file));
        }
        if self.file.is_some()
            && self.available_if_full.load(Ordering::Relaxed) != u64::MAX
            && stores_message()
        {
            return Err(self.full());
        }
        Ok(())
    }

    fn full(&self) -> StoreError {
        StoreError::DiskFull {
            available: ByteSize(self.available_if_full.load(Ordering::Relaxed)),
            reserve: ByteSize(self.reserve_bytes.load(Ordering::Relaxed)),
        }
    }

    /// The reason why no message can be stored now, if any.
    pub(crate) fn readiness(&self) -> Result<(), StoreError> {
        self.admits(|| true)?;
        match &*self.failed.lock() {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }
}

fn identity(path: &std::path::Path) -> Option<(u64, u64)> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// Checks once a second, until the store is closed.
pub(crate) struct DiskWatch {
    pub(crate) health: Arc<DiskHealth>,
    pub(crate) scrub: crate::scrub::Scrub,
}

impl DiskWatch {
    /// Checks until the store ends.
    pub(crate) fn run(mut self, end: &StoreEnd, probe: impl Fn()) {
        while !end.comes_within(CHECK_EVERY) {
            self.check(&probe);
        }
    }

    /// `probe` submits a change that touches nothing but the disk.
    fn check(&mut self, probe: impl FnOnce()) {
        self.health.check_space();
        let is_there = self.health.check_database_file().is_ok();
        if is_there && self.health.is_failing() {
            probe();
        }
        if is_there {
            let damaged = self.scrub.step();
            self.health
                .damaged_rows
                .fetch_add(damaged, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health(path: PathBuf) -> DiskHealth {
        DiskHealth::of(path, DiskReserve::Percent(5))
    }

    #[test]
    fn a_nearly_full_disk_refuses_messages_alone() {
        let health = health(PathBuf::from("/nonexistent"));
        health.set_space(ByteSize(10), ByteSize(100));
        let refused = health.admits(|| true);
        assert!(refused.is_err_and(|error| error.is_disk_full()));
        assert!(health.admits(|| false).is_ok());
        assert!(health.readiness().is_err());
        health.set_space(ByteSize(100), ByteSize(100));
        assert!(health.readiness().is_ok());
    }

    #[test]
    fn a_replaced_file_is_noticed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        fs::write(&path, "a").expect("a file");
        let health = health(path.clone());
        assert!(health.check_database_file().is_ok());
        fs::rename(&path, folder.path().join("b")).expect("renamed");
        assert!(health.check_database_file().is_err());
        fs::write(&path, "a").expect("another file");
        let error = health.check_database_file().expect_err("not the same");
        assert!(matches!(error, StoreError::FileReplaced { .. }));
        assert!(health.readiness().is_err());
    }
}
