//! The checksum of a row: a CRC-32 over its typed values.

use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, Value, ValueRef};

/// Bytes gathered before the hasher is called: hashing a few bytes at a time is slow.
const GATHERED_BYTES: usize = 256;
/// The type, and the number or the length.
const HEAD_BYTES: usize = 1 + size_of::<u64>();

/// A CRC-32 over typed values. Each is preceded by its type and length, so that bytes cannot move
/// from one column to its neighbour.
pub(crate) struct Checksum {
    hasher: crc32fast::Hasher,
    /// The first `length` bytes are not hashed yet.
    gathered: [u8; GATHERED_BYTES],
    length: usize,
}

impl Default for Checksum {
    fn default() -> Self {
        Self {
            hasher: crc32fast::Hasher::default(),
            gathered: [0; GATHERED_BYTES],
            length: 0,
        }
    }
}

impl Checksum {
    pub(crate) fn update(&mut self, value: ValueRef<'_>) {
        let (kind, number, bytes): (u8, u64, &[u8]) = match value {
            ValueRef::Null => (0, 0, &[]),
            ValueRef::Integer(number) => (1, number as u64, &[]),
            // SQLite keeps no negative zero, and a NaN as NULL.
            ValueRef::Real(number) if number.is_nan() => (0, 0, &[]),
            ValueRef::Real(number) => (2, (number + 0.0).to_bits(), &[]),
            ValueRef::Text(text) => (3, text.len() as u64, text),
            ValueRef::Blob(blob) => (4, blob.len() as u64, blob),
        };
        if self.length + HEAD_BYTES > GATHERED_BYTES {
            self.hash_gathered();
        }
        // The length is a constant, so the copy needs no call.
        let head = &mut self.gathered[self.length..][..HEAD_BYTES];
        head[0] = kind;
        head[1..].copy_from_slice(&number.to_le_bytes());
        self.length += HEAD_BYTES;
        if !bytes.is_empty() {
            self.gather(bytes);
        }
    }

    pub(crate) fn update_parameter(&mut self, value: &ToSqlOutput<'_>) {
        match value {
            ToSqlOutput::Borrowed(value) => self.update(*value),
            ToSqlOutput::Owned(value) => self.update(value.into()),
            _ => self.update(ValueRef::Null),
        }
    }

    fn gather(&mut self, bytes: &[u8]) {
        if self.length + bytes.len() > GATHERED_BYTES {
            self.hash_gathered();
        }
        if bytes.len() > GATHERED_BYTES {
            self.hasher.update(bytes);
        } else {
            self.gathered[self.length..][..bytes.len()].copy_from_slice(bytes);
            self.length += bytes.len();
        }
    }

    fn hash_gathered(&mut self) {
        self.hasher.update(&self.gathered[..self.length]);
        self.length = 0;
    }

    pub(crate) fn finish(mut self) -> i64 {
        self.hash_gathered();
        self.hasher.finalize().into()
    }
}

/// The checksum of a whole row.
pub(crate) fn checksum_of<'a>(values: impl IntoIterator<Item = &'a Value>) -> i64 {
    let mut checksum = Checksum::default();
    for value in values {
        checksum.update(value.into());
    }
    checksum.finish()
}

/// The checksum of a row as it is about to be written.
pub(crate) fn checksum_of_parameters(values: &[&dyn ToSql]) -> rusqlite::Result<i64> {
    let mut checksum = Checksum::default();
    for value in values {
        checksum.update_parameter(&value.to_sql()?);
    }
    Ok(checksum.finish())
}
