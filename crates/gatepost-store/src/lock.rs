//! Locks on the data folder, between processes.
//!
//! Both are `flock` locks: the system releases them when their process ends, in whatever way. The
//! *server lock* admits one server for each data folder. The *database lock* is shared by every
//! process that has the database open; a recovery takes it alone, so that no process writes to a
//! file that is being replaced. SQLite's own locks order everything else.

use std::fs::{File, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::StoreError;
use crate::folder::{self, DataFolder, file_error};

/// The time to wait for the database lock.
const WAIT_MAX: Duration = Duration::from_secs(10);
const WAIT_STEP: Duration = Duration::from_millis(20);

/// A held lock.
#[derive(Debug)]
pub(crate) struct FolderLock {
    _file: File,
}

/// Takes the server lock, without waiting for it.
pub(crate) fn lock_server(folder: &DataFolder) -> Result<FolderLock, StoreError> {
    let path = folder.server_lock();
    let file = open(folder, &path)?;
    match file.try_lock() {
        Ok(()) => Ok(FolderLock { _file: file }),
        Err(TryLockError::WouldBlock) => Err(StoreError::AlreadyServing {
            folder: folder.path().to_owned(),
        }),
        Err(TryLockError::Error(cause)) => Err(file_error(&path, cause)),
    }
}

/// Whether a server holds the lock of this data folder at the moment.
pub(crate) fn is_served(folder: &Path) -> bool {
    // Opened for reading, so that nothing is created in a foreign folder.
    let file = File::open(DataFolder::at(folder).server_lock());
    file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// Takes the database lock together with other users of the database.
pub(crate) fn share_database(folder: &DataFolder) -> Result<FolderLock, StoreError> {
    lock_database(folder, File::try_lock_shared)
}

/// Takes the database lock alone: no other process has the database open.
pub(crate) fn own_database(folder: &DataFolder) -> Result<FolderLock, StoreError> {
    lock_database(folder, File::try_lock)
}

fn lock_database(
    folder: &DataFolder,
    try_lock: fn(&File) -> Result<(), TryLockError>,
) -> Result<FolderLock, StoreError> {
    let file = open(folder, &folder.database_lock())?;
    let deadline = Instant::now() + WAIT_MAX;
    while !is_locked(folder, try_lock(&file), deadline)? {}
    Ok(FolderLock { _file: file })
}

/// Takes the database lock exclusively as soon as it is free; `None` once the condition is false,
/// since another process may have made it so and keep the lock.
pub(crate) fn own_database_while(
    folder: &DataFolder,
    condition: impl Fn() -> Result<bool, StoreError>,
) -> Result<Option<FolderLock>, StoreError> {
    let file = open(folder, &folder.database_lock())?;
    let deadline = Instant::now() + WAIT_MAX;
    let mut locked = false;
    while condition()? {
        if locked {
            return Ok(Some(FolderLock { _file: file }));
        }
        locked = is_locked(folder, file.try_lock(), deadline)?;
    }
    Ok(None)
}

/// Whether an attempt succeeded. If another process has the lock, this waits for the next attempt,
/// but not beyond the deadline.
fn is_locked(
    folder: &DataFolder,
    attempt: Result<(), TryLockError>,
    deadline: Instant,
) -> Result<bool, StoreError> {
    match attempt {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
            thread::sleep(WAIT_STEP);
            Ok(false)
        }
        Err(TryLockError::WouldBlock) => Err(StoreError::InUse {
            file: folder.database(),
        }),
        Err(TryLockError::Error(cause)) => Err(file_error(&folder.database_lock(), cause)),
    }
}

fn open(folder: &DataFolder, path: &Path) -> Result<File, StoreError> {
    let opened = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .custom_flags(folder::NO_LINK)
        .open(path);
    let file = opened.map_err(|cause| file_error(path, cause))?;
    folder::leave_to_owner(&file, folder)?;
    Ok(file)
}
