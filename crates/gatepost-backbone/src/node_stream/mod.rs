//! The stream of a node: a copy of its sessions at the NATS servers, from which another node adopts
//! them when this one fails.
//!
//! Each message is appended with the sequence of the last one, so that a node whose stream was
//! fenced by another one can append nothing more. The stream begins with a snapshot, and is
//! shortened by a new snapshot when the changes after it become long.
//!
//! - `message.rs`: the messages;
//! - `change.rs`: changes of the database as bytes;
//! - `copy.rs`: the commits of this node that the stream does not have yet;
//! - `snapshot.rs`: the content of the database as changes;
//! - `replica.rs`: the content of a stream.
//!
//! This module has no tasks: `node_copying.rs` writes the stream, and `adoption/` reads those of
//! failed nodes.

pub(crate) mod change;
pub(crate) mod copy;
pub(crate) mod message;
pub(crate) mod replica;
pub(crate) mod snapshot;

use gatepost_store::{Store, StoreError};

/// The key space of the epoch of this node.
pub(crate) const EPOCH_SPACE: &str = "backbone.epoch";

/// Which stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NodeStreamId {
    pub(crate) node: u8,
    /// Later epochs of a node have higher numbers.
    pub(crate) epoch: u64,
}

/// The epoch that an earlier run of this server has begun; 0 if none.
pub(crate) fn stored_epoch(store: &Store) -> Result<u64, StoreError> {
    let found = store.record(EPOCH_SPACE, b"")?;
    let number = found.and_then(|value| value.as_ref().try_into().ok());
    Ok(number.map_or(0, u64::from_be_bytes))
}
