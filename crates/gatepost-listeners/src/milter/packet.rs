//! Packets: a length of 32 bits (big-endian, counting the command), a command byte, data.

use bytes::{Buf, Bytes, BytesMut};

/// Bytes of the length.
const LENGTH_BYTES: usize = 4;
/// The largest chunk of a body that is sent: older mail servers accept no more.
pub(super) const CHUNK_BYTES_MAX: usize = 65_535;

/// One packet of the mail server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MilterPacket {
    pub(super) command: u8,
    pub(super) data: Bytes,
}

/// A malformed packet. The connection ends, since the start of the next packet is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum MilterError {
    #[error("a packet without a command")]
    Empty,
    #[error("a packet of {0} bytes is larger than the listener's packet_max")]
    TooLarge(usize),
    #[error("a command before the negotiation")]
    NotNegotiated,
    #[error("the mail server uses version {0}; versions 2 to 6 are supported")]
    Version(u32),
    #[error("there is no command {0:?}")]
    Unknown(char),
    #[error("the packet {0:?} is too short")]
    Short(char),
}

/// Removes a complete packet from the front of `input`; `None` if more bytes are needed.
pub(super) fn take(
    input: &mut BytesMut,
    bytes_max: usize,
) -> Result<Option<MilterPacket>, MilterError> {
    let Some((length, rest)) = input.split_first_chunk::<LENGTH_BYTES>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(*length) as usize;
    if length == 0 {
        return Err(MilterError::Empty);
    }
    if length > bytes_max {
        return Err(MilterError::TooLarge(length));
    }
    if rest.len() < length {
        // One allocation for the whole packet.
        let missing = length - rest.len();
        input.reserve(missing);
        return Ok(None);
    }
    input.advance(LENGTH_BYTES);
    let mut data = input.split_to(length).freeze();
    let command = data.get_u8();
    Ok(Some(MilterPacket { command, data }))
}

/// Appends a packet.
pub(super) fn write(output: &mut Vec<u8>, command: u8, parts: &[&[u8]]) {
    let length: usize = 1 + parts.iter().map(|part| part.len()).sum::<usize>();
    output.extend_from_slice(&(length as u32).to_be_bytes());
    output.push(command);
    for part in parts {
        output.extend_from_slice(part);
    }
}

/// The strings of a packet, each ended by a NUL; bytes after the last NUL are ignored.
pub(super) fn strings(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    data.split_inclusive(|&byte| byte == 0)
        .filter_map(|string| string.strip_suffix(&[0]))
}

/// Names can contain any bytes; invalid UTF-8 is replaced.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn packets_are_taken_whole() {
        let mut input = BytesMut::new();
        for byte in b"\0\0\0\x03Lab\0\0\0\x01Q" {
            let before = input.len();
            input.extend_from_slice(&[*byte]);
            let taken = take(&mut input, 100).expect("well formed");
            match (before, *byte) {
                (6, b'b') => assert_eq!(taken.expect("a packet").data, "ab"),
                (4, b'Q') => assert_eq!(taken.expect("a packet").command, b'Q'),
                _ => assert_eq!(taken, None),
            }
        }
        let mut large = BytesMut::from(&b"\0\0\x04\0x"[..]);
        assert_eq!(take(&mut large, 1_023), Err(MilterError::TooLarge(1_024)));
        let mut empty = BytesMut::from(&[0; 4][..]);
        assert_eq!(take(&mut empty, 100), Err(MilterError::Empty));
    }

    proptest! {
        #[test]
        fn a_written_packet_reads_back(
            command in any::<u8>(),
            first in proptest::collection::vec(any::<u8>(), 0..50),
            second in proptest::collection::vec(any::<u8>(), 0..50),
        ) {
            let mut bytes = Vec::new();
            write(&mut bytes, command, &[&first, &second]);
            let mut input = BytesMut::from(&bytes[..]);
            let packet = take(&mut input, 200).expect("well formed").expect("whole");
            prop_assert_eq!(packet.command, command);
            prop_assert_eq!(&packet.data[..], [first, second].concat());
            prop_assert!(input.is_empty());
        }
    }
}
