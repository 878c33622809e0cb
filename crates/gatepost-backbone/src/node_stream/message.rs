//! The messages of a node's stream.
//!
//! A message is a version, a kind, the run of the node that wrote it and its number in this run,
//! and a body. The run and the number make each message different from all others, so a node can
//! recognise its own.

use bytes::{BufMut as _, Bytes, BytesMut};

use crate::encoding::{EncodingError, Input, VERSION};

/// The kinds of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageKind {
    /// A snapshot begins: what was before it no longer counts once it is complete.
    Begin = 1,
    /// Changes. Between the beginning and the end of a snapshot, these are its content.
    Changes = 2,
    /// The first part of changes that are longer than a message; the next message continues it.
    Part = 3,
    /// The snapshot is complete.
    SnapshotEnd = 4,
    /// Another node adopts the sessions. The body is the number of that node.
    Fence = 5,
}

impl MessageKind {
    pub(crate) const ALL: [Self; 5] = [
        Self::Begin,
        Self::Changes,
        Self::Part,
        Self::SnapshotEnd,
        Self::Fence,
    ];
}

/// A message of a node's stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StreamMessage {
    pub(crate) kind: MessageKind,
    /// The run of the node that wrote it.
    pub(crate) run: u64,
    /// The number of the message in this run.
    pub(crate) number: u64,
    pub(crate) body: Bytes,
}

impl StreamMessage {
    pub(crate) fn bytes(&self) -> Bytes {
        let mut buffer = BytesMut::with_capacity(18 + self.body.len());
        buffer.put_u8(VERSION);
        buffer.put_u8(self.kind as u8);
        buffer.put_u64(self.run);
        buffer.put_u64(self.number);
        buffer.put_slice(&self.body);
        buffer.freeze()
    }

    pub(crate) fn read(bytes: Bytes) -> Result<Self, EncodingError> {
        let mut input = Input::versioned(bytes)?;
        let kind = input.u8()?;
        let known = MessageKind::ALL.into_iter();
        let mut known = known.filter(|one| *one as u8 == kind);
        Ok(Self {
            kind: known.next().ok_or(EncodingError::Malformed)?,
            run: input.u64()?,
            number: input.u64()?,
            body: input.rest(),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_written_message_reads_back(kind in 0_usize..5, run: u64, number: u64, body: Vec<u8>) {
            let kind = MessageKind::ALL[kind];
            let message = StreamMessage { kind, run, number, body: body.into() };
            prop_assert_eq!(StreamMessage::read(message.bytes()), Ok(message));
        }

        #[test]
        fn no_bytes_cause_a_panic(bytes: Vec<u8>) {
            let _ = StreamMessage::read(bytes.into());
        }
    }
}
