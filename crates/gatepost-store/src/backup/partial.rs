//! The file of a backup until it is complete: `FILE.partial`.
//!
//! A backup gets its own name when it is complete, in one step that replaces no other file. A
//! process that ends before that leaves the partial file, which the next backup of this name
//! removes. The file is locked while it is written, so that no process removes that of another.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::{BackupError, FILE_MODE};
use crate::folder::file_error;

const SUFFIX: &str = ".partial";
/// The beginning of every database that is not empty.
const DATABASE_START: &[u8] = b"SQLite format 3\0";
/// Several processes may find the remains of an earlier one at the same time.
const ATTEMPTS_MAX: usize = 10;

/// The file, which is removed unless it is completed.
pub(super) struct PartialBackup {
    path: PathBuf,
    _locked: File,
    is_complete: bool,
}

impl PartialBackup {
    /// Creates the file of a backup with this name, in place of what an interrupted backup has
    /// left.
    pub(super) fn create(target: &Path) -> Result<Self, BackupError> {
        let mut path = target.as_os_str().to_owned();
        path.push(SUFFIX);
        let path = PathBuf::from(path);
        let failed = |cause| BackupError::from(file_error(&path, cause));
        for _ in 0..ATTEMPTS_MAX {
            let mut options = File::options();
            let created = options.write(true).create_new(true).mode(FILE_MODE);
            match created.open(&path) {
                Ok(file) => {
                    if is_locked(&file).map_err(failed)? && is_at(&file, &path) {
                        return Ok(Self {
                            path,
                            _locked: file,
                            is_complete: false,
                        });
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    remove_left_over(&path)?;
                }
                Err(cause) => return Err(failed(cause)),
            }
        }
        Err(BackupError::BeingWritten(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the file its name; fails if another file has it.
    pub(super) fn complete(mut self, target: &Path) -> Result<(), BackupError> {
        match rename_to_free(&self.path, target) {
            Ok(()) => {
                self.is_complete = true;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(BackupError::Exists(target.to_owned()))
            }
            Err(cause) => Err(file_error(target, cause).into()),
        }
    }
}

impl Drop for PartialBackup {
    fn drop(&mut self) {
        if !self.is_complete {
            // Fails if the disk fails; the original error is reported.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Removes what an interrupted backup has left. A file that can be none is kept.
fn remove_left_over(path: &Path) -> Result<(), BackupError> {
    let failed = |cause| BackupError::from(file_error(path, cause));
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let mut left = match File::options().read(true).custom_flags(flags).open(path) {
        // Another process has just removed or renamed it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened.map_err(failed)?,
    };
    let mut start = Vec::new();
    let mut head = left.by_ref().take(DATABASE_START.len() as u64);
    head.read_to_end(&mut start).map_err(failed)?;
    if !start.is_empty() && start != DATABASE_START {
        return Err(BackupError::Exists(path.to_owned()));
    }
    if !is_locked(&left).map_err(failed)? {
        return Err(BackupError::BeingWritten(path.to_owned()));
    }
    if is_at(&left, path) {
        fs::remove_file(path).map_err(failed)?;
    }
    Ok(())
}

/// Whether the lock of a file was taken; not if another process has it.
fn is_locked(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Whether this is still the file of this name.
fn is_at(file: &File, path: &Path) -> bool {
    let identity = |found: fs::Metadata| (found.dev(), found.ino());
    let named = fs::symlink_metadata(path).map(identity);
    matches!((file.metadata().map(identity), named), (Ok(own), Ok(named)) if own == named)
}

/// Renames a file, unless there is one of the new name.
fn rename_to_free(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Some file systems, such as NFS, cannot; a second name is refused if it is taken, too.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            fs::hard_link(from, to)?;
            fs::remove_file(from)
        }
        renamed => Ok(renamed?),
    }
}
