//! The epoch of this node, and the name of a stream that it writes.
//!
//! A node whose stream was fenced by another node begins a new epoch, and so another stream.

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
