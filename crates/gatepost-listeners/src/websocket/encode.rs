//! The headers of frames to the client; their payloads are encoded elsewhere.

use bytes::{BufMut, BytesMut};

/// The longest header of an unmasked frame, in bytes.
pub const HEADER_BYTES_MAX: usize = 10;

/// The type of a frame (section 5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)] // the names are the standard's
pub enum Opcode {
    Continuation = 0,
    Text = 1,
    Binary = 2,
    Close = 8,
    Ping = 9,
    Pong = 10,
}

impl Opcode {
    pub(super) const fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            0 => Self::Continuation,
            1 => Self::Text,
            2 => Self::Binary,
            8 => Self::Close,
            9 => Self::Ping,
            10 => Self::Pong,
            _ => return None,
        })
    }

    pub(super) const fn is_control(self) -> bool {
        self as u8 >= 8
    }
}

/// The number of bytes that [`put_header`] writes.
pub const fn header_length(payload_length: usize) -> usize {
    match payload_length {
        0..=125 => 2,
        126..=65_535 => 4,
        _ => HEADER_BYTES_MAX,
    }
}

/// The header of a whole, unmasked frame.
pub fn put_header(out: &mut impl BufMut, opcode: Opcode, payload_length: usize) {
    out.put_u8(0x80 | opcode as u8);
    match payload_length {
        0..=125 => out.put_u8(payload_length as u8),
        126..=65_535 => {
            out.put_u8(126);
            out.put_u16(payload_length as u16);
        }
        _ => {
            out.put_u8(127);
            out.put_u64(payload_length as u64);
        }
    }
}

/// Puts what `write` appends into one binary frame; nothing if it appends nothing.
pub fn put_framed<T>(out: &mut BytesMut, write: impl FnOnce(&mut BytesMut) -> T) -> T {
    let start = out.len();
    let result = write(out);
    let length = out.len() - start;
    if length == 0 {
        return result;
    }
    let header = header_length(length);
    out.put_bytes(0, header);
    out.copy_within(start..start + length, start + header);
    put_header(&mut &mut out[start..start + header], Opcode::Binary, length);
    result
}

/// A whole, unmasked frame of its own.
pub fn whole_frame(opcode: Opcode, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(HEADER_BYTES_MAX + payload.len());
    put_header(&mut frame, opcode, payload.len());
    frame.extend_from_slice(payload);
    frame
}

/// A close frame with a code.
pub fn put_close(out: &mut BytesMut, code: u16) {
    put_header(out, Opcode::Close, 2);
    out.put_u16(code);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_as_short_as_can_be() {
        for (length, header) in [
            (0, &[0x82, 0][..]),
            (125, &[0x82, 125]),
            (126, &[0x82, 126, 0, 126]),
            (65_536, &[0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] {
            let mut out = BytesMut::from(&b"x"[..]);
            put_framed(&mut out, |out| out.put_bytes(7, length));
            if length == 0 {
                assert_eq!(out, b"x"[..], "nothing makes no frame");
                continue;
            }
            assert_eq!(out[1..=header.len()], *header);
            assert_eq!(out.len(), 1 + header.len() + length);
            assert!(out[1 + header.len()..].iter().all(|&byte| byte == 7));
        }
    }
}
