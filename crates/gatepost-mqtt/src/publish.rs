//! PUBLISH (section 3.3).

use bytes::{BufMut, BytesMut};
use gatepost_message::{Qos, Topic};

use crate::frame::PacketType;
use crate::wire::{
    ByteReader, VARIABLE_INTEGER_MAX, put_string, put_variable_integer, variable_integer_length,
};
use crate::{
    DecodeError, EncodeError, Frame, PacketId, PacketProperties, Property, Reason, Version,
};

/// A publication, borrowed from the packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Publish<'a> {
    /// Whether the packet may have been sent before.
    pub dup: bool,
    /// The quality of service.
    pub qos: Qos,
    /// From a client: retain it. From the server: it was retained, or the flag is as published.
    pub retain: bool,
    /// Empty only if a topic alias replaces it.
    pub topic: &'a str,
    /// Present at QoS 1 and 2.
    pub packet_id: Option<PacketId>,
    /// MQTT 5 only.
    pub properties: PacketProperties<'a>,
    /// The payload.
    pub payload: &'a [u8],
}

impl<'a> Publish<'a> {
    pub(crate) fn decode(version: Version, frame: Frame<'a>) -> Result<Self, DecodeError> {
        let flags = frame.header.flags;
        let qos = Qos::from_level((flags >> 1) & 0b11)
            .ok_or(DecodeError::malformed("there is no QoS 3 [MQTT-3.3.1-4]"))?;
        let mut reader = ByteReader::new(frame.body);
        let topic = reader.name()?;
        let packet_id = match qos {
            Qos::AtMostOnce => None,
            _ => Some(reader.packet_id()?),
        };
        let properties = if version.has_properties() {
            PacketProperties::read(&mut reader, PacketType::Publish.bit(), true)?
        } else {
            PacketProperties::EMPTY
        };
        let publish = Self {
            dup: flags & 0b1000 != 0,
            qos,
            retain: flags & 0b0001 != 0,
            topic,
            packet_id,
            properties,
            payload: reader.rest(),
        };
        publish.check_topic()?;
        Ok(publish)
    }

    fn check_topic(&self) -> Result<(), DecodeError> {
        if self.topic.is_empty() {
            return match self.topic_alias() {
                Some(_) => Ok(()),
                None => Err(DecodeError::protocol(
                    "a topic has at least one character [MQTT-4.7.3-1]",
                )),
            };
        }
        Topic::check(self.topic).map_err(|error| match error {
            gatepost_message::TopicError::Wildcard => DecodeError::malformed(
                "a topic to publish to must not contain a wildcard [MQTT-3.3.2-2]",
            ),
            _ => DecodeError::new(Reason::TOPIC_NAME_INVALID, "the topic is refused"),
        })
    }

    /// The number that stands for the topic, or will stand for it from now on.
    pub fn topic_alias(&self) -> Option<u16> {
        self.properties.find(|property| match property {
            Property::TopicAlias(alias) => Some(alias),
            _ => None,
        })
    }

    fn body_length(&self, version: Version) -> usize {
        let packet_id = if self.qos == Qos::AtMostOnce { 0 } else { 2 };
        let properties = if version.has_properties() {
            self.properties.encoded_length()
        } else {
            0
        };
        2 + self.topic.len() + packet_id + properties + self.payload.len()
    }

    /// The number of bytes that [`Publish::encode`] appends.
    pub fn encoded_length(&self, version: Version) -> usize {
        let body = self.body_length(version);
        1 + variable_integer_length(body) + body
    }

    /// Appends the packet, and returns the offset of the packet identifier in it (0 at QoS 0), so
    /// that one encoding serves many receivers that differ only in the identifier.
    ///
    /// At QoS 1 and 2 without a `packet_id` the two bytes are zero, and the caller fills them in.
    pub fn encode(&self, version: Version, out: &mut BytesMut) -> Result<usize, EncodeError> {
        self.encode_head(version, out, self.payload.len())
            .inspect(|_| out.put_slice(self.payload))
    }

    /// Appends everything except the payload, for callers that send it themselves; `payload_length`
    /// is included in the remaining length.
    pub fn encode_head(
        &self,
        version: Version,
        out: &mut BytesMut,
        payload_length: usize,
    ) -> Result<usize, EncodeError> {
        let length = self.body_length(version) - self.payload.len() + payload_length;
        if length > VARIABLE_INTEGER_MAX {
            return Err(EncodeError::PacketTooLong(length));
        }
        if self.topic.len() > usize::from(u16::MAX) {
            return Err(EncodeError::ValueTooLong(self.topic.len()));
        }
        let start = out.len();
        out.reserve(5 + length);
        let flags = u8::from(self.dup) << 3 | self.qos.level() << 1 | u8::from(self.retain);
        out.put_u8(PacketType::Publish.first_byte() | flags);
        put_variable_integer(out, length);
        put_string(out, self.topic)?;
        let mut packet_id_at = 0;
        if self.qos != Qos::AtMostOnce {
            packet_id_at = out.len() - start;
            out.put_u16(self.packet_id.map_or(0, PacketId::get));
        }
        if version.has_properties() {
            self.properties.write(out);
        }
        Ok(packet_id_at)
    }
}
