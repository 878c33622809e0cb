//! Why serving did not start, and the exit code that says so.

use std::io;

use gatepost_message::Listener;
use gatepost_settings::Bind;
use gatepost_store::StoreError;
use gatepost_users::UsersError;

use super::encryption::Unusable;
use crate::cli::{EXIT_CONFIG, EXIT_UNAVAILABLE};
use crate::config::Mistake;
use crate::learning::LearningError;

#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Users(#[from] UsersError),
    #[error(transparent)]
    Learner(#[from] LearningError),
    #[error("another process learns for this data folder; start again when it has ended")]
    Learning,
    #[error("listeners.{listener}.bind: {bind} cannot be listened on: {cause}")]
    Bind {
        listener: Listener,
        bind: Bind,
        cause: io::Error,
    },
    #[error(transparent)]
    Tls(#[from] Unusable),
    #[error("access_log.path: {path} cannot be written: {cause}")]
    AccessLog { path: String, cause: io::Error },
    #[error("the threads cannot be started: {0}")]
    Threads(io::Error),
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\ngatepost: "))]
    Procedures(Vec<Mistake>),
}

impl StartError {
    pub(super) const fn exit_code(&self) -> u8 {
        match self {
            Self::Procedures(_) | Self::Tls(_) | Self::Users(UsersError::Key { .. }) => EXIT_CONFIG,
            Self::Store(_)
            | Self::Users(_)
            | Self::Learner(_)
            | Self::Learning
            | Self::Bind { .. }
            | Self::AccessLog { .. }
            | Self::Threads(_) => EXIT_UNAVAILABLE,
        }
    }
}
