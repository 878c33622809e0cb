//! The position up to which this node has delivered a partition.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use gatepost_store::{Store, StoreChange, StoreError};

/// The key space of the positions; keys are the numbers of the partitions.
pub(crate) const POSITION_SPACE: &str = "backbone.position";
const BYTES: usize = 20;

/// A position in a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogPosition {
    /// The number of the stream: another one of the same name has other sequences.
    pub(crate) stream: u64,
    /// The sequence of the last entry of which something was delivered.
    pub(crate) sequence: u64,
    /// The number of publications of this entry that were delivered; `u32::MAX` for all.
    pub(crate) delivered: u32,
}

impl LogPosition {
    /// The position after an entry.
    pub(crate) const fn after(stream: u64, sequence: u64) -> Self {
        Self {
            stream,
            sequence,
            delivered: u32::MAX,
        }
    }

    /// The entry to read next.
    pub(crate) const fn next_sequence(&self) -> u64 {
        if self.delivered == u32::MAX {
            self.sequence + 1
        } else {
            self.sequence
        }
    }

    /// The number of publications of this entry that were delivered already.
    pub(crate) const fn delivered_of(&self, sequence: u64) -> usize {
        if self.sequence == sequence {
            self.delivered as usize
        } else {
            0
        }
    }

    /// Whether a publication of an entry was delivered.
    pub(crate) const fn includes(&self, sequence: u64, index: usize) -> bool {
        sequence < self.sequence
            || sequence == self.sequence && (index as u64) < self.delivered as u64
    }

    /// Reads the value of a record; `None` if it is none of a position.
    pub(crate) fn read_value(mut value: Bytes) -> Option<Self> {
        (value.len() == BYTES).then(|| Self {
            stream: value.get_u64(),
            sequence: value.get_u64(),
            delivered: value.get_u32(),
        })
    }

    /// Appends its bytes.
    pub(crate) fn push(&self, buffer: &mut BytesMut) {
        buffer.put_u64(self.stream);
        buffer.put_u64(self.sequence);
        buffer.put_u32(self.delivered);
    }

    /// The change that stores it.
    pub(crate) fn put(&self, partition: u16) -> StoreChange {
        let mut value = BytesMut::with_capacity(BYTES);
        self.push(&mut value);
        StoreChange::PutRecord {
            space: POSITION_SPACE,
            key: key(partition),
            value: value.freeze(),
        }
    }
}

/// The key of a partition's record.
pub(crate) fn key(partition: u16) -> Bytes {
    Bytes::copy_from_slice(&partition.to_be_bytes())
}

/// The stored position; `None` for a node that has not read this partition.
pub(crate) fn read(store: &Store, partition: u16) -> Result<Option<LogPosition>, StoreError> {
    let value = store.record(POSITION_SPACE, &key(partition))?;
    Ok(value.and_then(LogPosition::read_value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_position_is_stored_and_found() {
        let store = Store::in_memory().expect("a store");
        assert_eq!(read(&store, 2).expect("read"), None);
        let within = LogPosition {
            stream: 5,
            sequence: 9,
            delivered: 3,
        };
        for position in [within, LogPosition::after(8, 10)] {
            let stored = store.submit([position.put(2)]).expect("accepted");
            stored.committed().await.expect("stored");
            assert_eq!(read(&store, 2).expect("read"), Some(position));
        }
        assert_eq!(read(&store, 1).expect("read"), None);
    }

    #[test]
    fn an_entry_may_be_delivered_in_part() {
        let within = LogPosition {
            stream: 0,
            sequence: 9,
            delivered: 3,
        };
        assert_eq!((within.next_sequence(), within.delivered_of(9)), (9, 3));
        assert_eq!(within.delivered_of(10), 0);
        assert_eq!(LogPosition::after(0, 9).next_sequence(), 10);
        let includes = [(8, 7), (9, 2), (9, 3), (10, 0)]
            .map(|(sequence, index)| within.includes(sequence, index));
        assert_eq!(includes, [true, true, false, false]);
    }
}
