//! The data types of MQTT (MQTT 5 section 1.5): integers, variable byte integers, strings, binary
//! data.

use bytes::{BufMut, BytesMut};

use crate::{DecodeError, EncodeError};

/// The largest variable byte integer: four bytes of seven bits \[MQTT-1.5.5-1\].
pub(crate) const VARIABLE_INTEGER_MAX: usize = 268_435_455;

const SHORT: DecodeError = DecodeError::malformed("the packet ends before its content does");

/// Reads from the front of a slice, with bounds checks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ByteReader<'a> {
    rest: &'a [u8],
}

impl<'a> ByteReader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The remaining bytes.
    pub(crate) const fn rest(self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(SHORT)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, DecodeError> {
        let (&byte, rest) = self.rest.split_first().ok_or(SHORT)?;
        self.rest = rest;
        Ok(byte)
    }

    pub(crate) fn two_bytes(&mut self) -> Result<u16, DecodeError> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(SHORT)?;
        self.rest = rest;
        Ok(u16::from_be_bytes(*bytes))
    }

    pub(crate) fn four_bytes(&mut self) -> Result<u32, DecodeError> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(SHORT)?;
        self.rest = rest;
        Ok(u32::from_be_bytes(*bytes))
    }

    pub(crate) fn packet_id(&mut self) -> Result<crate::PacketId, DecodeError> {
        crate::PacketId::new(self.two_bytes()?).ok_or(DecodeError::protocol(
            "a packet identifier is not zero [MQTT-2.2.1-3]",
        ))
    }

    pub(crate) fn variable_integer(&mut self) -> Result<u32, DecodeError> {
        match variable_integer(self.rest)? {
            Some((value, length)) => {
                self.take(length)?;
                Ok(value)
            }
            None => Err(SHORT),
        }
    }

    pub(crate) fn binary(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = self.two_bytes()?;
        self.take(usize::from(length))
    }

    pub(crate) fn string(&mut self) -> Result<&'a str, DecodeError> {
        let bytes = self.binary()?;
        let text = std::str::from_utf8(bytes)
            .map_err(|_| DecodeError::malformed("a string is not UTF-8 [MQTT-1.5.4-1]"))?;
        if memchr::memchr(0, bytes).is_some() {
            return Err(DecodeError::malformed(
                "a string holds a NUL character [MQTT-1.5.4-2]",
            ));
        }
        Ok(text)
    }

    /// A string that identifies something: a topic, a filter, a client, a user. The standard
    /// permits a receiver to refuse control characters (section 1.5.4); in such names they only
    /// cause harm, such as forged log lines. Texts, such as user properties, may contain line
    /// breaks.
    pub(crate) fn name(&mut self) -> Result<&'a str, DecodeError> {
        let text = self.string()?;
        let bytes = text.as_bytes();
        let has_c0 = bytes.iter().any(|&byte| byte < 0x20 || byte == 0x7F);
        // U+0080 to U+009F are two bytes, the first of which is 0xC2.
        let has_c1 = memchr::memchr(0xC2, bytes).is_some()
            && text
                .chars()
                .any(|character| ('\u{80}'..='\u{9F}').contains(&character));
        if has_c0 || has_c1 {
            return Err(DecodeError::malformed(
                "a name holds a control character [MQTT 5 section 1.5.4]",
            ));
        }
        Ok(text)
    }

    /// A topic filter. The server checks the positions of its wildcards.
    pub(crate) fn filter(&mut self) -> Result<&'a str, DecodeError> {
        let text = self.name()?;
        if text.is_empty() {
            return Err(DecodeError::malformed(
                "a filter has at least one character [MQTT-4.7.3-1]",
            ));
        }
        Ok(text)
    }
}

