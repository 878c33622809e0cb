//! The reasons why this server is not part of its cluster, each with its remedy.

use std::path::PathBuf;

use async_nats::{ConnectError, ConnectErrorKind};

use crate::encoding::{EncodingError, VERSION};

/// The version of nats-server from which on the backbone works with it.
pub(crate) const SERVER_VERSION_MIN: (u64, u64) = (2, 15);

/// The reason why this server is not part of its cluster.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BackboneError {
    /// A file of the settings cannot be used.
    #[error("backbone.{setting}: {path} cannot be used: {cause}", path = .path.display())]
    File {
        /// The setting.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        cause: String,
    },
    /// No server could be reached.
    #[error("no NATS server of backbone.nats can be reached: {0}")]
    Unreachable(String),
    /// The servers do not know this server.
    #[error(
        "the NATS servers refuse the login: {0}; correct backbone.credentials, or backbone.user \
         and backbone.password_file"
    )]
    Refused(String),
    /// The connection is not secure.
    #[error("TLS with the NATS servers failed: {0}; name their authority in backbone.tls_ca")]
    Tls(String),
    /// The server's version.
    #[error(
        "nats-server {0} is too old: update it to {min} or later",
        min = format!("{}.{}", SERVER_VERSION_MIN.0, SERVER_VERSION_MIN.1)
    )]
    TooOld(String),
    /// JetStream is off.
    #[error(
        "the NATS servers have no JetStream for this account: write `jetstream {{}}` into the \
         configuration of each, and permit it to the account"
    )]
    NoJetStream,
    /// A stream is missing and cannot be made.
    #[error(
        "the stream {stream} cannot be made with {replicas} replicas: {cause}; start more NATS \
         servers, or, to try it with one, set backbone.replicas = 1"
    )]
    Stream {
        /// Its name.
        stream: String,
        /// The setting.
        replicas: u8,
        /// The server's words.
        cause: String,
    },
    /// A stream is missing, and its making was not answered.
    #[error(
        "the NATS servers do not answer the request for the stream {0}: they are choosing a \
         leader, or most of them are not running"
    )]
    StreamUnanswered(String),
    /// A server acknowledges what it has not written to the disk.
    #[error(
        "the NATS server {0} acknowledges messages before it has written them to the disk: write \
         `jetstream {{ sync_interval: always }}` into its configuration, or, to accept that a loss \
         of power loses acknowledged messages, set backbone.require_sync = false"
    )]
    NotSynchronised(String),
    /// The log has another layout.
    #[error(
        "backbone.{setting} = {own}, and the cluster was made with {of_cluster}: set this on all \
         nodes"
    )]
    Partitions {
        /// The setting.
        setting: &'static str,
        /// Its value here.
        own: String,
        /// The value of the cluster.
        of_cluster: String,
    },
    /// Another server has this number.
    #[error(
        "node = {node} is taken by another running server of this cluster ({holder}): give each \
         server a number of its own"
    )]
    Taken {
        /// The number.
        node: u8,
        /// The other server.
        holder: String,
    },
    /// An earlier server of this number may still be running.
    #[error("node = {node} is still reserved by {holder}, which does not renew it")]
    Held {
        /// The number.
        node: u8,
        /// The earlier server.
        holder: String,
    },
    /// The sessions of a running node cannot be given up.
    #[error("node {0} is running: stop it first, or wait for 10 s if it has just stopped")]
    Running(u8),
    /// Another node has adopted the sessions of this one.
    #[error("another node has adopted the sessions of this node, which was not heard")]
    Adopted,
    /// A failed node had begun to adopt sessions of another failed node.
    #[error(
        "node {0} had begun to adopt them, and has failed as well: its own stream is adopted first"
    )]
    AdoptedLater(u8),
    /// A later version of Gatepost has written what this node has to read.
    #[error(
        "{part} cannot be read further: a later version of Gatepost has written it, with encoding \
         {version}, and this server knows {VERSION}; update this server"
    )]
    Later {
        /// The part that is not read.
        part: String,
        /// The version of the encoding.
        version: u32,
    },
    /// The connection ended.
    #[error("the connection to the NATS servers is lost: {0}")]
    Lost(String),
    /// A reader receives nothing, although its stream has more.
    #[error(
        "the NATS servers deliver nothing of the stream {stream} after message {reached}, although \
         it has message {last}"
    )]
    StandsStill {
        /// The stream.
        stream: String,
        /// The last message that the reader has received.
        reached: u64,
        /// The last message of the stream.
        last: u64,
    },
    /// A request of the engine failed.
    #[error("{action} failed: {cause}")]
    Request {
        /// The request.
        action: &'static str,
        /// The server's words.
        cause: String,
    },
}

impl BackboneError {
    /// Whether only an operator can correct it, so that a start is pointless.
    pub const fn is_lasting(&self) -> bool {
        matches!(
            self,
            Self::File { .. }
                | Self::Refused(_)
                | Self::Tls(_)
                | Self::TooOld(_)
                | Self::NoJetStream
                | Self::NotSynchronised(_)
                | Self::Partitions { .. }
                | Self::Taken { .. }
                | Self::Later { .. }
        )
    }

    /// The error of a part that this version cannot read.
    pub(crate) fn unreadable(part: &str, error: EncodingError) -> Self {
        match error {
            EncodingError::Version(version) => Self::Later {
                part: part.to_owned(),
                version,
            },
            error => Self::Request {
                action: "reading what another node has written",
                cause: format!("{part}: {error}"),
            },
        }
    }

    /// A failed request.
    pub(crate) fn request(action: &'static str, cause: impl ToString) -> Self {
        Self::Request {
            action,
            cause: cause.to_string(),
        }
    }
}

impl From<ConnectError> for BackboneError {
    fn from(error: ConnectError) -> Self {
        let text = error.to_string();
        match error.kind() {
            ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
                Self::Refused(text)
            }
            ConnectErrorKind::Tls => Self::Tls(text),
            _ => Self::Unreachable(text),
        }
    }
}

/// Whether a server of this version can be used.
pub(crate) fn is_recent(version: &str) -> bool {
    let mut parts = version.split(['.', '-']).map(str::parse::<u64>);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= SERVER_VERSION_MIN,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_compared_by_its_numbers() {
        for version in ["2.15.0", "2.15.2-RC.1", "2.100.0", "3.0.0"] {
            assert!(is_recent(version), "{version}");
        }
        for version in ["2.9.10", "2.14.99", "1.99.0", "", "2", "x.y"] {
            assert!(!is_recent(version), "{version}");
        }
    }
}
