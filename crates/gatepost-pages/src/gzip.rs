//! gzip: of whole texts, and of pieces that are compressed once and combined at each hit.
//!
//! A page's static text is compressed when the page is read: each piece ends with a full flush, so
//! it ends at a byte boundary and refers to nothing before it. The values between them are stored
//! blocks (RFC 1951, section 3.2.4), which cost five bytes and no time, and the checksums of the
//! pieces are combined. Values are never compressed together with other text, so the length of a
//! response reveals nothing about a secret beside text that an attacker chose (the BREACH attack).

use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use flate2::write::GzEncoder;
use flate2::{Compress, Compression, Crc, FlushCompress};

use crate::memory_file::recounted;

/// A header without time and name (RFC 1952, section 2.3.1); 255: unknown operating system.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
/// An empty final stored block.
const END: [u8; 5] = [1, 0, 0, 0xff, 0xff];
/// The maximum length of a stored block.
const STORED_BYTES_MAX: usize = 0xffff;

/// The level for content that is kept: it is compressed once.
pub(crate) const ONCE: u32 = 6;
/// The level for content that is sent once.
pub(crate) const EACH_TIME: u32 = 1;

/// Compresses a whole text.
pub(crate) fn compress(text: &[u8], level: u32) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(text.len() / 3), Compression::new(level));
    encoder.write_all(text).ok()?;
    encoder.finish().ok()
}

/// A piece of text, compressed for any position.
#[derive(Debug)]
pub(crate) struct CompressedPart {
    pub(crate) deflated: Bytes,
    sum: Arc<Crc>,
}

impl CompressedPart {
    /// `None` if the compressor fails, for which there is no known reason.
    pub(crate) fn new(text: &[u8]) -> Option<Self> {
        let mut compress = Compress::new(Compression::new(ONCE), false);
        let mut deflated = Vec::with_capacity(text.len() / 2 + 64);
        loop {
            let done = compress.total_in() as usize;
            let rest = text.get(done..).unwrap_or_default();
            let before = deflated.len();
            compress
                .compress_vec(rest, &mut deflated, FlushCompress::Full)
                .ok()?;
            let is_whole = compress.total_in() as usize == text.len();
            // Unused capacity means that nothing is buffered.
            if is_whole && deflated.len() < deflated.capacity() {
                break;
            }
            if deflated.len() == before && deflated.len() < deflated.capacity() {
                return None;
            }
            deflated.reserve(deflated.len() / 2 + 64);
        }
        let mut sum = Crc::new();
        sum.update(text);
        Some(Self {
            deflated: deflated.into(),
            sum: Arc::new(sum),
        })
    }

    /// A copy with a reference count of its own.
    pub(crate) fn unshared_copy(&self) -> Self {
        Self {
            deflated: recounted(&self.deflated),
            sum: Arc::clone(&self.sum),
        }
    }
}

/// A response that is being assembled.
#[derive(Debug, Default)]
pub(crate) struct JoinedMembers {
    sum: Crc,
}

impl JoinedMembers {
    pub(crate) fn begin(output: &mut Vec<u8>) -> Self {
        output.extend_from_slice(&HEADER);
        Self::default()
    }

    /// Adds a piece, whose bytes the caller writes.
    pub(crate) fn add(&mut self, piece: &CompressedPart) {
        self.sum.combine(&piece.sum);
    }

    /// Appends what `write` appends as stored blocks.
    pub(crate) fn store(&mut self, output: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        let start = output.len();
        output.extend_from_slice(&[0; 5]);
        write(output);
        let text = output.get(start + 5..).unwrap_or_default();
        self.sum.update(text);
        if text.len() <= STORED_BYTES_MAX {
            let head = stored_head(text.len() as u16);
            if let Some(place) = output.get_mut(start..start + 5) {
                place.copy_from_slice(&head);
            }
            return;
        }
        let text = text.to_vec();
        output.truncate(start);
        for block in text.chunks(STORED_BYTES_MAX) {
            output.extend_from_slice(&stored_head(block.len() as u16));
            output.extend_from_slice(block);
        }
    }

    pub(crate) fn end(&self, output: &mut Vec<u8>) {
        output.extend_from_slice(&END);
        output.extend_from_slice(&self.sum.sum().to_le_bytes());
        output.extend_from_slice(&self.sum.amount().to_le_bytes());
    }
}

const fn stored_head(length: u16) -> [u8; 5] {
    let [low, high] = length.to_le_bytes();
    [0, low, high, !low, !high]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Read;

    fn joined(pieces: &[(bool, Vec<u8>)]) -> Vec<u8> {
        let mut output = Vec::new();
        let mut joining = JoinedMembers::begin(&mut output);
        for (is_static, text) in pieces {
            if *is_static {
                let piece = CompressedPart::new(text).expect("compressed");
                joining.add(&piece);
                output.extend_from_slice(&piece.deflated);
            } else {
                joining.store(&mut output, |output| output.extend_from_slice(text));
            }
        }
        joining.end(&mut output);
        output
    }

    fn decompressed(gzip: &[u8]) -> Vec<u8> {
        let mut text = Vec::new();
        flate2::read::GzDecoder::new(gzip)
            .read_to_end(&mut text)
            .expect("gzip");
        text
    }

    #[test]
    fn large_pieces_and_values_are_joined() {
        let page = b"<p>one line of a page</p>\n".repeat(20_000);
        let value = b"0123456789".repeat(20_000);
        let all = [page.as_slice(), &value, &page].concat();
        let gzip = joined(&[(true, page.clone()), (false, value), (true, page)]);
        assert_eq!(decompressed(&gzip), all);
    }

    proptest! {
        #[test]
        fn joined_members_decompress_to_their_contents(
            pieces in proptest::collection::vec(
                (any::<bool>(), proptest::collection::vec(0_u8..4, 0..300)), 0..8)
        ) {
            let all: Vec<u8> = pieces.iter().flat_map(|(_, text)| text.clone()).collect();
            prop_assert_eq!(decompressed(&joined(&pieces)), all);
        }
    }
}
