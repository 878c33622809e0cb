//! Questions about a session between nodes, and their answers, as bytes.

use bytes::{BufMut as _, Bytes, BytesMut};
use gatepost_broker::SessionName;

use super::transfer;
use crate::encoding::{EncodingError, Input, VERSION};

/// A question to a node that has, or had, a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionQuestion {
    pub(crate) name: SessionName,
    /// The claim under which the node had the session.
    pub(crate) wanted: u64,
    /// The claim of the node that asks.
    pub(crate) claim: u64,
    pub(crate) request: SessionRequest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionRequest {
    /// A piece of the content.
    Piece(u32),
    /// The content is stored, and may be removed.
    Remove,
    /// Whether the node has the session. It keeps it.
    Holds,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SessionAnswer {
    /// The node does not have the session, and will not write it under this claim.
    Absent,
    /// The question is to be repeated.
    Busy,
    /// The node is claiming the session itself, later than the node that asks.
    Superseded,
    /// A piece of the content, as `transfer.rs` reads it.
    Piece(Bytes),
    /// The content is removed.
    Removed,
    /// The node has the session.
    Held,
}

const REMOVE: u32 = u32::MAX;
const HOLDS: u32 = u32::MAX - 1;

impl SessionQuestion {
    pub(crate) fn bytes(&self) -> Bytes {
        let mut buffer = BytesMut::new();
        buffer.put_u8(VERSION);
        transfer::push_name(&mut buffer, &self.name);
        buffer.put_u64(self.wanted);
        buffer.put_u64(self.claim);
        buffer.put_u32(match self.request {
            SessionRequest::Piece(index) => index,
            SessionRequest::Remove => REMOVE,
            SessionRequest::Holds => HOLDS,
        });
        buffer.freeze()
    }

    pub(crate) fn read(bytes: Bytes) -> Result<Self, EncodingError> {
        let mut input = Input::versioned(bytes)?;
        Ok(Self {
            name: transfer::read_name(&mut input)?,
            wanted: input.u64()?,
            claim: input.u64()?,
            request: match input.u32()? {
                REMOVE => SessionRequest::Remove,
                HOLDS => SessionRequest::Holds,
                index => SessionRequest::Piece(index),
            },
        })
    }
}

impl SessionAnswer {
    pub(crate) fn bytes(&self) -> Bytes {
        let (kind, rest): (u8, &[u8]) = match self {
            Self::Absent => (0, &[]),
            Self::Busy => (1, &[]),
            Self::Superseded => (2, &[]),
            Self::Piece(bytes) => (3, bytes),
            Self::Removed => (4, &[]),
            Self::Held => (5, &[]),
        };
        let mut buffer = BytesMut::with_capacity(2 + rest.len());
        buffer.put_u8(VERSION);
        buffer.put_u8(kind);
        buffer.put_slice(rest);
        buffer.freeze()
    }

    pub(crate) fn read(bytes: Bytes) -> Result<Self, EncodingError> {
        let mut input = Input::versioned(bytes)?;
        match input.u8()? {
            0 => Ok(Self::Absent),
            1 => Ok(Self::Busy),
            2 => Ok(Self::Superseded),
            3 => Ok(Self::Piece(input.rest())),
            4 => Ok(Self::Removed),
            5 => Ok(Self::Held),
            _ => Err(EncodingError::Malformed),
        }
    }
}

/// The announcement that a session is replaced: the node that replaces it, its claim, or 0 if its
/// session ends with its connection, and the name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReplacedSession {
    pub(crate) node: u8,
    pub(crate) claim: u64,
    pub(crate) name: SessionName,
}

impl ReplacedSession {
    pub(crate) fn bytes(&self) -> Bytes {
        let mut buffer = BytesMut::new();
        buffer.put_u8(VERSION);
        buffer.put_u8(self.node);
        buffer.put_u64(self.claim);
        transfer::push_name(&mut buffer, &self.name);
        buffer.freeze()
    }

    pub(crate) fn read(bytes: Bytes) -> Result<Self, EncodingError> {
        let mut input = Input::versioned(bytes)?;
        Ok(Self {
            node: input.u8()?,
            claim: input.u64()?,
            name: transfer::read_name(&mut input)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;

    fn name(client: &str) -> SessionName {
        SessionName {
            user: Some(Arc::from("u")),
            client_id: Arc::from(client),
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(wanted: u64, claim: u64, index in 0..HOLDS, client: String) {
            let piece = SessionRequest::Piece(index);
            for request in [SessionRequest::Remove, SessionRequest::Holds, piece] {
                let name = name(&client);
                let question = SessionQuestion { name, wanted, claim, request };
                prop_assert_eq!(SessionQuestion::read(question.bytes()), Ok(question));
            }
            let replaced = ReplacedSession { node: 3, claim, name: name(&client) };
            prop_assert_eq!(ReplacedSession::read(replaced.bytes()), Ok(replaced));
        }

        #[test]
        fn no_bytes_cause_a_panic(bytes: Vec<u8>) {
            let mut with_version = vec![VERSION];
            with_version.extend(&bytes);
            for bytes in [bytes, with_version] {
                let _ = SessionQuestion::read(bytes.clone().into());
                let _ = ReplacedSession::read(bytes.clone().into());
                let _ = SessionAnswer::read(bytes.into());
            }
        }
    }
}
