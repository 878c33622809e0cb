//! SUBSCRIBE, SUBACK, UNSUBSCRIBE and UNSUBACK (sections 3.8 to 3.11).

use bytes::{BufMut, BytesMut};
use gatepost_message::Qos;
use smallvec::SmallVec;

use crate::ack::read_properties;
use crate::frame::PacketType;
use crate::wire::{ByteReader, put_packet, put_string};
use crate::{
    DecodeError, EncodeError, Frame, PacketId, PacketProperties, Property, Reason, Version,
};

/// Filters of one SUBSCRIBE or UNSUBSCRIBE. Millions fit into a large packet, and each takes a
/// multiple of its bytes as long as the packet is handled.
const FILTERS_MAX: usize = 1 << 18;

const TOO_MANY_FILTERS: DecodeError = DecodeError::new(
    Reason::QUOTA_EXCEEDED,
    "a packet has at most 262144 filters",
);

/// The options of a subscription (section 3.8.3.1). Before MQTT 5 there is only the QoS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubscriptionOptions {
    /// The highest quality of service to deliver at.
    pub qos: Qos,
    /// Whether the client's own publications are not sent to it.
    pub no_local: bool,
    /// Whether the retain flag is kept as the publisher set it.
    pub retain_as_published: bool,
    /// 0: send retained messages; 1: only for a new subscription; 2: none.
    pub retain_handling: u8,
}

impl SubscriptionOptions {
    /// The options that MQTT 3.1.1 has.
    pub const fn at(qos: Qos) -> Self {
        Self {
            qos,
            no_local: false,
            retain_as_published: false,
            retain_handling: 0,
        }
    }

    fn read(version: Version, byte: u8) -> Result<Self, DecodeError> {
        let reserved = if version.has_properties() {
            0b1100_0000
        } else {
            0b1111_1100
        };
        if byte & reserved != 0 {
            return Err(DecodeError::malformed(
                "the reserved bits of the subscription options are 0 [MQTT-3.8.3-5]",
            ));
        }
        let qos = Qos::from_level(byte & 0b11)
            .ok_or(DecodeError::malformed("there is no QoS 3 [MQTT-3.8.3-5]"))?;
        let retain_handling = (byte >> 4) & 0b11;
        if retain_handling == 3 {
            return Err(DecodeError::protocol(
                "there is no Retain Handling 3 [section 3.8.3.1]",
            ));
        }
        Ok(Self {
            qos,
            no_local: byte & 0b0100 != 0,
            retain_as_published: byte & 0b1000 != 0,
            retain_handling,
        })
    }

    fn byte(self, version: Version) -> u8 {
        if !version.has_properties() {
            return self.qos.level();
        }
        self.qos.level()
            | u8::from(self.no_local) << 2
            | u8::from(self.retain_as_published) << 3
            | (self.retain_handling & 0b11) << 4
    }
}

/// One filter of a SUBSCRIBE. The server checks that the filter is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filter<'a> {
    /// The text, with `$share/…` if the subscription is shared.
    pub text: &'a str,
    /// The options of the subscription.
    pub options: SubscriptionOptions,
}

/// Filters to subscribe to, all acknowledged by one SUBACK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscribe<'a> {
    /// For the SUBACK.
    pub packet_id: PacketId,
    /// MQTT 5 only.
    pub properties: PacketProperties<'a>,
    /// At least one.
    pub filters: SmallVec<[Filter<'a>; 2]>,
}

impl<'a> Subscribe<'a> {
    pub(crate) fn decode(version: Version, frame: Frame<'a>) -> Result<Self, DecodeError> {
        let mut reader = ByteReader::new(frame.body);
        let packet_id = reader.packet_id()?;
        let properties = read_properties(version, &mut reader, PacketType::Subscribe)?;
        let mut filters = SmallVec::new();
        while !reader.is_empty() {
            if filters.len() == FILTERS_MAX {
                return Err(TOO_MANY_FILTERS);
            }
            let text = reader.filter()?;
            let options = SubscriptionOptions::read(version, reader.byte()?)?;
            filters.push(Filter { text, options });
        }
        if filters.is_empty() {
            return Err(DecodeError::protocol(
                "SUBSCRIBE has at least one filter [MQTT-3.8.3-2]",
            ));
        }
        Ok(Self {
            packet_id,
            properties,
            filters,
        })
    }

    /// The identifier that deliveries of these subscriptions carry.
    pub fn identifier(&self) -> Option<u32> {
        self.properties.find(|property| match property {
            Property::SubscriptionIdentifier(identifier) => Some(identifier),
            _ => None,
        })
    }

    /// Appends the packet.
    pub fn encode(&self, version: Version, out: &mut BytesMut) -> Result<(), EncodeError> {
        put_packet(out, PacketType::Subscribe.first_byte(), |body| {
            body.put_u16(self.packet_id.get());
            if version.has_properties() {
                self.properties.write(body);
            }
            for filter in &self.filters {
                put_string(body, filter.text)?;
                body.put_u8(filter.options.byte(version));
            }
            Ok(())
        })
    }
}

/// SUBACK or UNSUBACK: one reason for each filter, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suback<'a> {
    /// The packet identifier of the SUBSCRIBE or UNSUBSCRIBE.
    pub packet_id: PacketId,
    /// MQTT 5 only.
    pub properties: PacketProperties<'a>,
    /// The granted level or a failure. A 3.1.1 UNSUBACK has none.
    pub reasons: SmallVec<[Reason; 8]>,
}

