//! Errors in decoding and encoding packets.

use crate::Reason;

/// Bytes that are not a valid packet. An MQTT 5 peer receives the reason in DISCONNECT or CONNACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{what} ({reason})")]
pub struct DecodeError {
    /// The code for the peer.
    pub reason: Reason,
    /// A description of the error, with the conformance statement of the standard if there is one.
    pub what: &'static str,
}

impl DecodeError {
    /// The bytes do not parse (0x81).
    pub const fn malformed(what: &'static str) -> Self {
        Self {
            reason: Reason::MALFORMED_PACKET,
            what,
        }
    }

    /// The bytes parse, but violate the protocol (0x82).
    pub const fn protocol(what: &'static str) -> Self {
        Self {
            reason: Reason::PROTOCOL_ERROR,
            what,
        }
    }

    /// An error with a more specific code.
    pub const fn new(reason: Reason, what: &'static str) -> Self {
        Self { reason, what }
    }
}

/// The reason why a packet cannot be encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// Strings and binary data have two length bytes \[MQTT-1.5.4\].
    #[error("a string or binary value has {0} bytes, which is more than 65535")]
    ValueTooLong(usize),
    /// The remaining length has 28 bits.
    #[error("a packet has {0} bytes, which is more than 268435455")]
    PacketTooLong(usize),
    /// Before MQTT 5 an acknowledgement always means success.
    #[error("an acknowledgement of this version cannot carry the failure {0}")]
    FailureNotExpressible(Reason),
}
