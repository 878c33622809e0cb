//! Why there is no verdict.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a call ended without a verdict.
#[derive(Debug)]
pub(crate) enum CallFailure {
    /// The server could not be reached.
    Connect(io::Error),
    /// The connection ended or broke before the answer was whole.
    Lost(io::Error),
    /// The time for the whole call is over.
    TimedOut,
    /// The server said something that is no answer.
    Answer(String),
    /// The server could not make the call, for the reason it gives.
    Refused(String),
    /// The message file cannot be read, or is not a spool file.
    File(PathBuf, io::Error),
    /// The verdict is known, but the files that XMail needs with it could not be written.
    Write(PathBuf, io::Error),
}

impl CallFailure {
    /// The exit code in XMail's modes. None has bit 16 and none is a verdict of XMail's, so each
    /// lets the message pass and writes the failure to the log.
    pub(crate) const fn xmail_code(&self) -> u8 {
        match self {
            Self::Connect(_) => 202,
            Self::Lost(_) => 203,
            Self::TimedOut => 204,
            Self::Answer(_) | Self::Refused(_) => 205,
            Self::File(..) => 206,
            Self::Write(..) => 207,
        }
    }
}

impl fmt::Display for CallFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(error) => write!(formatter, "no connection: {error}"),
            Self::Lost(error) => write!(formatter, "connection lost: {error}"),
            Self::TimedOut => formatter.write_str("no answer in time"),
            Self::Answer(line) => write!(formatter, "answer not understood: {line:?}"),
            Self::Refused(reason) => write!(formatter, "the server says: {reason}"),
            Self::File(path, error) => write!(formatter, "{}: {error}", path.display()),
            Self::Write(path, error) => {
                write!(formatter, "cannot write {}: {error}", path.display())
            }
        }
    }
}
