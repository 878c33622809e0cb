//! A queue for slow subscribers that want only each topic's newest message: one message waits for
//! each topic, and the next one replaces it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use gatepost_message::{Publication, Topic};
use smallvec::SmallVec;

/// A QoS 0 delivery that waits for the socket.
pub(crate) struct NewestDelivery {
    pub(crate) publication: Arc<Publication>,
    pub(crate) retain: bool,
    pub(crate) identifiers: SmallVec<[u32; 2]>,
}

/// One delivery for each topic, in the order in which the topics began to wait.
#[derive(Default)]
pub(crate) struct NewestPerTopic {
    order: VecDeque<Topic>,
    latest: HashMap<Topic, NewestDelivery>,
}

impl NewestPerTopic {
    pub(crate) fn is_empty(&self) -> bool {
        self.latest.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.latest.len()
    }

    /// Queues a delivery; returns how many it replaced. Beyond `topics_max` the topic that waits
    /// longest is dropped.
    pub(crate) fn put(&mut self, latest: NewestDelivery, topics_max: usize) -> u64 {
        let topic = latest.publication.topic.clone();
        if self.latest.insert(topic.clone(), latest).is_some() {
            return 1;
        }
        self.order.push_back(topic);
        if self.order.len() > topics_max {
            return u64::from(self.pop().is_some());
        }
        0
    }

    /// The delivery whose topic waits longest.
    pub(crate) fn pop(&mut self) -> Option<NewestDelivery> {
        let topic = self.order.pop_front()?;
        self.latest.remove(&topic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latest(topic: &str, payload: &'static str) -> NewestDelivery {
        let topic = Topic::new(topic).expect("a topic");
        NewestDelivery {
            publication: Arc::new(Publication::new(topic, payload)),
            retain: false,
            identifiers: SmallVec::new(),
        }
    }

    #[test]
    fn each_topic_keeps_its_place_and_its_newest() {
        let mut newest = NewestPerTopic::default();
        let replaced: Vec<u64> = [("a", "1"), ("b", "2"), ("a", "3"), ("c", "4")]
            .map(|(topic, payload)| newest.put(latest(topic, payload), 2))
            .into();
        assert_eq!(
            replaced,
            [0, 0, 1, 1],
            "the third replaces, the last makes room"
        );
        let left: Vec<_> = std::iter::from_fn(|| newest.pop())
            .map(|latest| latest.publication.payload.clone())
            .collect();
        assert_eq!(left, ["2", "4"]);
        assert!(newest.is_empty());
    }
}
