//! Connections to the database and to files that become it, and the errors of opening them.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::StoreError;
use crate::folder::{DataFolder, file_error};

/// A connection to the database.
pub(crate) fn connect(folder: &DataFolder, flags: OpenFlags) -> Result<Connection, StoreError> {
    connect_to(folder, DataFolder::database, flags)
}

/// A connection to a file of the folder. Root follows no link to it in the folder of another user,
/// who could have it change a database of another owner.
pub(crate) fn connect_to(
    folder: &DataFolder,
    file_of: fn(&DataFolder) -> PathBuf,
    mut flags: OpenFlags,
) -> Result<Connection, StoreError> {
    let mut file = file_of(folder);
    if folder.is_foreign_to_root()? {
        flags |= OpenFlags::SQLITE_OPEN_NOFOLLOW;
        // The flag concerns the path as a whole, and the links above the folder are the operator's.
        let real = folder.path().canonicalize();
        let real = real.map_err(|cause| file_error(folder.path(), cause))?;
        file = file_of(&DataFolder::at(&real));
        let found = fs::symlink_metadata(&file);
        if found.is_ok_and(|found| found.is_symlink()) {
            let cause = io::Error::other("root follows no symbolic link in another user's folder");
            return Err(file_error(&file, cause));
        }
    }
    Connection::open_with_flags(file, flags).map_err(|error| open_error(folder, error))
}

pub(crate) fn open_error(folder: &DataFolder, error: rusqlite::Error) -> StoreError {
    let file = folder.database();
    if is_damage(&error) {
        let reason = error.to_string();
        return StoreError::Damaged { file, reason };
    }
    StoreError::Open {
        file,
        cause: Arc::new(error),
    }
}

/// Whether the error means that the file's content is wrong, rather than that the file cannot be
/// read.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
    )
}
