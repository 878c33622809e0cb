//! Learning that all nodes share: a stream of the engine has the lessons, and each node carries
//! them out in its order.
//!
//! All nodes carry out the same lessons in the same order, so they learn what one server would
//! learn ([`gatepost_learning::lessons`]). Carrying out a lesson of a message that was learned
//! before changes nothing, so a lesson may be in the stream twice.
//!
//! There are two streams: that of Bayes, and that of the averages of senders. The changes of an
//! average say what happened, and not what it became, so they can be carried out in any place of
//! the order; a server of a cluster carries out its own with those of the others. A change must not
//! count twice: the engine recognises a lesson that is sent again.
//!
//! The stream is bounded by snapshots ([`snapshot`]): after a number of lessons, a node writes its
//! whole learned data into the stream, and removes the lessons that the data has, and the earlier
//! snapshot. A node that joins, or was down for longer, takes the snapshot and continues after it.
//! A stream of the last lesson about each message would need no snapshot, but it would have no
//! bound, and no place for data without messages: what was learned before there was a cluster, and
//! what an import brought.
//!
//! The first node of a cluster writes its own data as the first snapshot. A node that joins later
//! takes that of the cluster in place of its own.
//!
//! Invariants:
//! - A lesson of a person is acknowledged when the stream has it. Lessons that were learned
//!   automatically wait in a bounded queue ([`view`]); no scan waits for the engine.
//! - The position is stored in the same commit as the changes of the lessons up to it.
//! - Lessons are removed from the stream only after a snapshot that has them.

pub(crate) mod following;
mod reading;
pub(crate) mod snapshot;
mod stream;
pub(crate) mod view;
