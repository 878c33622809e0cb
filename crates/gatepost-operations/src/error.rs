//! Reasons why an operation was not carried out.

use std::borrow::Cow;

use gatepost_store::StoreError;
use serde::{Deserialize, Serialize};

/// The reason why an operation was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
    Conflict(Cow<'static, str>),
    /// The node that has the message, or was chosen, did not answer.
    #[error("node {0} did not answer")]
    NoAnswer(u8),
    /// The cluster has no such node.
    #[error("the cluster has no node {0}")]
    NoSuchNode(u8),
    /// The store, the learner or the server failed.
    #[error("{0}")]
    Failed(String),
}

impl From<StoreError> for OperationError {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.to_string())
    }
}
