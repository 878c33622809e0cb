//! The checksum of a row: a CRC-32 over its typed values.

use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use smallvec::SmallVec;

/// Bytes gathered before the hasher is called: it is slow on the few bytes of a number.
const GATHERED_BYTES: usize = 256;

/// A CRC-32 over typed values. Each is preceded by its type and length, so that bytes cannot move
/// from one column to its neighbour.
#[derive(Default)]
pub(crate) struct Checksum {
    hasher: crc32fast::Hasher,
    gathered: SmallVec<[u8; GATHERED_BYTES]>,
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
        let mut head = [kind; 9];
        head[1..].copy_from_slice(&number.to_le_bytes());
        self.gather(&head);
        self.gather(bytes);
    }

    pub(crate) fn update_parameter(&mut self, value: &ToSqlOutput<'_>) {
        match value {
            ToSqlOutput::Borrowed(value) => self.update(*value),
            ToSqlOutput::Owned(value) => self.update(value.into()),
            _ => self.update(ValueRef::Null),
        }
    }

    fn gather(&mut self, bytes: &[u8]) {
        if self.gathered.len() + bytes.len() > GATHERED_BYTES {
            self.hasher.update(&self.gathered);
            self.gathered.clear();
        }
        if bytes.len() > GATHERED_BYTES {
            self.hasher.update(bytes);
        } else {
            self.gathered.extend_from_slice(bytes);
        }
    }

    pub(crate) fn finish(mut self) -> i64 {
        self.hasher.update(&self.gathered);
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
