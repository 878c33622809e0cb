//! Reasons for the lack of a verdict.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// The reason why a call ended without a verdict.
#[derive(Debug)]
pub(crate) enum CallFailure {
    /// The server could not be reached.
    Connect(io::Error),
    /// The connection ended or broke before the answer was complete.
    Lost(io::Error),
    /// The deadline of the call has passed.
    TimedOut,
    /// The server's response is not a valid answer.
    Answer(String),
    /// The server could not make the call, for the reason that it states.
    Refused(String),
    /// The message file cannot be read, or is not a spool file.
    File(PathBuf, io::Error),
    /// There is a verdict, but the files that XMail needs with it could not be written.
    Write(PathBuf, io::Error),
}

impl CallFailure {
    /// The exit code in XMail's modes. No code has bit 16 or is a verdict of XMail, so with each of
    /// them XMail accepts the message and writes the failure to its log.
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
