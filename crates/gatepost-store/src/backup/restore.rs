//! Restoration: a verified copy of a backup replaces the database.
//!
//! The copy is written beside the database, synced and verified, and takes its name by the last
//! steps of a recovery, which the next start completes if the process is killed on the way. Until
//! then the previous database is in force.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::{BackupContents, BackupError, FILE_MODE, verify_backup};
use crate::folder::{DataFolder, NO_LINK, file_error, remove};
use crate::{OnDamage, StoreSettings, lock, recovery};

/// The treatment of a database that is in the data folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExistingDatabase {
    /// The restoration is refused.
    Refused,
    /// It is kept as `gatepost.db.replaced-N`.
    Kept,
}

/// Makes the backup in `file` the database of `data`; returns the new name of the previous
/// database, if any. Refused while a server or a command uses the database, for a backup of a newer
/// version, and for one with damaged rows unless `store.on_damage` is `recover`.
pub fn restore_backup(
    file: &Path,
    data: &Path,
    settings: &StoreSettings,
    existing: ExistingDatabase,
) -> Result<(BackupContents, Option<PathBuf>), BackupError> {
    // Checked before anything is created; the copy is also verified.
    File::open(file).map_err(|cause| file_error(file, cause))?;
    let folder = DataFolder::create(data)?;
    let _server_lock = lock::lock_server(&folder)?;
    recovery::finish_interrupted(&folder)?;
    let _exclusive = lock::own_database(&folder)?;
    let database = folder.database();
    let exists = |path: &Path| path.try_exists().map_err(|cause| file_error(path, cause));
    let found = [database, folder.wal()];
    let has_database = exists(&found[0])? || exists(&found[1])?;
    if has_database && existing == ExistingDatabase::Refused {
        let [database, log] = found;
        let is_there = exists(&database)?;
        return Err(BackupError::Exists(if is_there { database } else { log }));
    }
    let contents = verify_backup(file)?;
    if contents.rows_damaged > 0 && settings.on_damage == OnDamage::Refuse {
        let reason = format!(
            "{} of its rows do not fit their checksum; to restore the others, set \
             store.on_damage = \"recover\"",
            contents.rows_damaged
        );
        let file = file.to_owned();
        return Err(BackupError::Unusable { file, reason });
    }
    let partial = folder.recovering();
    remove(&partial)?;
    let copied = copy(file, &partial)
        .map_err(|cause| file_error(&partial, cause).into())
        .and_then(|()| verify_backup(&partial));
    let copied = copied.inspect_err(|_| {
        // Fails if the disk fails; the next restore removes the file again.
        let _ = fs::remove_file(&partial);
    })?;
    if copied != contents {
        let _ = fs::remove_file(&partial);
        let reason = "it changed while it was copied".to_owned();
        let file = file.to_owned();
        return Err(BackupError::Unusable { file, reason });
    }
    let kept = has_database
        .then(|| folder.keep_as("replaced"))
        .transpose()?;
    recovery::complete(&folder)?;
    give_to_folder_owner(&folder);
    Ok((contents, kept))
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut from = File::open(from)?;
    let mut options = File::options();
    let mut to = options
        .write(true)
        .create_new(true)
        .mode(FILE_MODE)
        .open(to)?;
    io::copy(&mut from, &mut to)?;
    to.sync_all()
}

/// Gives the files to the folder's owner, for a root user who restores for a server with a user of
/// its own.
fn give_to_folder_owner(folder: &DataFolder) {
    let Ok(owner) = fs::metadata(folder.path()) else {
        return;
    };
    for file in [
        folder.database(),
        folder.database_lock(),
        folder.server_lock(),
    ] {
        // Only root can and needs to do so; the server reports files that it cannot open. A file
        // with another hard link, or a symbolic link, may belong to another user.
        let opened = File::options().read(true).custom_flags(NO_LINK).open(file);
        if let Ok(opened) = opened
            && opened.metadata().is_ok_and(|found| found.nlink() == 1)
        {
            let _ = std::os::unix::fs::fchown(opened, Some(owner.uid()), Some(owner.gid()));
        }
    }
}
