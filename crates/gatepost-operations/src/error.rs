//! Reasons why an operation was not carried out.

use gatepost_store::StoreError;

/// The reason why an operation was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OperationError {
    /// There is no such message.
    #[error("there is no such message")]
    NotFound,
    /// There is nowhere to release the message to.
    #[error("{0}")]
    Nowhere(String),
    /// The message has no sender (a bounce), so no sender can be allowed.
    #[error("the message has no sender")]
    NoSender,
    /// The present state does not permit it.
    #[error("{0}")]
    Conflict(&'static str),
    /// The store, the learner or the server failed.
    #[error("{0}")]
    Failed(String),
}

impl From<StoreError> for OperationError {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.to_string())
    }
}
