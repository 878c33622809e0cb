//! The packets that answer with a reason: CONNACK, PUBACK, PUBREC, PUBREL, PUBCOMP, DISCONNECT and
//! AUTH (sections 3.2, 3.4 to 3.7, 3.14 and 3.15).

use bytes::{BufMut, BytesMut};

use crate::frame::PacketType;
use crate::wire::{ByteReader, put_packet};
use crate::{
    DecodeError, EncodeError, Frame, PacketId, PacketProperties, Property, Reason, Version,
};

/// The answer to CONNECT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connack<'a> {
    /// Whether the server has a session of this client id.
    pub session_present: bool,
    /// The reason; in 3.1.1 a return code on the wire, translated both ways.
    pub reason: Reason,
    /// MQTT 5 only.
    pub properties: PacketProperties<'a>,
}

impl<'a> Connack<'a> {
    pub(crate) fn decode(version: Version, frame: Frame<'a>) -> Result<Self, DecodeError> {
        let mut reader = ByteReader::new(frame.body);
        let flags = reader.byte()?;
        if flags > 1 {
            return Err(DecodeError::malformed(
                "the upper flags of CONNACK are 0 [MQTT-3.2.2-1]",
            ));
        }
        let code = reader.byte()?;
        let reason = if version.has_properties() {
            Reason(code)
        } else {
            Reason::from_connack_return_code(code)
                .ok_or(DecodeError::malformed("a reserved return code"))?
        };
        let properties = read_properties(version, &mut reader, PacketType::Connack)?;
        expect_end(reader)?;
        Ok(Self {
            session_present: flags == 1,
            reason,
            properties,
        })
    }

    /// Appends the packet.
    pub fn encode(&self, version: Version, out: &mut BytesMut) -> Result<(), EncodeError> {
        put_packet(out, PacketType::Connack.first_byte(), |body| {
            // MQTT 3.1 has a reserved byte instead of the flag.
            let has_flag = version != Version::Mqtt31;
            body.put_u8(u8::from(self.session_present && has_flag));
            if version.has_properties() {
                body.put_u8(self.reason.0);
                self.properties.write(body);
            } else {
                body.put_u8(self.reason.connack_return_code());
            }
            Ok(())
        })
    }
}

/// PUBACK, PUBREC, PUBREL or PUBCOMP, depending on the type of the packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack<'a> {
    /// The packet that is acknowledged.
    pub packet_id: PacketId,
    /// Always success before MQTT 5.
    pub reason: Reason,
    /// MQTT 5 only.
    pub properties: PacketProperties<'a>,
}

impl<'a> Ack<'a> {
    /// Success, without properties.
    pub const fn success(packet_id: PacketId) -> Self {
        Self::new(packet_id, Reason::SUCCESS)
    }

    /// This reason, without properties.
    pub const fn new(packet_id: PacketId, reason: Reason) -> Self {
        Self {
            packet_id,
            reason,
            properties: PacketProperties::EMPTY,
        }
    }

    pub(crate) fn decode(version: Version, frame: Frame<'a>) -> Result<Self, DecodeError> {
        let mut reader = ByteReader::new(frame.body);
        let packet_id = reader.packet_id()?;
        let packet_type = frame.header.packet_type;
        let outcome = ReasonedPacket::read(version, &mut reader, packet_type)?;
        Ok(Self {
            packet_id,
            reason: outcome.reason,
            properties: outcome.properties,
        })
    }

    /// Appends the packet as one of `packet_type`. A PUBACK or PUBREC of a failure cannot be
    /// written before MQTT 5, where it would mean success \[MQTT-4.8.0-2\].
    pub fn encode(
        &self,
        packet_type: PacketType,
        version: Version,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        let promises = matches!(packet_type, PacketType::Puback | PacketType::Pubrec);
        if promises && !version.has_properties() && self.reason.is_error() {
            return Err(EncodeError::FailureNotExpressible(self.reason));
        }
        if !version.has_properties()
            || (self.reason == Reason::SUCCESS && self.properties.is_empty())
        {
            out.put_slice(&[packet_type.first_byte(), 2]);
            out.put_u16(self.packet_id.get());
            return Ok(());
        }
        put_packet(out, packet_type.first_byte(), |body| {
            body.put_u16(self.packet_id.get());
            ReasonedPacket::new(self.reason, self.properties).write(body);
            Ok(())
        })
    }
}

