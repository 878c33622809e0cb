//! `Compress: zlib`: a message may be compressed on its way; the decompressed size is bounded,
//! whatever the compressed size.

use std::io::Read;

use bytes::Bytes;
use flate2::read::ZlibDecoder;

use crate::in_flight::{InFlightLease, InFlightLimitReached};

/// The buffer for a message is this large at first. Mail is compressed to a third in most cases.
const BYTES_PER_PACKED_BYTE: usize = 4;
const BUFFER_BYTES_MIN: usize = 4 * 1024;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum InflateError {
    #[error("the message is not a zlib stream")]
    Malformed,
    #[error("the message decompresses to more than {0} bytes, the listener's message_max")]
    TooLarge(usize),
    #[error(transparent)]
    NoRoom(#[from] InFlightLimitReached),
}

/// Decompresses a message; its memory is reserved before it is allocated.
pub(super) fn inflate(
    packed: &[u8],
    bytes_max: usize,
    lease: &mut InFlightLease,
) -> Result<Bytes, InflateError> {
    let mut message = Vec::new();
    let mut unpacking = ZlibDecoder::new(packed);
    // One byte more than allowed shows that there is more.
    let capacity_max = bytes_max.saturating_add(1);
    let mut capacity = packed.len().saturating_mul(BYTES_PER_PACKED_BYTE);
    loop {
        capacity = capacity.max(BUFFER_BYTES_MIN).min(capacity_max);
        lease.reserve((packed.len() + capacity) as u64)?;
        message.reserve_exact(capacity - message.len());
        let free = (capacity - message.len()) as u64;
        let mut part = unpacking.by_ref().take(free);
        part.read_to_end(&mut message)
            .map_err(|_| InflateError::Malformed)?;
        if message.len() > bytes_max {
            return Err(InflateError::TooLarge(bytes_max));
        }
        if message.len() < capacity {
            return Ok(message.into());
        }
        capacity = capacity.saturating_mul(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_flight::{InFlight, InFlightSettings};
    use gatepost_message::Peer;
    use gatepost_settings::ByteSize;

    use flate2::{Compression, write::ZlibEncoder};
    use std::io::Write;

    fn inflate_within(budget: ByteSize, packed: &[u8], max: usize) -> Result<Bytes, InflateError> {
        let settings = InFlightSettings { bytes_max: budget };
        let mut lease = InFlight::new(&settings).lease(Peer::Local);
        inflate(packed, max, &mut lease)
    }

    fn packed(message: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(message).expect("memory");
        encoder.finish().expect("memory")
    }

    #[test]
    fn compressed_data_is_inflated_and_other_data_refused() {
        let budget = ByteSize::mebibytes(1);
        for text in ["", "hello"] {
            let inflated = inflate_within(budget, &packed(text.as_bytes()), 5);
            assert_eq!(inflated.as_deref(), Ok(text.as_bytes()));
        }
        let malformed = inflate_within(budget, b"hello", 5);
        assert_eq!(malformed, Err(InflateError::Malformed));
        let text = b"many words and\r\n".repeat(100_000);
        let inflated = inflate_within(ByteSize::mebibytes(20), &packed(&text), text.len());
        assert_eq!(inflated.as_deref(), Ok(&text[..]));
    }

    #[test]
    fn a_bomb_is_stopped() {
        let bomb = packed(&vec![0; 10_000_000]);
        assert!(bomb.len() < 20_000);
        let inflated = inflate_within(ByteSize::mebibytes(1), &bomb, 1000);
        assert_eq!(inflated, Err(InflateError::TooLarge(1000)));
        // The memory of all messages limits it before the size of one does.
        let inflated = inflate_within(ByteSize::mebibytes(4), &bomb, 10_000_000);
        assert_eq!(inflated, Err(InflateError::NoRoom(InFlightLimitReached)));
    }
}
