//! Errors of a client of a broker.

use std::io;

use gatepost_mqtt::{DecodeError, EncodeError, Reason};

/// The reason why a connection failed or ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// A wrong option, or an unusable file.
    #[error("{0}")]
    Usage(String),
    /// The broker cannot be reached, or the connection failed.
    #[error("{address}: {cause}")]
    Unreachable {
        /// The address as the user gave it.
        address: String,
        /// The system's error.
        cause: io::Error,
    },
    /// The connection was lost.
    #[error("the connection was lost: {0}")]
    Lost(io::Error),
    /// CONNACK or DISCONNECT with a failure.
    #[error("the broker {did}: {reason}{}", explained(.text))]
    Refused {
        /// The action of the broker: refused the connection, ended it.
        did: &'static str,
        /// Its code.
        reason: Reason,
        /// Its reason string, if any.
        text: String,
    },
    /// The broker violates the protocol.
    #[error("the broker's answer is malformed: {0}")]
    Malformed(#[from] DecodeError),
    /// A value is too long for a packet.
    #[error("it cannot be sent: {0}")]
    TooLong(#[from] EncodeError),
}

/// A reason string, if any, in parentheses.
pub(crate) fn explained(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!(" ({text})")
    }
}

impl ClientError {
    /// Whether another attempt may succeed.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable { cause, .. } => cause.kind() != io::ErrorKind::InvalidData,
            Self::Lost(_) => true,
            Self::Refused { reason, .. } => matches!(
                *reason,
                Reason::SERVER_UNAVAILABLE
                    | Reason::SERVER_BUSY
                    | Reason::SERVER_SHUTTING_DOWN
                    | Reason::KEEP_ALIVE_TIMEOUT
                    | Reason::QUOTA_EXCEEDED
                    | Reason::ADMINISTRATIVE_ACTION
            ),
            Self::Usage(_) | Self::Malformed(_) | Self::TooLong(_) => false,
        }
    }

    /// BSD's exit codes.
    pub(crate) const fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => 64,
            Self::TooLong(_) => 65,
            Self::Unreachable { .. } | Self::Lost(_) => 69,
            Self::Malformed(_) => 76,
            Self::Refused { .. } => 77,
        }
    }
}
