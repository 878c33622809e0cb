//! The creation of a database, which is complete when it gets its name.
//!
//! SQLite syncs a new file, its journal and its folder eleven times until the schema is in it, and
//! the first start of a server would wait for that. Here the file is made under another name,
//! without a journal, and synced once. A process that ends meanwhile leaves a file that the next
//! creation removes.

use std::fs::{self, File};

use rusqlite::OpenFlags;

use crate::connection::{connect_to, open_error};
use crate::folder::{DataFolder, file_error, remove};
use crate::{StoreError, lock, schema};

/// Creates the database if there is none. The caller does not hold the database lock.
pub(crate) fn create_if_missing(folder: &DataFolder) -> Result<(), StoreError> {
    let Some(_alone) = lock::own_database_while(folder, || is_missing(folder))? else {
        return Ok(());
    };
    let partial = folder.creating();
    remove(&partial)?;
    write(folder).inspect_err(|_| {
        // Fails if the disk fails; the next creation removes the file again.
        let _ = fs::remove_file(&partial);
    })?;
    fs::rename(&partial, folder.database()).map_err(|cause| file_error(&partial, cause))?;
    folder.sync()
}

/// Whether nothing of a database is here. A write-ahead log alone is damage, and a complete
/// recovery waits for its last step.
fn is_missing(folder: &DataFolder) -> Result<bool, StoreError> {
    for file in [folder.database(), folder.wal(), folder.recovered()] {
        let exists = file.try_exists();
        if exists.map_err(|cause| file_error(&file, cause))? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn write(folder: &DataFolder) -> Result<(), StoreError> {
    let failed = |error| open_error(folder, error);
    let mut new = connect_to(folder, DataFolder::creating, OpenFlags::default())?;
    schema::create_unsynced(&mut new).map_err(failed)?;
    schema::use_write_ahead_log(&new).map_err(failed)?;
    new.close().map_err(|(_, error)| failed(error))?;
    let path = folder.creating();
    let synced = File::open(&path).and_then(|file| file.sync_all());
    synced.map_err(|cause| file_error(&path, cause))
}
