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
