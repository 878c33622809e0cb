//! The lock that decides which process learns for a data folder.

use std::fs::{File, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use super::LearningError;
use crate::ownership::leave_to_owner;

const FILE_NAME: &str = "learner.lock";

/// Held by the learner; the system releases it when the process ends, even abnormally.
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock; `None` if another process has it.
    pub(super) fn take(folder: &Path) -> Result<Option<Self>, LearningError> {
        let path = folder.join(FILE_NAME);
        let failed = |cause| LearningError::Lock(path.display().to_string(), cause);
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .custom_flags(OFlags::NOFOLLOW.bits() as i32)
            .open(&path)
            .map_err(failed)?;
        leave_to_owner(&file, folder).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(cause)) => Err(failed(cause)),
        }
    }
}
