//! Forwarding of publications to other nodes, and publication of theirs on this node.

use std::sync::Arc;

use gatepost_message::Publication;

use super::Publisher;
use crate::counters::DropCause;
use crate::nodes::OtherNodes;
use crate::shared::BrokerShared;

impl Publisher {
    /// See [`Broker::node_publisher`](crate::Broker::node_publisher).
    pub(crate) fn of_other_nodes(shared: Arc<BrokerShared>) -> Self {
        let mut publisher = Self::new(shared, None);
        publisher.is_of_other_nodes = true;
        publisher
    }

    /// Retains a publication, or clears its topic, and delivers it to no subscriber: they have it.
    /// Returns whether there was room.
    pub fn retain(&mut self, publication: Publication) -> bool {
        !self.retain_or_clear(&Arc::new(publication))
    }

    /// The nodes that a publication of this publisher goes to, if it goes to any.
    pub(super) fn nodes_for(&self, publication: &Publication) -> Option<&dyn OtherNodes> {
        let nodes = self.shared.nodes.as_deref()?;
        let is_shared = !self.is_of_other_nodes && !publication.topic.as_str().starts_with('$');
        is_shared.then_some(nodes)
    }

    /// Announces that the publication is about to be retained here.
    pub(super) fn begin_retaining(&self, publication: &Publication) {
        if let Some(nodes) = self.nodes_for(publication) {
            nodes.begin_retaining(publication);
        }
    }

    /// Passes the publication to the other nodes; returns whether sending it will be attempted.
    pub(super) fn forward(&self, publication: &Arc<Publication>) -> bool {
        let Some(nodes) = self.nodes_for(publication) else {
            return false;
        };
        let is_attempted = nodes.forward(publication);
        if !is_attempted {
            let counters = &self.shared.counters;
            counters.drop_messages(DropCause::Backbone, 1);
        }
        is_attempted
    }
}
