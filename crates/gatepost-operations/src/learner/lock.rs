//! The lock that decides which process learns for a data folder.

use std::fs::{File, TryLockError};
use std::path::Path;

use super::LearningError;

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
            .open(&path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(cause)) => Err(failed(cause)),
        }
    }
}
