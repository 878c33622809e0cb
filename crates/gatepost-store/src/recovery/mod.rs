//! Recovery after damage: a new database with every row that can still be read.
//!
//! The damaged files are only read. The new database is written as `gatepost.db.recovering`,
//! synced, and renamed to `gatepost.db.recovered` once it is complete; only then does it take the
//! name of the damaged one, which has a second name by that time. A process that is killed during
//! this leaves either a partial file, which the next start discards, or a complete one, whose
//! takeover the next start [completes](finish_interrupted).

mod image;
mod page;
mod salvage;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::folder::{DataFolder, file_error, remove};
use crate::{StoreError, lock, schema};
use image::DatabaseImage;
use salvage::{SalvageFailure, salvage};

/// The result of a recovery; the default if there was none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovery {
    /// The copy of the damaged file; `None` if the file was whole or new.
    pub damaged_file: Option<PathBuf>,
    /// Rows copied from it.
    pub rows_recovered: u64,
    /// Rows that were found and are damaged.
    pub rows_damaged: u64,
    /// Pages that should contain rows and cannot be read; the number of their rows is unknown.
    pub pages_damaged: u64,
    /// Tables that could not be read completely.
    pub tables_incomplete: Vec<&'static str>,
}

/// Whether a complete recovery waits for its last step.
pub(crate) fn was_interrupted(folder: &DataFolder) -> Result<bool, StoreError> {
    let recovered = folder.recovered();
    let exists = recovered.try_exists();
    exists.map_err(|cause| file_error(&recovered, cause))
}

/// Completes the takeover of a recovery whose process ended before it could.
pub(crate) fn finish_interrupted(folder: &DataFolder) -> Result<(), StoreError> {
    if !was_interrupted(folder)? {
        return Ok(());
    }
    let _exclusive = lock::own_database(folder)?;
    tracing::warn!(target: "store", "an interrupted recovery of the database is completed");
    take_over(folder)
}

/// Recovers. The caller holds the database lock exclusively.
pub(crate) fn recover(folder: &DataFolder) -> Result<Recovery, StoreError> {
    let partial = folder.recovering();
    remove(&partial)?;
    let mut recovery = write_new(folder, &partial).inspect_err(|_| {
        // Fails if the disk fails; the next recovery removes the file again.
        let _ = fs::remove_file(&partial);
    })?;
    recovery.damaged_file = Some(folder.keep_as("damaged")?);
    complete(folder)?;
    Ok(recovery)
}

/// Makes the complete and synced file of a recovery the database. The caller holds the database
/// lock exclusively.
pub(crate) fn complete(folder: &DataFolder) -> Result<(), StoreError> {
    rename(&folder.recovering(), &folder.recovered())?;
    folder.sync()?;
    take_over(folder)
}

/// Gives a complete recovery the database's name. May be repeated after any of its steps.
fn take_over(folder: &DataFolder) -> Result<(), StoreError> {
    // The log belongs to the damaged file, and SQLite would apply it to the new one.
    remove(&folder.wal())?;
    remove(&folder.shared_memory())?;
    folder.sync()?;
    rename(&folder.recovered(), &folder.database())?;
    folder.sync()
}

fn rename(from: &Path, to: &Path) -> Result<(), StoreError> {
    fs::rename(from, to).map_err(|cause| file_error(from, cause))
}

/// Writes all readable rows to a new file and syncs it.
fn write_new(folder: &DataFolder, target: &Path) -> Result<Recovery, StoreError> {
    let database = folder.database();
    let image = DatabaseImage::open(&database, &folder.wal());
    let image = image.map_err(|cause| file_error(&database, cause))?;
    let mut new = Connection::open(target)?;
    schema::create_unsynced(&mut new)?;
    let recovery = salvage(&image, &new).map_err(|failure| match failure {
        SalvageFailure::Read(cause) => file_error(&database, cause),
        SalvageFailure::Write(error) => error,
    })?;
    schema::raise_highest_id(&new)?;
    new.close().map_err(|(_, error)| error)?;
    let synced = File::open(target).and_then(|file| file.sync_all());
    synced.map_err(|cause| file_error(target, cause))?;
    Ok(recovery)
}
