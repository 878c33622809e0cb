//! MQTT 3.1, 3.1.1 and 5 on the wire, without I/O: for the server, for clients and for the bench.
//!
//! Reasons for a codec of our own: the broker forwards the bytes that it read, so decoding must
//! borrow from the read buffer (no allocation for a PUBLISH, regardless of its properties), and
//! encoding must append to a shared buffer. Every packet can be decoded and encoded, so the load
//! generator and the server use the same interpretation of the standard.
//!
//! [`Frame::split`] finds the end of a packet, [`Packet::decode`] reads it, and `encode` of each
//! packet's type appends it to a [`bytes::BytesMut`].
//!
//! Invariants:
//! - A decoded packet has passed every check that the standard requires for a packet on its own.
//!   The session checks what depends on the state of the connection (packet identifiers in use,
//!   aliases, quotas).
//! - No input causes a panic, and no memory is allocated for a length that a peer merely claims.
//! - [`DecodeError`] carries the reason code for an MQTT 5 peer.

mod ack;
mod connect;
mod error;
mod frame;
mod packet;
mod properties;
mod property;
mod publish;
mod reason;
mod subscribe;
mod version;
mod wire;

pub use ack::{Ack, Connack, ReasonedPacket};
pub use connect::{Connect, Will};
pub use error::{DecodeError, EncodeError};
pub use frame::{Frame, FrameHeader, PacketType};
pub use packet::{Packet, decode_next};
pub use properties::{PacketProperties, PropertiesBuffer};
pub use property::{Property, PropertyId};
pub use publish::Publish;
pub use reason::Reason;
pub use subscribe::{Filter, Suback, Subscribe, SubscriptionOptions, Unsubscribe};
pub use version::Version;

/// The identifier of a packet that is acknowledged; zero is invalid \[MQTT-2.2.1-3\].
pub type PacketId = std::num::NonZeroU16;
