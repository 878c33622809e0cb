//! Brokers as a load generator sees them: log in, subscribe, publish, receive.

mod mqtt;
mod nats;
mod stamp;
mod tracker;

pub use stamp::{STAMP_BYTES, Stamp};
pub use tracker::{Tally, Tracker};

use crate::target::Url;
use gatepost_message::Qos;
use gatepost_mqtt::{PacketId, Version};

/// How a broker is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// MQTT of this version.
    Mqtt(Version),
    /// NATS core; topics' slashes become its dots.
    Nats,
}

/// What came from the broker.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// It greets, and must be answered with [`Dialect::login`].
    Greeting,
    /// Logged in.
    Ready,
    /// Not logged in, for this reason.
    Refused(String),
    /// One subscription is confirmed, or refused.
    Subscribed {
        /// Whether it stands.
        granted: bool,
    },
    /// A publication; where it has an identifier, an acknowledgement is owed.
    Publication {
        /// Its payload.
        payload: &'a [u8],
        /// At QoS 1.
        packet_id: Option<PacketId>,
    },
    /// A publication of ours was acknowledged.
    Acknowledged,
    /// It asks whether we live.
    Ping,
    /// Nothing of interest.
    Other,
}

impl Dialect {
    /// The dialect of a URL's scheme.
    pub fn of(url: &Url) -> Option<Self> {
        match url.scheme {
            "mqtt" => Some(Self::Mqtt(Version::Mqtt311)),
            "mqtt5" => Some(Self::Mqtt(Version::Mqtt5)),
            "nats" => Some(Self::Nats),
            _ => None,
        }
    }

    /// Whether the client speaks first.
    pub fn client_begins(self) -> bool {
        matches!(self, Self::Mqtt(_))
    }

    /// Appends what logs a client in.
    pub fn login(self, client_id: &str, out: &mut Vec<u8>) {
        match self {
            Self::Mqtt(version) => mqtt::login(version, client_id, out),
            Self::Nats => nats::login(client_id, out),
        }
    }

    /// Appends a subscription; each is confirmed on its own.
    pub fn subscribe(self, topic: &str, number: PacketId, qos: Qos, out: &mut Vec<u8>) {
        match self {
            Self::Mqtt(version) => mqtt::subscribe(version, topic, number, qos, out),
            Self::Nats => nats::subscribe(topic, number, out),
        }
    }

    /// Appends a publication.
    pub fn publish(
        self,
        topic: &str,
        payload: &[u8],
        packet_id: Option<PacketId>,
        out: &mut Vec<u8>,
    ) {
        match self {
            Self::Mqtt(version) => mqtt::publish(version, topic, payload, packet_id, out),
            Self::Nats => nats::publish(topic, payload, out),
        }
    }

    /// Appends the acknowledgement of a received publication.
    pub fn acknowledge(self, packet_id: PacketId, out: &mut Vec<u8>) {
        if let Self::Mqtt(_) = self {
            mqtt::acknowledge(packet_id, out);
        }
    }

    /// Appends the answer to a ping.
    pub fn pong(self, out: &mut Vec<u8>) {
        if self == Self::Nats {
            out.extend_from_slice(b"PONG\r\n");
        }
    }

    /// The next event in `bytes`, with its length; `None` where more bytes are needed. An error is
    /// what the broker did wrong.
    #[inline]
    pub fn next(self, bytes: &[u8]) -> Result<Option<(Event<'_>, usize)>, String> {
        match self {
            Self::Mqtt(version) => mqtt::next(version, bytes),
            Self::Nats => nats::next(bytes),
        }
    }
}
