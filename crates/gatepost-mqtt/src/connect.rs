//! CONNECT (section 3.1): the first packet, and the Will in it.

use bytes::{BufMut, BytesMut};
use gatepost_message::{Qos, Topic};

use crate::ack::expect_end;
use crate::frame::PacketType;
use crate::property::WILL;
use crate::wire::{ByteReader, put_binary, put_packet, put_string};
use crate::{DecodeError, EncodeError, Frame, PacketProperties, Property, Reason, Version};

/// CONNECT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connect<'a> {
    /// The protocol version of the rest of the connection.
    pub version: Version,
    /// Whether earlier state must be discarded (3.1.1: clean session).
    pub clean_start: bool,
    /// The longest time without a packet from the client, in seconds; 0 for no limit.
    pub keep_alive_seconds: u16,
    /// MQTT 5 only.
    pub properties: PacketProperties<'a>,
    /// The client id; empty if the server is to choose it.
    pub client_id: &'a str,
    /// The publication to send when the connection ends without a DISCONNECT.
    pub will: Option<Will<'a>>,
    /// The user.
    pub user_name: Option<&'a str>,
    /// Any bytes.
    pub password: Option<&'a [u8]>,
}

/// A publication that is sent when the client's connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Will<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The payload.
    pub payload: &'a [u8],
    /// The quality of service.
    pub qos: Qos,
    /// Whether the topic retains it.
    pub retain: bool,
    /// MQTT 5 only.
    pub properties: PacketProperties<'a>,
}

mod flag {
    pub(super) const RESERVED: u8 = 1;
    pub(super) const CLEAN_START: u8 = 1 << 1;
    pub(super) const WILL: u8 = 1 << 2;
    pub(super) const WILL_QOS_SHIFT: u8 = 3;
    pub(super) const WILL_RETAIN: u8 = 1 << 5;
    pub(super) const PASSWORD: u8 = 1 << 6;
    pub(super) const USER_NAME: u8 = 1 << 7;
}

impl<'a> Connect<'a> {
    pub(crate) fn decode(frame: Frame<'a>) -> Result<Self, DecodeError> {
        let mut reader = ByteReader::new(frame.body);
        let name = reader.binary()?;
        if name != b"MQTT" && name != b"MQIsdp" {
            // [MQTT-3.1.2-1]: no answer is possible in an unknown protocol.
            return Err(DecodeError::malformed(
                "the protocol name is not MQTT [MQTT-3.1.2-1]",
            ));
        }
        let version =
            Version::from_name_and_level(name, reader.byte()?).ok_or(DecodeError::new(
                Reason::UNSUPPORTED_PROTOCOL_VERSION,
                "an unknown protocol level [MQTT-3.1.2-2]",
            ))?;
        let flags = reader.byte()?;
        check_flags(version, flags)?;
        let keep_alive_seconds = reader.two_bytes()?;
        let properties = crate::ack::read_properties(version, &mut reader, PacketType::Connect)?;
        check_authentication(properties)?;
        let client_id = reader
            .name()
            .map_err(|error| DecodeError::new(Reason::CLIENT_IDENTIFIER_NOT_VALID, error.what))?;
        let will = if flags & flag::WILL == 0 {
            None
        } else {
            Some(Will::decode(version, flags, &mut reader)?)
        };
        let user_name = (flags & flag::USER_NAME != 0)
            .then(|| reader.name())
            .transpose()?;
        let password = (flags & flag::PASSWORD != 0)
            .then(|| reader.binary())
            .transpose()?;
        expect_end(reader)?;
        Ok(Self {
            version,
            clean_start: flags & flag::CLEAN_START != 0,
            keep_alive_seconds,
            properties,
            client_id,
            will,
            user_name,
            password,
        })
    }

    /// Appends the packet.
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        put_packet(out, PacketType::Connect.first_byte(), |body| {
            put_string(body, self.version.protocol_name())?;
            body.put_u8(self.version.level());
            body.put_u8(self.flags());
            body.put_u16(self.keep_alive_seconds);
            if self.version.has_properties() {
                self.properties.write(body);
            }
            put_string(body, self.client_id)?;
            if let Some(will) = &self.will {
                if self.version.has_properties() {
                    will.properties.write(body);
                }
                put_string(body, will.topic)?;
                put_binary(body, will.payload)?;
            }
            if let Some(user_name) = self.user_name {
                put_string(body, user_name)?;
            }
            if let Some(password) = self.password {
                put_binary(body, password)?;
            }
            Ok(())
        })
    }

    fn flags(&self) -> u8 {
        let will = self.will.as_ref().map_or(0, |will| {
            flag::WILL
                | will.qos.level() << flag::WILL_QOS_SHIFT
                | if will.retain { flag::WILL_RETAIN } else { 0 }
        });
        will | if self.clean_start {
            flag::CLEAN_START
        } else {
            0
        } | if self.user_name.is_some() {
            flag::USER_NAME
        } else {
            0
        } | if self.password.is_some() {
            flag::PASSWORD
        } else {
            0
        }
    }
}

/// Authentication Data needs an Authentication Method (section 3.1.2.11.10).
fn check_authentication(properties: PacketProperties<'_>) -> Result<(), DecodeError> {
    let (mut has_method, mut has_data) = (false, false);
    for property in properties.iter() {
        has_method |= matches!(property, Property::AuthenticationMethod(_));
        has_data |= matches!(property, Property::AuthenticationData(_));
    }
    if has_data && !has_method {
        return Err(DecodeError::protocol(
            "Authentication Data without an Authentication Method [section 3.1.2.11.10]",
        ));
    }
    Ok(())
}

fn check_flags(version: Version, flags: u8) -> Result<(), DecodeError> {
    // 3.1 left the bit open.
    if flags & flag::RESERVED != 0 && version != Version::Mqtt31 {
        return Err(DecodeError::malformed(
            "the reserved flag of CONNECT is 0 [MQTT-3.1.2-3]",
        ));
    }
    let will_details = flags & (0b11 << flag::WILL_QOS_SHIFT | flag::WILL_RETAIN);
    if flags & flag::WILL == 0 && will_details != 0 {
        return Err(DecodeError::malformed(
            "without a Will its QoS and retain are 0 [MQTT-3.1.2-11] [MQTT-3.1.2-13]",
        ));
    }
    if !version.has_properties() && flags & flag::PASSWORD != 0 && flags & flag::USER_NAME == 0 {
        return Err(DecodeError::malformed(
            "a password needs a user name (3.1.1) [MQTT-3.1.2-22]",
        ));
    }
    Ok(())
}

impl<'a> Will<'a> {
    fn decode(
        version: Version,
        flags: u8,
        reader: &mut ByteReader<'a>,
    ) -> Result<Self, DecodeError> {
        let qos = Qos::from_level((flags >> flag::WILL_QOS_SHIFT) & 0b11).ok_or(
            DecodeError::malformed("there is no Will QoS 3 [MQTT-3.1.2-12]"),
        )?;
        let properties = if version.has_properties() {
            PacketProperties::read(reader, WILL, false)?
        } else {
            PacketProperties::EMPTY
        };
        let topic = reader.name()?;
        Topic::check(topic).map_err(|_| {
            DecodeError::new(
                Reason::TOPIC_NAME_INVALID,
                "the Will's topic is not a topic",
            )
        })?;
        Ok(Self {
            topic,
            payload: reader.binary()?,
            qos,
            retain: flags & flag::WILL_RETAIN != 0,
            properties,
        })
    }
}