/// The integer at the front of `bytes` and its length; `None` if more bytes are needed.
///
/// An encoding that is longer than necessary is malformed too \[MQTT-1.5.5-1\].
#[inline]
pub(crate) fn variable_integer(bytes: &[u8]) -> Result<Option<(u32, usize)>, DecodeError> {
    let mut value = 0;
    for (index, &byte) in bytes.iter().take(4).enumerate() {
        value |= u32::from(byte & 0x7F) << (7 * index);
        if byte & 0x80 == 0 {
            if byte == 0 && index > 0 {
                return Err(DecodeError::malformed(
                    "a variable byte integer is longer than needed [MQTT-1.5.5-1]",
                ));
            }
            return Ok(Some((value, index + 1)));
        }
    }
    if bytes.len() >= 4 {
        return Err(DecodeError::malformed(
            "a variable byte integer has more than four bytes",
        ));
    }
    Ok(None)
}

/// The number of bytes that [`put_variable_integer`] writes.
pub(crate) const fn variable_integer_length(value: usize) -> usize {
    match value {
        0..=0x7F => 1,
        0x80..=0x3FFF => 2,
        0x4000..=0x1F_FFFF => 3,
        _ => 4,
    }
}

pub(crate) fn put_variable_integer(out: &mut impl BufMut, mut value: usize) {
    while value > 0x7F {
        out.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

pub(crate) fn put_binary(out: &mut impl BufMut, bytes: &[u8]) -> Result<(), EncodeError> {
    let length = u16::try_from(bytes.len()).map_err(|_| EncodeError::ValueTooLong(bytes.len()))?;
    out.put_u16(length);
    out.put_slice(bytes);
    Ok(())
}

pub(crate) fn put_string(out: &mut impl BufMut, text: &str) -> Result<(), EncodeError> {
    put_binary(out, text.as_bytes())
}

/// Writes a packet whose length is known only once its body has been written. The body is written
/// after one length byte, and moved in the rare case that one byte is not sufficient. A failure
/// leaves `out` unchanged.
pub(crate) fn put_packet(
    out: &mut BytesMut,
    first_byte: u8,
    body: impl FnOnce(&mut BytesMut) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    let start = out.len();
    out.put_slice(&[first_byte, 0]);
    let written = body(out).and_then(|()| match out.len() - start - 2 {
        length if length > VARIABLE_INTEGER_MAX => Err(EncodeError::PacketTooLong(length)),
        length => Ok(length),
    });
    let length = match written {
        Ok(length) => length,
        Err(error) => {
            out.truncate(start);
            return Err(error);
        }
    };
    let extra = variable_integer_length(length) - 1;
    if extra > 0 {
        let body_start = start + 2;
        out.put_bytes(0, extra);
        out.copy_within(body_start..body_start + length, body_start + extra);
    }
    put_variable_integer(&mut &mut out[start + 1..start + 2 + extra], length);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn mqtt_1_5_5_1_integers_are_as_short_as_can_be() {
        for bytes in [&[0x80, 0x00][..], &[0xFF, 0x80, 0x00]] {
            assert!(variable_integer(bytes).is_err(), "{bytes:x?}");
        }
        assert!(variable_integer(&[0x80; 4]).is_err());
        assert_eq!(variable_integer(&[0x80; 3]), Ok(None));
        assert_eq!(variable_integer(&[]), Ok(None));
    }

    proptest! {
        #[test]
        fn integers_return(value in 0..=VARIABLE_INTEGER_MAX) {
            let mut bytes = Vec::new();
            put_variable_integer(&mut bytes, value);
            prop_assert_eq!(bytes.len(), variable_integer_length(value));
            prop_assert_eq!(variable_integer(&bytes), Ok(Some((value as u32, bytes.len()))));
        }

        #[test]
        fn packets_of_any_length_have_their_length(length in 0_usize..70_000) {
            let mut out = BytesMut::from(&b"before"[..]);
            put_packet(&mut out, 0x30, |body| { body.put_bytes(7, length); Ok(()) })
                .expect("short enough");
            let (value, used) = variable_integer(&out[7..]).expect("valid").expect("whole");
            prop_assert_eq!(value as usize, length);
            prop_assert_eq!(out.len(), 7 + used + length);
            prop_assert!(out[7 + used..].iter().all(|&byte| byte == 7));
        }
    }
}
