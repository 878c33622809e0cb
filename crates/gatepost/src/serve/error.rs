//! The reasons why the server did not start, and their exit codes.

use std::io;

use gatepost_backbone::BackboneError;
use gatepost_listeners::forward::SmarthostMistake;
use gatepost_message::Listener;
use gatepost_operations::learner::LearningError;
use gatepost_settings::Bind;
use gatepost_sinks::WebPushError;
use gatepost_store::StoreError;
use gatepost_users::UsersError;

use super::encryption::UnusableCertificate;
use crate::config::Mistake;
use crate::exit::{EXIT_CONFIG, EXIT_UNAVAILABLE};
use crate::users_marker::UsersMarkerError;

#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Users(#[from] UsersError),
    #[error(transparent)]
    UsersMarker(#[from] UsersMarkerError),
    #[error(transparent)]
    Learner(#[from] LearningError),
    #[error(
        "another process learns for this data folder; start the server again after it has \
        ended"
    )]
    Learning,
    #[error("listeners.{listener}.bind: {bind} cannot be listened on: {cause}")]
    Bind {
        listener: Listener,
        bind: Bind,
        cause: io::Error,
    },
    #[error(
        "listeners.{listener}.bind: {bind} cannot be listened on: {cause}; another gatepost serves \
         the data folder {folder} already"
    )]
    ServedAlready {
        listener: Listener,
        bind: Bind,
        cause: io::Error,
        folder: String,
    },
    #[error("the passed socket '{name}' cannot be served: {cause}")]
    PassedSocket { name: String, cause: io::Error },
    #[error(
        "the passed socket '{name}' listens on {bind}, which is in no `bind` of such a listener"
    )]
    PassedSocketUnused { name: String, bind: Bind },
    #[error(transparent)]
    Smarthost(#[from] SmarthostMistake),
    #[error(transparent)]
    Tls(#[from] UnusableCertificate),
    #[error("access_log.path: {path} cannot be written: {cause}")]
    AccessLog { path: String, cause: io::Error },
    #[error("user: there is no user '{0}'")]
    NoSuchUser(String),
    #[error("user: the server cannot become '{user}': {cause}")]
    Privileges { user: String, cause: io::Error },
    #[error("sandbox = \"required\": the kernel does not provide it: {0}")]
    Sandbox(String),
    #[error("topics: {0}")]
    Topics(String),
    #[error("backbone: {0}")]
    Backbone(#[from] BackboneError),
    #[error("web_push: {0}")]
    WebPush(#[from] WebPushError),
    #[error("the folder of attachments cannot be opened: {0}")]
    Attachments(io::Error),
    #[error("the threads cannot be started: {0}")]
    Threads(io::Error),
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\ngatepost: "))]
    Procedures(Vec<Mistake>),
}

impl StartError {
    pub(super) const fn exit_code(&self) -> u8 {
        match self {
            Self::Procedures(_)
            | Self::Smarthost(_)
            | Self::Tls(_)
            | Self::Topics(_)
            | Self::NoSuchUser(_)
            | Self::PassedSocketUnused { .. }
            | Self::Users(UsersError::Key { .. }) => EXIT_CONFIG,
            Self::Store(_)
            | Self::Users(_)
            | Self::UsersMarker(_)
            | Self::Learner(_)
            | Self::Learning
            | Self::Bind { .. }
            | Self::ServedAlready { .. }
            | Self::PassedSocket { .. }
            | Self::AccessLog { .. }
            | Self::Privileges { .. }
            | Self::Sandbox(_)
            | Self::Backbone(_)
            | Self::WebPush(_)
            | Self::Attachments(_)
            | Self::Threads(_) => EXIT_UNAVAILABLE,
        }
    }
}