/// DISCONNECT or AUTH: a reason and properties. An absent reason is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReasonedPacket<'a> {
    /// The reason.
    pub reason: Reason,
    /// MQTT 5 only.
    pub properties: PacketProperties<'a>,
}

impl<'a> ReasonedPacket<'a> {
    /// Both parts.
    pub const fn new(reason: Reason, properties: PacketProperties<'a>) -> Self {
        Self { reason, properties }
    }

    pub(crate) fn decode(version: Version, frame: Frame<'a>) -> Result<Self, DecodeError> {
        Self::read(
            version,
            &mut ByteReader::new(frame.body),
            frame.header.packet_type,
        )
    }

    /// Reason and properties may both be omitted at the end of a packet (section 3.4.2.1).
    fn read(
        version: Version,
        reader: &mut ByteReader<'a>,
        packet_type: PacketType,
    ) -> Result<Self, DecodeError> {
        let mut outcome = Self::default();
        if version.has_properties() && !reader.is_empty() {
            outcome.reason = Reason(reader.byte()?);
            if !is_allowed(outcome.reason, packet_type) {
                return Err(DecodeError::malformed(
                    "a reason code that this packet does not have",
                ));
            }
            if !reader.is_empty() {
                outcome.properties = read_properties(version, reader, packet_type)?;
            }
        }
        expect_end(*reader)?;
        Ok(outcome)
    }

    fn write(&self, out: &mut impl BufMut) {
        out.put_u8(self.reason.0);
        if !self.properties.is_empty() {
            self.properties.write(out);
        }
    }

    /// Appends the packet as a DISCONNECT.
    pub fn encode_disconnect(
        &self,
        version: Version,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        self.encode(PacketType::Disconnect, version, out)
    }

    /// Appends the packet as an AUTH.
    pub fn encode_auth(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        self.encode(PacketType::Auth, Version::Mqtt5, out)
    }

    fn encode(
        &self,
        packet_type: PacketType,
        version: Version,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        put_packet(out, packet_type.first_byte(), |body| {
            let is_default = self.reason == Reason::SUCCESS && self.properties.is_empty();
            if version.has_properties() && !is_default {
                self.write(body);
            }
            Ok(())
        })
    }

    /// The session's expiry interval in seconds, if DISCONNECT changes it.
    pub fn session_expiry_seconds(&self) -> Option<u32> {
        self.properties.find(|property| match property {
            Property::SessionExpiryInterval(seconds) => Some(seconds),
            _ => None,
        })
    }
}

/// The tables of sections 3.4.2.1, 3.5.2.1, 3.6.2.1, 3.7.2.1, 3.14.2.1 and 3.15.2.1.
fn is_allowed(reason: Reason, packet_type: PacketType) -> bool {
    match packet_type {
        PacketType::Puback | PacketType::Pubrec => matches!(
            reason.0,
            0x00 | 0x10 | 0x80 | 0x83 | 0x87 | 0x90 | 0x91 | 0x97 | 0x99
        ),
        PacketType::Pubrel | PacketType::Pubcomp => matches!(reason.0, 0x00 | 0x92),
        PacketType::Disconnect => matches!(
            reason.0,
            0x00 | 0x04 | 0x80..=0x83 | 0x87 | 0x89 | 0x8B | 0x8D..=0x90 | 0x93..=0xA2
        ),
        PacketType::Auth => matches!(reason.0, 0x00 | 0x18 | 0x19),
        _ => reason.is_known(),
    }
}

pub(crate) fn read_properties<'a>(
    version: Version,
    reader: &mut ByteReader<'a>,
    packet_type: PacketType,
) -> Result<PacketProperties<'a>, DecodeError> {
    if version.has_properties() {
        PacketProperties::read(reader, packet_type.bit(), false)
    } else {
        Ok(PacketProperties::EMPTY)
    }
}

pub(crate) const fn expect_end(reader: ByteReader<'_>) -> Result<(), DecodeError> {
    if reader.is_empty() {
        Ok(())
    } else {
        Err(DecodeError::malformed(
            "the packet continues after its content",
        ))
    }
}
