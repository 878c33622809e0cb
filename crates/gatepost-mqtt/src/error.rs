//! Errors of packets.

use crate::Reason;

/// Why bytes are no packet. The reason is what an MQTT 5 peer reads in DISCONNECT or CONNACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{what} ({reason})")]
pub struct DecodeError {
    /// The code for the peer.
    pub reason: Reason,
    /// What is wrong, in words, with the standard's statement where it has one.
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

    /// The bytes parse, but say what the protocol forbids (0x82).
    pub const fn protocol(what: &'static str) -> Self {
        Self {
            reason: Reason::PROTOCOL_ERROR,
            what,
        }
    }

    /// A more particular code.
    pub const fn new(reason: Reason, what: &'static str) -> Self {
        Self { reason, what }
    }
}

/// Why a packet cannot be written.
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
