//! The failure to store a message, as listeners report it.

use gatepost_message::{Action, Verdict};
use gatepost_store::StoreError;
use thiserror::Error;

/// The reason why a message was not stored, of the kinds that protocols tell apart. The store logs
/// the cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum StorageFailure {
    /// The disk is full, or nearly so.
    #[error("the disk is full, try again later")]
    DiskFull,
    /// It is longer than the servers of the cluster can store.
    #[error("the message is too long for the mailboxes of this cluster")]
    TooLong,
    /// The disk or the database failed.
    #[error("the message could not be stored; try again later")]
    Failed,
}

impl StorageFailure {
    pub(crate) fn of(error: &StoreError) -> Self {
        match error {
            StoreError::TooLong { .. } => Self::TooLong,
            error if error.is_disk_full() => Self::DiskFull,
            _ => Self::Failed,
        }
    }

    /// The verdict of the message: its sender is to try again, if that can help.
    pub(crate) fn verdict(self) -> Verdict {
        let action = match self {
            Self::TooLong => Action::Reject,
            Self::DiskFull | Self::Failed => Action::Defer,
        };
        Verdict::new(action, self.to_string())
    }
}
