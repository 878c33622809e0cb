//! A row of the greylist's table.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use gatepost_store::StoredValue;

/// A row, with its times in Unix milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GreylistEntry {
    /// A sender that has not been admitted yet, since its first attempt.
    Waiting { since_ms: u64 },
    /// A sender that was admitted, and the time of its last mail.
    Passed { last_ms: u64 },
    /// A client, its number of retries, and the time of its last mail.
    Client { retries: u32, last_ms: u64 },
}

impl GreylistEntry {
    /// A byte for the kind, eight for the time, four for the number.
    pub(super) fn write(self) -> StoredValue {
        let (kind, time_ms, retries) = match self {
            Self::Waiting { since_ms } => (b'w', since_ms, 0),
            Self::Passed { last_ms } => (b'p', last_ms, 0),
            Self::Client { retries, last_ms } => (b'c', last_ms, retries),
        };
        let mut row = vec![kind];
        row.extend_from_slice(&time_ms.to_be_bytes());
        row.extend_from_slice(&retries.to_be_bytes());
        StoredValue::Bytes(Bytes::from(row))
    }

    /// `None` for a row that no version of ours wrote.
    pub(super) fn read(value: &StoredValue) -> Option<Self> {
        let StoredValue::Bytes(row) = value else {
            return None;
        };
        let (kind, rest) = row.split_first()?;
        let (time_ms, rest) = rest.split_first_chunk::<8>()?;
        let time_ms = u64::from_be_bytes(*time_ms);
        let retries = u32::from_be_bytes(rest.try_into().ok()?);
        Some(match kind {
            b'w' => Self::Waiting { since_ms: time_ms },
            b'p' => Self::Passed { last_ms: time_ms },
            b'c' => Self::Client {
                retries,
                last_ms: time_ms,
            },
            _ => return None,
        })
    }
}

pub(super) fn unix_ms(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as u64
}

/// The time from `before_ms` to `now_ms`; `None` if the clock was set back in between.
pub(super) fn passed(before_ms: u64, now_ms: u64) -> Option<Duration> {
    now_ms.checked_sub(before_ms).map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_as_it_was_written() {
        for entry in [
            GreylistEntry::Waiting { since_ms: 1 },
            GreylistEntry::Passed { last_ms: u64::MAX },
            GreylistEntry::Client {
                retries: 7,
                last_ms: 5,
            },
        ] {
            assert_eq!(GreylistEntry::read(&entry.write()), Some(entry));
        }
        for row in ["", "w", "x000000000000"] {
            let row = StoredValue::Bytes(Bytes::from(row));
            assert_eq!(GreylistEntry::read(&row), None);
        }
    }
}
