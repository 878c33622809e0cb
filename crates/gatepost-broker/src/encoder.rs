//! Encoding of deliveries by the listeners: the broker itself knows no protocol.
//!
//! A listener provides one [`Encoder`] for each of its wire formats (MQTT 3.1.1, MQTT 5, each also
//! in WebSocket frames). The broker calls it once for each publication, and all sessions of that
//! format share the bytes.

use std::fmt;
use std::io::{self, IoSlice};
use std::num::NonZeroU16;
use std::ops::Deref;
use std::ptr;
use std::sync::Arc;

use bytes::BytesMut;
use gatepost_message::{Publication, Qos};

/// The encoder of a connection. Cloning a static one counts no references.
#[derive(Clone)]
pub enum WireFormat {
    /// A format of the protocol itself.
    Static(&'static dyn Encoder),
    /// A format that some connections need; it is freed with the last of them.
    Owned(Arc<dyn Encoder>),
}

impl WireFormat {
    /// Whether sessions of both formats share bytes.
    pub(crate) fn shares_bytes_with(&self, other: &Self) -> bool {
        let is_same_static = match (self, other) {
            // Values without a size may have one address.
            (Self::Static(one), Self::Static(other)) => {
                ptr::addr_eq(*one, *other) && size_of_val(*one) > 0
            }
            _ => false,
        };
        is_same_static || self.name() == other.name()
    }
}

impl Deref for WireFormat {
    type Target = dyn Encoder;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Static(encoder) => *encoder,
            Self::Owned(encoder) => &**encoder,
        }
    }
}

impl fmt::Debug for WireFormat {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The parts that differ between deliveries of one publication.
#[derive(Debug, Clone, Copy, Default)]
pub struct FrameOptions<'a> {
    /// The QoS of this delivery.
    pub qos: Qos,
    /// Whether it may have been sent before.
    pub dup: bool,
    /// The retain flag.
    pub retain: bool,
    /// Present at QoS 1 and 2, unless the caller fills it in later.
    pub packet_id: Option<NonZeroU16>,
    /// The subscription identifiers of all subscriptions that match.
    pub identifiers: &'a [u32],
    /// The topic alias to use.
    pub alias: Option<TopicAlias>,
    /// The seconds of expiry that are left.
    pub expiry_seconds: Option<u32>,
}

/// A number that stands for a topic on one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicAlias {
    /// The number.
    pub number: u16,
    /// Whether the topic must be sent too, because the receiver does not know the number yet.
    pub is_new: bool,
}

/// The publication cannot be encoded in this format, for example because it is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the publication cannot be written in this format")]
pub struct Unencodable;

/// Writes publications in one wire format.
pub trait Encoder: Send + Sync {
    /// A unique name: sessions whose formats have equal names share bytes.
    fn name(&self) -> &str;

    /// Appends the frame, and returns the packet identifier's offset in it (0 if none). A
    /// failure leaves `out` unchanged.
    fn encode(
        &self,
        publication: &Publication,
        options: &FrameOptions<'_>,
        out: &mut BytesMut,
    ) -> Result<usize, Unencodable>;

    /// Appends the frame that releases an exactly-once delivery (MQTT's PUBREL).
    fn encode_release(&self, packet_id: NonZeroU16, out: &mut BytesMut);
}

/// The writing side of a subscriber's connection.
pub trait SubscriberSocket: Send + Sync {
    /// Writes as many bytes as the socket accepts, without waiting; `WouldBlock` if it accepts
    /// none.
    fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize>;
}
