//! `Compress: zlib`: a message may be compressed on its way; the decompressed size is bounded,
//! whatever the compressed size.

use std::io::Read;

use bytes::Bytes;
use flate2::read::ZlibDecoder;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum InflateError {
    #[error("the message is not a zlib stream")]
    Malformed,
    #[error("the message decompresses to more than {0} bytes, the listener's message_max")]
    TooLarge(usize),
}

pub(super) fn inflate(packed: &[u8], bytes_max: usize) -> Result<Bytes, InflateError> {
    let mut message = Vec::new();
    // One byte more than allowed shows that there is more.
    let mut unpacking = ZlibDecoder::new(packed).take(bytes_max as u64 + 1);
    unpacking
        .read_to_end(&mut message)
        .map_err(|_| InflateError::Malformed)?;
    if message.len() > bytes_max {
        return Err(InflateError::TooLarge(bytes_max));
    }
    Ok(message.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::ZlibEncoder};
    use std::io::Write;

    fn packed(message: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(message).expect("memory");
        encoder.finish().expect("memory")
    }

    #[test]
    fn compressed_data_is_inflated_and_other_data_refused() {
        assert_eq!(inflate(&packed(b"hello"), 5).as_deref(), Ok(&b"hello"[..]));
        assert_eq!(inflate(b"hello", 5), Err(InflateError::Malformed));
    }

    #[test]
    fn a_bomb_is_stopped() {
        let bomb = packed(&vec![0; 10_000_000]);
        assert!(bomb.len() < 20_000);
        assert_eq!(inflate(&bomb, 1000), Err(InflateError::TooLarge(1000)));
    }
}
