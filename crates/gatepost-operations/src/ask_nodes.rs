//! The way to the operations of other nodes: what this crate needs of a cluster.

use bytes::Bytes;
use gatepost_tasks::Task;
use serde::Serialize;

/// The other nodes of a cluster. The server that has them implements this, over its backbone.
pub trait AskNodes: Send + Sync {
    /// The number of this node.
    fn this_node(&self) -> u8;

    /// Whether this node is part of its cluster at the moment.
    fn is_joined(&self) -> bool;

    /// The other nodes of the cluster, running or not.
    fn other_nodes(&self) -> Vec<u8>;

    /// Asks a node, which answers with [`Operations::answer`]. It waits for a bounded time. An
    /// error is the reason why there is no answer.
    ///
    /// [`Operations::answer`]: crate::Operations::answer
    fn ask(&self, node: u8, question: &[u8]) -> Task<Result<Bytes, NodeFault>>;
}

/// The reason why a node gave no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeFault {
    /// It did not answer.
    Silent,
    /// It answered that it cannot, for this reason.
    Refused(String),
}

/// A node whose part is missing in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnansweredNode {
    /// Its number; `None` for all other nodes, if this one is not part of its cluster.
    pub node: Option<u8>,
    /// The reason, as a sentence.
    pub reason: String,
}
