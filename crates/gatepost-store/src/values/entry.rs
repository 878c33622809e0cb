//! A value in memory, and as a row of the database.

use bytes::Bytes;

/// The memory of a value in addition to the bytes of its key and its content.
const ENTRY_BYTES: u64 = 64;

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub enum StoredValue {
    /// A number: a counter, a time.
    Number(f64),
    /// A text, or any bytes.
    Bytes(Bytes),
    /// Yes or no.
    Flag(bool),
}

impl StoredValue {
    pub(super) const fn length(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Number(_) | Self::Flag(_) => 0,
        }
    }
}

/// A value and its expiry.
#[derive(Clone)]
pub(super) struct ValueEntry {
    pub(super) value: StoredValue,
    /// Unix milliseconds; `u64::MAX` for never.
    pub(super) expires_ms: u64,
}

impl ValueEntry {
    /// Eight bytes of expiry, one of type, then the value.
    pub(super) fn write(&self) -> Bytes {
        let mut row = self.expires_ms.to_be_bytes().to_vec();
        match &self.value {
            StoredValue::Number(number) => {
                row.push(b'n');
                row.extend_from_slice(&number.to_be_bytes());
            }
            StoredValue::Bytes(bytes) => {
                row.push(b'b');
                row.extend_from_slice(bytes);
            }
            StoredValue::Flag(flag) => row.extend_from_slice(&[b'f', u8::from(*flag)]),
        }
        row.into()
    }

    pub(super) fn read(row: &Bytes) -> Option<Self> {
        let (expires, rest) = row.split_first_chunk::<8>()?;
        let (kind, rest) = rest.split_first()?;
        let value = match kind {
            b'n' => StoredValue::Number(f64::from_be_bytes(rest.try_into().ok()?)),
            b'b' => StoredValue::Bytes(Bytes::copy_from_slice(rest)),
            b'f' => StoredValue::Flag(rest == [1]),
            _ => return None,
        };
        Some(Self {
            value,
            expires_ms: u64::from_be_bytes(*expires),
        })
    }
}

/// The size of an entry that counts towards the limit in bytes.
pub(super) const fn size(key: &[u8], entry: &ValueEntry) -> u64 {
    (key.len() + entry.value.length()) as u64 + ENTRY_BYTES
}
