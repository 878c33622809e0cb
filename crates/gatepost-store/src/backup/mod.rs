//! Backups: a copy of the database in one file, made while the server runs, and its restoration.
//!
//! A backup is one read transaction of SQLite (`VACUUM INTO`): it contains everything that was
//! acknowledged before it began, and no partial commit. The server can commit meanwhile. The file
//! is an ordinary database that any SQLite opens, with the schema of its source. Invariants: no
//! existing file is overwritten, a file under the name of a backup is complete, and both a backup
//! and a database restored from it have been [verified](verify).

mod partial;
mod restore;
mod verify;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::OpenFlags;
use rusqlite::config::DbConfig;

use crate::folder::{DataFolder, file_error};
use crate::{StoreError, connection, lock, recovery, schema};
use partial::PartialBackup;

pub use restore::{ExistingDatabase, restore_backup};
pub use verify::{BackupContents, verify_backup};

/// Only the owner may read the file, since it contains mail and password hashes.
const FILE_MODE: u32 = 0o600;

/// The reason why a backup was not made or not restored.
#[derive(Debug, Clone, thiserror::Error)]
pub enum BackupError {
    /// The data folder has no database.
    #[error("there is no database {0}; nothing was written")]
    NoDatabase(PathBuf),
    /// A file with the name of the backup, or the database to restore, exists already.
    #[error("{0} exists already and was not overwritten")]
    Exists(PathBuf),
    /// Another process writes a backup of this name.
    #[error("another process writes {0}; wait until it has ended")]
    BeingWritten(PathBuf),
    /// The name has characters that SQLite cannot be given.
    #[error("{0}: a name that is not UTF-8 cannot be used")]
    Name(PathBuf),
    /// The file is not a complete, readable database of Gatepost.
    #[error("{file} is not a usable backup: {reason}; nothing was restored")]
    Unusable {
        /// The backup.
        file: PathBuf,
        /// A description of the error.
        reason: String,
    },
    /// Any other error.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Writes a backup of the database in `data` to the new file `target`, beside a running server or
/// without one, and verifies it. Rows whose checksum is wrong are copied unchanged:
/// [`BackupContents::rows_damaged`] counts them.
pub fn write_backup(data: &Path, target: &Path) -> Result<BackupContents, BackupError> {
    let folder = DataFolder::at(data);
    let database = folder.database();
    if !database
        .try_exists()
        .map_err(|cause| file_error(&database, cause))?
    {
        return Err(BackupError::NoDatabase(database));
    }
    let _lock = lock::share_database(&folder)?;
    if recovery::was_interrupted(&folder)? {
        return Err(StoreError::RecoveryInterrupted { file: database }.into());
    }
    let exists = target.try_exists();
    if exists.map_err(|cause| file_error(target, cause))? {
        return Err(BackupError::Exists(target.to_owned()));
    }
    let partial = PartialBackup::create(target)?;
    copy(&folder, partial.path())?;
    let contents = verify_backup(partial.path())?;
    sync(partial.path())?;
    partial.complete(target)?;
    sync_folder_of(target)?;
    Ok(contents)
}

/// Copies the database within one transaction.
fn copy(folder: &DataFolder, target: &Path) -> Result<(), BackupError> {
    let name = target
        .to_str()
        .ok_or_else(|| BackupError::Name(target.to_owned()))?;
    let failed = |error| connection::open_error(folder, error);
    // SQLite needs to write for the log's index only: the pages of the database are unchanged.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = connection::connect(folder, flags)?;
    let configured = connection
        .busy_timeout(schema::BUSY_TIME_MAX)
        .and_then(|()| connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true));
    configured.map_err(failed)?;
    let found = schema::version(&connection).map_err(failed)?;
    if found > schema::VERSION {
        let (file, known) = (folder.database(), schema::VERSION);
        return Err(StoreError::LaterSchema { file, found, known }.into());
    }
    connection
        .execute("VACUUM INTO ?", [name])
        .map_err(|error| {
            if connection::is_damage(&error) {
                BackupError::from(failed(error))
            } else {
                let cause = io::Error::other(error.to_string());
                file_error(target, cause).into()
            }
        })?;
    Ok(())
}

fn sync(path: &Path) -> Result<(), StoreError> {
    let synced = File::open(path).and_then(|file| file.sync_all());
    synced.map_err(|cause| file_error(path, cause))
}

fn sync_folder_of(path: &Path) -> Result<(), StoreError> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    sync(folder)
}

/// An error of SQLite in a file that should be a backup.
fn unusable(file: &Path, error: &rusqlite::Error) -> BackupError {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::CannotOpen | rusqlite::ErrorCode::PermissionDenied) => {
            BackupError::Store(StoreError::Open {
                file: file.to_owned(),
                cause: Arc::new(rusqlite::Error::InvalidPath(file.to_owned())),
            })
        }
        _ => BackupError::Unusable {
            file: file.to_owned(),
            reason: error.to_string(),
        },
    }
}
