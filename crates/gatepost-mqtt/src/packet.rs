//! A packet of any type.

use bytes::{BufMut, BytesMut};

use crate::ack::expect_end;
use crate::frame::PacketType;
use crate::wire::ByteReader;
use crate::{
    Ack, Connack, Connect, DecodeError, EncodeError, Frame, Publish, ReasonedPacket, Suback,
    Subscribe, Unsubscribe, Version,
};

/// A decoded packet, borrowed from the read buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // the names are the standard's
pub enum Packet<'a> {
    Connect(Connect<'a>),
    Connack(Connack<'a>),
    Publish(Publish<'a>),
    Puback(Ack<'a>),
    Pubrec(Ack<'a>),
    Pubrel(Ack<'a>),
    Pubcomp(Ack<'a>),
    Subscribe(Subscribe<'a>),
    Suback(Suback<'a>),
    Unsubscribe(Unsubscribe<'a>),
    Unsuback(Suback<'a>),
    Pingreq,
    Pingresp,
    Disconnect(ReasonedPacket<'a>),
    Auth(ReasonedPacket<'a>),
}

impl<'a> Packet<'a> {
    /// Decodes a packet in the connection's `version`; CONNECT contains its own.
    #[inline]
    pub fn decode(version: Version, frame: Frame<'a>) -> Result<Self, DecodeError> {
        let header = frame.header;
        if header.packet_type.is_repeated_3_1(header.flags) && version != Version::Mqtt31 {
            return Err(DecodeError::malformed(
                "the flags of the fixed header are reserved [MQTT-2.1.3-1]",
            ));
        }
        Ok(match frame.header.packet_type {
            PacketType::Publish => Self::Publish(Publish::decode(version, frame)?),
            PacketType::Connect => Self::Connect(Connect::decode(frame)?),
            PacketType::Connack => Self::Connack(Connack::decode(version, frame)?),
            PacketType::Puback => Self::Puback(Ack::decode(version, frame)?),
            PacketType::Pubrec => Self::Pubrec(Ack::decode(version, frame)?),
            PacketType::Pubrel => Self::Pubrel(Ack::decode(version, frame)?),
            PacketType::Pubcomp => Self::Pubcomp(Ack::decode(version, frame)?),
            PacketType::Subscribe => Self::Subscribe(Subscribe::decode(version, frame)?),
            PacketType::Suback => Self::Suback(Suback::decode(version, frame)?),
            PacketType::Unsubscribe => Self::Unsubscribe(Unsubscribe::decode(version, frame)?),
            PacketType::Unsuback => Self::Unsuback(Suback::decode(version, frame)?),
            PacketType::Pingreq => {
                expect_end(ByteReader::new(frame.body)).map(|()| Self::Pingreq)?
            }
            PacketType::Pingresp => {
                expect_end(ByteReader::new(frame.body)).map(|()| Self::Pingresp)?
            }
            PacketType::Disconnect => Self::Disconnect(ReasonedPacket::decode(version, frame)?),
            PacketType::Auth if version.has_properties() => {
                Self::Auth(ReasonedPacket::decode(version, frame)?)
            }
            PacketType::Auth => {
                return Err(DecodeError::malformed("packet type 15 is of MQTT 5"));
            }
        })
    }

    /// The type of the packet.
    pub const fn packet_type(&self) -> PacketType {
        match self {
            Self::Connect(_) => PacketType::Connect,
            Self::Connack(_) => PacketType::Connack,
            Self::Publish(_) => PacketType::Publish,
            Self::Puback(_) => PacketType::Puback,
            Self::Pubrec(_) => PacketType::Pubrec,
            Self::Pubrel(_) => PacketType::Pubrel,
            Self::Pubcomp(_) => PacketType::Pubcomp,
            Self::Subscribe(_) => PacketType::Subscribe,
            Self::Suback(_) => PacketType::Suback,
            Self::Unsubscribe(_) => PacketType::Unsubscribe,
            Self::Unsuback(_) => PacketType::Unsuback,
            Self::Pingreq => PacketType::Pingreq,
            Self::Pingresp => PacketType::Pingresp,
            Self::Disconnect(_) => PacketType::Disconnect,
            Self::Auth(_) => PacketType::Auth,
        }
    }

    /// Appends the packet.
    pub fn encode(&self, version: Version, out: &mut BytesMut) -> Result<(), EncodeError> {
        match self {
            Self::Connect(connect) => connect.encode(out),
            Self::Connack(connack) => connack.encode(version, out),
            Self::Publish(publish) => publish.encode(version, out).map(|_| ()),
            Self::Puback(ack) | Self::Pubrec(ack) | Self::Pubrel(ack) | Self::Pubcomp(ack) => {
                ack.encode(self.packet_type(), version, out)
            }
            Self::Subscribe(subscribe) => subscribe.encode(version, out),
            Self::Suback(suback) => suback.encode(version, out),
            Self::Unsubscribe(unsubscribe) => unsubscribe.encode(version, out),
            Self::Unsuback(unsuback) => unsuback.encode_unsuback(version, out),
            Self::Pingreq | Self::Pingresp => {
                out.put_slice(&[self.packet_type().first_byte(), 0]);
                Ok(())
            }
            Self::Disconnect(outcome) => outcome.encode_disconnect(version, out),
            Self::Auth(outcome) => outcome.encode_auth(out),
        }
    }
}

/// The packet at the front of `buffer`, and its length; `None` if more bytes are needed.
pub fn decode_next(
    version: Version,
    buffer: &[u8],
    size_max: usize,
) -> Result<Option<(Packet<'_>, usize)>, DecodeError> {
    let Some(frame) = Frame::split(buffer, size_max)? else {
        return Ok(None);
    };
    Ok(Some((Packet::decode(version, frame)?, frame.length)))
}
