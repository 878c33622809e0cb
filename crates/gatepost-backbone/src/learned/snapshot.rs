//! The message that completes a snapshot.
//!
//! A snapshot is the learned data in the format of `sa-learn --backup`, in pieces under a subject
//! of its own. A message under one subject for all snapshots then names it: the last one counts. It
//! is a version, the number of the snapshot, the sequence up to which it has the lessons, and the
//! number of its pieces; all numbers are big-endian.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::encoding::EncodingError;

/// The version of the encoding.
const VERSION: u8 = 1;
/// Version, number, sequence, pieces.
const BYTES: usize = 21;

/// A complete snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SnapshotNote {
    pub(crate) number: u64,
    /// The sequence up to which it has the lessons.
    pub(crate) sequence: u64,
    pub(crate) pieces: u32,
}

impl SnapshotNote {
    pub(crate) fn encode(self) -> Bytes {
        let mut buffer = BytesMut::with_capacity(BYTES);
        buffer.put_u8(VERSION);
        buffer.put_u64(self.number);
        buffer.put_u64(self.sequence);
        buffer.put_u32(self.pieces);
        buffer.freeze()
    }

    pub(crate) fn read(mut message: Bytes) -> Result<Self, EncodingError> {
        match message.first() {
            None => return Err(EncodingError::Truncated),
            Some(&VERSION) if message.len() == BYTES => message.advance(1),
            Some(&VERSION) => return Err(EncodingError::Malformed),
            Some(&other) => return Err(EncodingError::Version(other.into())),
        }
        Ok(Self {
            number: message.get_u64(),
            sequence: message.get_u64(),
            pieces: message.get_u32(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_bytes_are_no_snapshot() {
        let note = SnapshotNote {
            number: 1,
            sequence: 2,
            pieces: 3,
        };
        let bytes = note.encode();
        assert_eq!(SnapshotNote::read(bytes.clone()), Ok(note));
        let short = SnapshotNote::read(bytes.slice(..20));
        assert_eq!(short, Err(EncodingError::Malformed));
        let later = SnapshotNote::read(Bytes::from_static(&[2, 0]));
        assert_eq!(later, Err(EncodingError::Version(2)));
        assert_eq!(
            SnapshotNote::read(Bytes::new()),
            Err(EncodingError::Truncated)
        );
    }
}
