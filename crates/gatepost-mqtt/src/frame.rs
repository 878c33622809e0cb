//! The fixed header (MQTT 5 section 2.1): the type of a packet and its length.

use crate::wire::variable_integer;
use crate::{DecodeError, Reason};

/// The type of a packet: the upper half of its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs)] // the names are the standard's
pub enum PacketType {
    Connect = 1,
    Connack = 2,
    Publish = 3,
    Puback = 4,
    Pubrec = 5,
    Pubrel = 6,
    Pubcomp = 7,
    Subscribe = 8,
    Suback = 9,
    Unsubscribe = 10,
    Unsuback = 11,
    Pingreq = 12,
    Pingresp = 13,
    Disconnect = 14,
    Auth = 15,
}

impl PacketType {
    const ALL: [Self; 15] = [
        Self::Connect,
        Self::Connack,
        Self::Publish,
        Self::Puback,
        Self::Pubrec,
        Self::Pubrel,
        Self::Pubcomp,
        Self::Subscribe,
        Self::Suback,
        Self::Unsubscribe,
        Self::Unsuback,
        Self::Pingreq,
        Self::Pingresp,
        Self::Disconnect,
        Self::Auth,
    ];

    /// The lower half of the first byte if the standard fixes it; PUBLISH defines its own flags.
    const fn flags(self) -> Option<u8> {
        match self {
            Self::Publish => None,
            Self::Pubrel | Self::Subscribe | Self::Unsubscribe => Some(0b0010),
            _ => Some(0),
        }
    }

    /// Whether these are the flags of a repeated packet of MQTT 3.1, where PUBREL, SUBSCRIBE and
    /// UNSUBSCRIBE may carry DUP (MQTT 3.1 section 2.1).
    pub(crate) const fn is_repeated_3_1(self, flags: u8) -> bool {
        matches!(self, Self::Pubrel | Self::Subscribe | Self::Unsubscribe) && flags == 0b1010
    }

    /// The first byte of a packet with the flags that the standard fixes.
    pub const fn first_byte(self) -> u8 {
        let flags = match self.flags() {
            Some(flags) => flags,
            None => 0,
        };
        ((self as u8) << 4) | flags
    }

    /// The bit of this type in a set of types.
    pub(crate) const fn bit(self) -> u16 {
        1 << (self as u8)
    }
}

/// The first byte, checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// The type of the packet.
    pub packet_type: PacketType,
    /// The lower four bits of the first byte.
    pub flags: u8,
}

impl FrameHeader {
    /// Checks the first byte of a packet.
    pub fn new(first_byte: u8) -> Result<Self, DecodeError> {
        let packet_type = usize::from(first_byte >> 4)
            .checked_sub(1)
            .and_then(|index| PacketType::ALL.get(index).copied())
            .ok_or(DecodeError::malformed("packet type 0 is reserved"))?;
        let flags = first_byte & 0x0F;
        match packet_type.flags() {
            Some(fixed) if fixed == flags || packet_type.is_repeated_3_1(flags) => {
                Ok(Self { packet_type, flags })
            }
            Some(_) => Err(DecodeError::malformed(
                "the flags of the fixed header are reserved [MQTT-2.1.3-1]",
            )),
            None if flags & 0b0110 == 0b0110 => {
                Err(DecodeError::malformed("there is no QoS 3 [MQTT-3.3.1-4]"))
            }
            None if flags & 0b1110 == 0b1000 => {
                Err(DecodeError::malformed("DUP is 0 at QoS 0 [MQTT-3.3.1-2]"))
            }
            _ => Ok(Self { packet_type, flags }),
        }
    }
}

/// One packet's bytes, not yet read beyond the fixed header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its type and flags.
    pub header: FrameHeader,
    /// The bytes after the fixed header.
    pub body: &'a [u8],
    /// The length of the whole packet, fixed header included.
    pub length: usize,
}

impl<'a> Frame<'a> {
    /// The packet at the front of `buffer`; `None` if more bytes are needed. A packet of more than
    /// `size_max` bytes is refused as soon as its length is known (0x95).
    pub fn split(buffer: &'a [u8], size_max: usize) -> Result<Option<Self>, DecodeError> {
        let Some((&first_byte, after_first)) = buffer.split_first() else {
            return Ok(None);
        };
        let header = FrameHeader::new(first_byte)?;
        let Some((body_length, length_bytes)) = variable_integer(after_first)? else {
            return Ok(None);
        };
        let body_length = body_length as usize;
        let length = 1 + length_bytes + body_length;
        if length > size_max {
            return Err(DecodeError::new(
                Reason::PACKET_TOO_LARGE,
                "the packet is larger than the Maximum Packet Size [MQTT-3.2.2-15]",
            ));
        }
        let body = after_first.get(length_bytes..length_bytes + body_length);
        Ok(body.map(|body| Self {
            header,
            body,
            length,
        }))
    }

    /// The length of the packet at the front of `buffer`, if it is already known; for reserving
    /// memory.
    pub fn expected_length(buffer: &[u8]) -> Option<usize> {
        let (value, length) = variable_integer(buffer.get(1..)?).ok()??;
        Some(1 + length + value as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_split_off_when_it_is_whole() {
        let bytes = [0x30, 0x03, 1, 2, 3, 0xC0, 0x00];
        for cut in 0..5 {
            assert_eq!(Frame::split(&bytes[..cut], 100), Ok(None));
        }
        let frame = Frame::split(&bytes, 100).expect("valid").expect("whole");
        assert_eq!((frame.body, frame.length), (&[1, 2, 3][..], 5));
    }

    #[test]
    fn mqtt_3_2_2_15_a_large_packet_is_refused_by_its_length() {
        let error = Frame::split(&[0x30, 0xFF, 0x7F], 100).expect_err("too large");
        assert_eq!(error.reason, Reason::PACKET_TOO_LARGE);
    }

    #[test]
    fn mqtt_2_1_3_1_reserved_flags_are_refused() {
        for first_byte in [0x00, 0x11, 0x60, 0x80, 0xA3, 0xC1, 0xF1, 0x36, 0x38] {
            assert!(FrameHeader::new(first_byte).is_err(), "{first_byte:#x}");
        }
        for first_byte in [0x10, 0x30, 0x3D, 0x62, 0x82, 0xA2, 0xC0, 0xF0] {
            assert!(FrameHeader::new(first_byte).is_ok(), "{first_byte:#x}");
        }
    }
}
