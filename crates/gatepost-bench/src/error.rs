//! Errors that prevent a measurement.

use std::io;
use std::path::PathBuf;

/// The reason why a scenario could not be run. Failures *during* a measurement are figures, not
/// errors.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The scenario does not support this target.
    #[error("{scenario} cannot use '{target}'; it takes {takes}")]
    Target {
        /// The scenario's name.
        scenario: &'static str,
        /// The target as given.
        target: String,
        /// The supported targets.
        takes: &'static str,
    },
    /// Invalid settings.
    #[error("{0}")]
    Settings(String),
    /// A URL is malformed.
    #[error("'{0}' is not a target; use mqtt://HOST:PORT, http://HOST:PORT/PATH, … or a command")]
    Url(String),
    /// Neither a target nor a peer was given.
    #[error("missing target: give a URL, a command or a --peer; 'gatepost-bench peers' lists them")]
    NoTarget,
    /// No peer definition has this name.
    #[error("there is no peer '{0}'; 'gatepost-bench peers' lists all peers")]
    UnknownPeer(String),
    /// The peer does not have the requested offer.
    #[error("{peer} does not offer '{wanted}'; it offers {offers}")]
    NoOffer {
        /// The peer's name.
        peer: String,
        /// The offer.
        wanted: String,
        /// The peer's offers.
        offers: String,
    },
    /// A peer's program is not installed.
    #[error(
        "{peer}: the program '{program}' is not installed (searched PATH and {searched}){hint}"
    )]
    NotInstalled {
        /// The peer's name.
        peer: String,
        /// Its program.
        program: String,
        /// The other folders searched.
        searched: String,
        /// The way to install it, if the definition names one.
        hint: String,
    },
    /// A peer definition is malformed.
    #[error("peer definition {name}: {reason}")]
    Definition {
        /// File or name.
        name: String,
        /// A description of the error.
        reason: String,
    },
    /// A peer did not start.
    #[error("{peer} did not become ready: {reason}")]
    NotReady {
        /// The peer's name.
        peer: String,
        /// The failure, with the end of its output.
        reason: String,
    },
    /// The server refused, or closed the connection, before the measurement.
    #[error("{target}: {reason}")]
    Server {
        /// The target.
        target: String,
        /// A description of the failure.
        reason: String,
    },
    /// A file cannot be read or written.
    #[error("{path}: {error}")]
    File {
        /// Its path.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// A stored result or column file is malformed.
    #[error("{path}: {reason}")]
    Data {
        /// Its path.
        path: PathBuf,
        /// A description of the error.
        reason: String,
    },
    /// Ratios to peers that fell by more than is permitted, and faults that increased.
    #[error("{0} results are worse than in the record before by more than is permitted")]
    RatiosFell(usize),
    /// Another system error.
    #[error(transparent)]
    System(#[from] io::Error),
    /// A failed system call.
    #[error("system call: {0}")]
    Errno(#[from] rustix::io::Errno),
    /// The run was interrupted before it had results.
    #[error("interrupted before anything was measured")]
    Interrupted,
}

impl BenchError {
    pub(crate) fn server(target: &impl ToString, reason: impl Into<String>) -> Self {
        Self::Server {
            target: target.to_string(),
            reason: reason.into(),
        }
    }
}
