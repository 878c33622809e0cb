//! Errors of certificates and keys: the file, the line, and a suggested fix.

use std::path::{Path, PathBuf};

/// The reason why TLS cannot be used as configured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// One of the files. Line 0 stands for the file as a whole.
    #[error("{}{}: {reason}", .file.display(), line_suffix(*.line))]
    File {
        /// The file as configured.
        file: PathBuf,
        /// The line in the file, from 1.
        line: usize,
        /// A description of the error, with a suggested fix.
        reason: String,
    },
    /// A setting is missing.
    #[error("{0}")]
    Setting(&'static str),
    /// The library refused.
    #[error("TLS cannot be set up: {0}")]
    Library(String),
}

fn line_suffix(line: usize) -> String {
    match line {
        0 => String::new(),
        line => format!(":{line}"),
    }
}

impl TlsError {
    pub(super) fn file(file: &Path, line: usize, reason: impl Into<String>) -> Self {
        Self::File {
            file: file.to_owned(),
            line,
            reason: reason.into(),
        }
    }
}

impl From<rustls::Error> for TlsError {
    fn from(error: rustls::Error) -> Self {
        Self::Library(error.to_string())
    }
}