impl<'a> Suback<'a> {
    pub(crate) fn decode(version: Version, frame: Frame<'a>) -> Result<Self, DecodeError> {
        let mut reader = ByteReader::new(frame.body);
        let packet_type = frame.header.packet_type;
        let packet_id = reader.packet_id()?;
        let properties = read_properties(version, &mut reader, packet_type)?;
        let codes = reader.rest();
        let is_old_unsuback = packet_type == PacketType::Unsuback && !version.has_properties();
        if codes.is_empty() != is_old_unsuback {
            return Err(DecodeError::malformed("one reason code for each filter"));
        }
        let is_valid = |code: u8| match packet_type {
            PacketType::Suback if version.has_properties() => matches!(
                code,
                0..=2 | 0x80 | 0x83 | 0x87 | 0x8F | 0x91 | 0x97 | 0x9E | 0xA1 | 0xA2
            ),
            PacketType::Suback => matches!(code, 0..=2 | 0x80),
            _ => matches!(code, 0 | 0x11 | 0x80 | 0x83 | 0x87 | 0x8F | 0x91),
        };
        if !codes.iter().copied().all(is_valid) {
            return Err(DecodeError::malformed(
                "a reason code that this packet does not have",
            ));
        }
        Ok(Self {
            packet_id,
            properties,
            reasons: codes.iter().copied().map(Reason).collect(),
        })
    }

    /// Appends the packet as a SUBACK.
    pub fn encode(&self, version: Version, out: &mut BytesMut) -> Result<(), EncodeError> {
        put_packet(out, PacketType::Suback.first_byte(), |body| {
            body.put_u16(self.packet_id.get());
            if version.has_properties() {
                self.properties.write(body);
            }
            for reason in &self.reasons {
                body.put_u8(if version.has_properties() {
                    reason.0
                } else {
                    reason.suback_return_code()
                });
            }
            Ok(())
        })
    }

    /// Appends the packet as an UNSUBACK.
    pub fn encode_unsuback(&self, version: Version, out: &mut BytesMut) -> Result<(), EncodeError> {
        put_packet(out, PacketType::Unsuback.first_byte(), |body| {
            body.put_u16(self.packet_id.get());
            if version.has_properties() {
                self.properties.write(body);
                for reason in &self.reasons {
                    body.put_u8(reason.0);
                }
            }
            Ok(())
        })
    }
}

/// Filters to unsubscribe from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsubscribe<'a> {
    /// For the UNSUBACK.
    pub packet_id: PacketId,
    /// MQTT 5 only.
    pub properties: PacketProperties<'a>,
    /// At least one.
    pub filters: SmallVec<[&'a str; 2]>,
}

impl<'a> Unsubscribe<'a> {
    pub(crate) fn decode(version: Version, frame: Frame<'a>) -> Result<Self, DecodeError> {
        let mut reader = ByteReader::new(frame.body);
        let packet_id = reader.packet_id()?;
        let properties = read_properties(version, &mut reader, PacketType::Unsubscribe)?;
        let mut filters = SmallVec::new();
        while !reader.is_empty() {
            if filters.len() == FILTERS_MAX {
                return Err(TOO_MANY_FILTERS);
            }
            filters.push(reader.filter()?);
        }
        if filters.is_empty() {
            return Err(DecodeError::protocol(
                "UNSUBSCRIBE has at least one filter [MQTT-3.10.3-2]",
            ));
        }
        Ok(Self {
            packet_id,
            properties,
            filters,
        })
    }

    /// Appends the packet.
    pub fn encode(&self, version: Version, out: &mut BytesMut) -> Result<(), EncodeError> {
        put_packet(out, PacketType::Unsubscribe.first_byte(), |body| {
            body.put_u16(self.packet_id.get());
            if version.has_properties() {
                self.properties.write(body);
            }
            for filter in &self.filters {
                put_string(body, filter)?;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Packet;

    #[test]
    fn filters_of_one_packet_are_bounded() {
        let decoded = |packet_type: PacketType, filter: &[u8], count: usize| {
            let mut packet = BytesMut::new();
            put_packet(&mut packet, packet_type.first_byte(), |body| {
                body.put_slice(&[0, 1, 0]);
                (0..count).for_each(|_| body.put_slice(filter));
                Ok(())
            })
            .expect("short enough");
            let frame = Frame::split(&packet, usize::MAX).expect("valid");
            Packet::decode(Version::Mqtt5, frame.expect("whole")).map(|packet| packet.packet_type())
        };
        let subscribe = |count| decoded(PacketType::Subscribe, b"\x00\x01a\x00", count);
        let unsubscribe = |count| decoded(PacketType::Unsubscribe, b"\x00\x01a", count);
        assert_eq!(subscribe(FILTERS_MAX), Ok(PacketType::Subscribe));
        assert_eq!(subscribe(FILTERS_MAX + 1), Err(TOO_MANY_FILTERS));
        assert_eq!(unsubscribe(FILTERS_MAX), Ok(PacketType::Unsubscribe));
        assert_eq!(unsubscribe(FILTERS_MAX + 1), Err(TOO_MANY_FILTERS));
    }
}
