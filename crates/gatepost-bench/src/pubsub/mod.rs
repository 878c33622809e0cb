//! Brokers from a load generator's view: log in, subscribe, publish, receive.
//!
//! A [`BrokerEndpoint`] is one way to reach one server: its address, its protocol, and the path if
//! the protocol has one. Sending needs no state; received bytes are parsed by a [`PacketReader`],
//! one for each connection, because WebSocket frames and HTTP chunks divide messages at any
//! position.

mod broker;
mod events;
mod login;
mod messages;
mod mqtt;
mod nats;
mod post;
mod redis;
mod stamp;
mod tracker;
mod websocket;

pub use broker::BrokerEndpoint;
pub use login::LoginArguments;
pub use stamp::{MessageStamp, STAMP_BYTES};
pub use tracker::{Tracker, TrackerCounts};

use gatepost_mqtt::{PacketId, PacketType, Version};

use crate::load::ResponseReader;
use crate::target::Url;
use events::EventStream;
use messages::MessageFrames;
use websocket::Frames;

/// A client, as the broker sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientName {
    /// Its client id.
    pub id: String,
    /// Its number among the clients of its kind, from 0.
    pub number: usize,
}

/// The protocol of a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrokerProtocol {
    /// MQTT of this version.
    Mqtt(Version),
    /// MQTT of this version in WebSocket frames.
    WebSocket(Version),
    /// NATS core; the slashes of topics become dots.
    Nats,
    /// The publish/subscribe commands of Redis.
    Redis,
    /// Server-sent events: the subscription is the request.
    Events,
    /// A publication in each message of a WebSocket: the subscription is the upgrade.
    Messages,
    /// Publications as HTTP requests, many on each connection.
    Post,
}

/// A packet of MQTT that acknowledges another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckPacket {
    /// PUBACK, PUBREC, PUBREL or PUBCOMP.
    pub packet_type: PacketType,
    /// The publication's identifier.
    pub packet_id: PacketId,
}

/// A packet or event of the broker.
#[derive(Debug, PartialEq, Eq)]
pub enum PacketEvent<'a> {
    /// A greeting, which must be answered with [`BrokerEndpoint::login`].
    Greeting,
    /// Logged in.
    Ready,
    /// The login was refused, for this reason.
    Refused(String),
    /// The requested stream begins: logged in and subscribed at once.
    Streaming,
    /// One subscription is confirmed, or refused.
    Subscribed {
        /// Whether it was granted.
        granted: bool,
    },
    /// A publication.
    Publication {
        /// Its payload; in a text stream, from the stamp on.
        payload: &'a [u8],
        /// The packet that acknowledges it; `None` at QoS 0.
        answer: Option<AckPacket>,
    },
    /// A packet within an exchange at QoS 2, which must be answered with this one.
    Answer(AckPacket),
    /// A publication of this client was acknowledged: the broker is responsible for it.
    Acknowledged {
        /// The publication; without an identifier it is the oldest one.
        packet_id: Option<PacketId>,
    },
    /// A ping that must be answered.
    Ping,
    /// Any other packet.
    Other,
}

/// The result of reading bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum ReaderStep<'a> {
    /// An event, and the number of bytes consumed for it.
    Event(PacketEvent<'a>, usize),
    /// More bytes are needed; this many were consumed.
    More(usize),
}

/// Parses a connection's bytes.
#[derive(Debug, Default)]
pub enum PacketReader {
    /// MQTT without framing.
    Mqtt(Version),
    /// NATS. Also the placeholder while a conversation has taken its reader out, since it has no
    /// state.
    #[default]
    Nats,
    /// Redis.
    Redis,
    /// MQTT in WebSocket frames.
    WebSocket(Box<Frames>),
    /// Server-sent events.
    Events(Box<EventStream>),
    /// Messages of a WebSocket.
    Messages(MessageFrames),
    /// Responses to POST requests.
    Post(ResponseReader),
}

impl PacketReader {
    /// The next event in `bytes`; bytes that were not consumed are passed again, with more. An
    /// error describes the broker's violation of the protocol.
    #[inline]
    pub fn next<'a>(&'a mut self, bytes: &'a [u8]) -> Result<ReaderStep<'a>, String> {
        match self {
            Self::Mqtt(version) => mqtt::next(*version, bytes),
            Self::Nats => nats::next(bytes),
            Self::Redis => redis::next(bytes),
            Self::WebSocket(frames) => frames.next(bytes),
            Self::Events(stream) => stream.next(bytes),
            Self::Messages(frames) => frames.next(bytes),
            Self::Post(reader) => post::next(reader, bytes),
        }
    }

    /// Passes on each event in `bytes`, until one is refused; returns the number of bytes consumed,
    /// or the broker's violation of the protocol.
    #[inline]
    pub fn read(
        &mut self,
        bytes: &[u8],
        mut handle: impl FnMut(PacketEvent<'_>) -> Result<(), String>,
    ) -> Result<usize, String> {
        let mut taken = 0;
        loop {
            match self.next(&bytes[taken..])? {
                ReaderStep::Event(event, length) => {
                    taken += length;
                    handle(event)?;
                }
                ReaderStep::More(length) => return Ok(taken + length),
            }
        }
    }
}

impl BrokerProtocol {
    /// The protocol of a URL's scheme.
    pub fn of(url: &Url) -> Option<Self> {
        match url.scheme {
            "mqtt" => Some(Self::Mqtt(Version::Mqtt311)),
            "mqtt5" => Some(Self::Mqtt(Version::Mqtt5)),
            "ws" => Some(Self::WebSocket(Version::Mqtt311)),
            "ws5" => Some(Self::WebSocket(Version::Mqtt5)),
            "nats" => Some(Self::Nats),
            "redis" => Some(Self::Redis),
            "sse" => Some(Self::Events),
            "websocket" => Some(Self::Messages),
            "http" => Some(Self::Post),
            _ => None,
        }
    }

    /// A reader for a new connection.
    pub fn reader(self) -> PacketReader {
        match self {
            Self::Mqtt(version) => PacketReader::Mqtt(version),
            Self::WebSocket(version) => PacketReader::WebSocket(Box::new(Frames::new(version))),
            Self::Nats => PacketReader::Nats,
            Self::Redis => PacketReader::Redis,
            Self::Events => PacketReader::Events(Box::default()),
            Self::Messages => PacketReader::Messages(MessageFrames::default()),
            Self::Post => PacketReader::Post(ResponseReader::default()),
        }
    }
}

/// Reads in parts as the loop passes them; returns the payloads of the publications.
#[cfg(test)]
fn publications(mut reader: PacketReader, text: &[u8], part: usize) -> Vec<Vec<u8>> {
    let (mut pending, mut payloads) = (Vec::new(), Vec::new());
    for piece in text.chunks(part) {
        pending.extend_from_slice(piece);
        loop {
            match reader.next(&pending).expect("no violation") {
                ReaderStep::Event(event, taken) => {
                    if let PacketEvent::Publication { payload, .. } = event {
                        payloads.push(payload.to_vec());
                    }
                    pending.drain(..taken);
                }
                ReaderStep::More(taken) => {
                    pending.drain(..taken);
                    break;
                }
            }
        }
    }
    payloads
}
