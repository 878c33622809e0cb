//! The reasons why a bridge is not connected.

use std::io;

use gatepost_mqtt::{DecodeError, EncodeError, Reason};

#[derive(Debug, thiserror::Error)]
pub(super) enum BridgeError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("TLS: {0}")]
    Tls(String),
    #[error("the other broker did not answer in time")]
    Silent,
    #[error("the other broker sent a packet that is not MQTT: {0}")]
    Malformed(#[from] DecodeError),
    #[error("a packet cannot be written: {0}")]
    Unencodable(#[from] EncodeError),
    #[error("the other broker refused the connection: {}", explained(*.0, .1))]
    Refused(Reason, String),
    #[error("the other broker ended the connection: {}", explained(*.0, .1))]
    Ended(Reason, String),
    #[error("the other broker sent {0}")]
    Unexpected(&'static str),
    #[error("the other broker refused the subscription to {0}")]
    NotSubscribed(String),
    #[error("a message of the other broker was not accepted: {0}")]
    NotTaken(String),
    #[error("the messages of the other broker could not be stored")]
    NotStored,
}

/// The name of the reason code, and the reason string if there is one.
fn explained(reason: Reason, said: &str) -> String {
    match said {
        "" => reason.name().to_owned(),
        said => format!("{}: {said}", reason.name()),
    }
}
