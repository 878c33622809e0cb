//! The boundary to other servers that share topics with this one.
//!
//! The broker announces which filters have subscribers on this server, forwards this server's
//! publications to the others, and can wait until all of them know a new filter. It does not know
//! the transport.
//!
//! Invariants:
//! - A publication of another node is not forwarded: only the publishers of
//!   [`Broker::node_publisher`] publish it here, and they forward nothing.
//! - Topics that begin with `$` belong to one server; they are neither forwarded nor announced.
//! - No method blocks.
//!
//! [`Broker::node_publisher`]: crate::Broker::node_publisher

use std::sync::Arc;

use gatepost_message::{Publication, TopicFilter};
use serde::Serialize;
use tokio::sync::watch;

/// Other servers that share topics with this one.
pub trait OtherNodes: Send + Sync {
    /// A filter got its first subscriber of this server, or lost its last one. Called in the order
    /// of these changes, for each filter.
    fn set_interest(&self, filter: &TopicFilter, is_wanted: bool);

    /// The wait until all changes so far are known to the other nodes; `None` where they are, or
    /// where no other node can be reached.
    fn interest_barrier(&self) -> Option<InterestBarrier>;

    /// A publication of this server is about to be retained. The message that other nodes retain
    /// for this topic must not replace it before [`OtherNodes::forward`] was called with it.
    fn begin_retaining(&self, publication: &Publication);

    /// Forwards a publication of this server. Returns whether this will be attempted.
    fn forward(&self, publication: &Arc<Publication>) -> bool;

    /// The state, for operators.
    fn status(&self) -> NodesStatus;
}

/// A node that is alive, for operators.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LiveNode {
    /// Its number.
    pub node: u8,
    /// The name of its machine.
    pub host: String,
    /// Its version.
    pub version: String,
    /// Unix time of its start, in milliseconds.
    pub started_unix_ms: u64,
}

/// The state of the connection to other nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodesStatus {
    /// This node.
    pub this: LiveNode,
    /// The reason why this node is not part of the cluster; `None` while it is.
    pub trouble: Option<String>,
    /// The other nodes that are alive, by number.
    pub others: Vec<LiveNode>,
    /// Publications that were sent to the other nodes.
    pub forwarded: u64,
    /// Publications that came from other nodes.
    pub received: u64,
    /// Messages of other nodes that could not be read.
    pub malformed: u64,
    /// Topics whose retained message the other nodes do not have yet.
    pub retained_unsent: u64,
    /// Subscriptions that were answered before every other node had confirmed them.
    pub unconfirmed_interest: u64,
}

/// The wait until the other nodes know of a filter.
#[derive(Debug, Clone)]
pub struct InterestBarrier {
    /// The number of changes that the other nodes know.
    known: watch::Receiver<u64>,
    number: u64,
}

impl InterestBarrier {
    /// A wait until `known` is at least `number`.
    pub const fn new(known: watch::Receiver<u64>, number: u64) -> Self {
        Self { known, number }
    }

    /// Whether the wait is over.
    pub fn is_reached(&self) -> bool {
        *self.known.borrow() >= self.number
    }

    /// Waits. The wait is also over when this server ends.
    pub async fn reached(mut self) {
        let number = self.number;
        let _ = self.known.wait_for(|known| *known >= number).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_barrier_is_reached_by_its_number_or_a_higher_one() {
        let (sender, known) = watch::channel(3);
        let barrier = InterestBarrier::new(known, 5);
        assert!(!barrier.is_reached());
        sender.send_replace(4);
        assert!(!barrier.is_reached());
        sender.send_replace(6);
        assert!(barrier.is_reached());
    }
}
