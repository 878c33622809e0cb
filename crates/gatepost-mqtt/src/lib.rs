//! MQTT 3.1, 3.1.1 and 5 on the wire, without I/O: for the server, for clients and for the bench.
//!
//! Why a codec of our own: the broker forwards what it read, so decoding must borrow from the
//! read buffer (no allocation for a PUBLISH, whatever properties it has) and encoding must
//! append to a buffer that others share. Both directions of every packet are here, so the load
//! generator and the server are held to the same reading of the standard.
//!
//! The way of a packet: [`Frame::split`] finds where it ends, [`Packet::decode`] reads it,
//! `encode` of each packet's type appends it to a [`bytes::BytesMut`].
//!
//! Invariants:
//! - A decoded packet has passed every check that the standard makes of one packet alone; what
//!   depends on the connection's state (packet identifiers in use, aliases, quotas) is the
//!   session's matter.
//! - No input makes it panic, and nothing is allocated by a length that a peer only claims.
//! - [`DecodeError`] carries the reason code for an MQTT 5 peer.

mod ack;
mod carried;
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
pub use frame::{Frame, FrameHeader, PacketType, REMAINING_LENGTH_MAX};
pub use packet::{Packet, decode_next};
pub use properties::{Properties, PropertiesBuffer};
pub use property::{Property, PropertyId};
pub use publish::Publish;
pub use reason::Reason;
pub use subscribe::{Filter, Suback, Subscribe, SubscriptionOptions, Unsubscribe};
pub use version::Version;

/// The packet identifier of everything that is acknowledged; zero is not one \[MQTT-2.2.1-3\].
pub type PacketId = std::num::NonZeroU16;
