//! A queue for slow subscribers that want only each topic's newest message: one message waits for
//! each topic, and the next one replaces it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use gatepost_message::{Publication, Topic};
use smallvec::SmallVec;

use crate::weight::queued_bytes;

/// A QoS 0 delivery that waits for the socket.
pub(crate) struct NewestDelivery {
    pub(crate) publication: Arc<Publication>,
    pub(crate) retain: bool,
    pub(crate) identifiers: SmallVec<[u32; 2]>,
}

impl NewestDelivery {
    fn bytes(&self) -> usize {
        queued_bytes(&self.publication, &self.identifiers)
    }
}

/// One delivery for each topic, in the order in which the topics began to wait.
#[derive(Default)]
pub(crate) struct NewestPerTopic {
    order: VecDeque<Topic>,
    latest: HashMap<Topic, NewestDelivery>,
    /// Bytes of these deliveries.
    bytes: usize,
}

impl NewestPerTopic {
    pub(crate) fn is_empty(&self) -> bool {
        self.latest.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.latest.len()
    }

    /// Queues a delivery; returns how many it replaced. Beyond the bounds the topics that wait
    /// longest are dropped.
    pub(crate) fn put(
        &mut self,
        latest: NewestDelivery,
        topics_max: usize,
        bytes_max: usize,
    ) -> u64 {
        let topic = latest.publication.topic.clone();
        self.bytes += latest.bytes();
        let mut replaced = 0;
        if let Some(earlier) = self.latest.insert(topic.clone(), latest) {
            self.bytes -= earlier.bytes();
            replaced = 1;
        } else {
            self.order.push_back(topic);
        }
        let is_full = |newest: &Self| {
            let is_only_one = newest.order.len() == 1;
            newest.order.len() > topics_max || newest.bytes > bytes_max && !is_only_one
        };
        while is_full(self) && self.pop().is_some() {
            replaced += 1;
        }
        replaced
    }

    /// The delivery whose topic waits longest.
    pub(crate) fn pop(&mut self) -> Option<NewestDelivery> {
        let topic = self.order.pop_front()?;
        let latest = self.latest.remove(&topic)?;
        self.bytes -= latest.bytes();
        Some(latest)
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

    const TOPICS_MAX: usize = 2;
    const BYTES_MAX: usize = 10;

    #[test]
    fn bytes_are_bounded_and_one_delivery_always_fits() {
        let mut newest = NewestPerTopic::default();
        let payloads = ["1234", "123456789", "12345678901234567890", "1"];
        let topics = ["a", "b", "c", "d"];
        let replaced: Vec<u64> = topics
            .into_iter()
            .zip(payloads)
            .map(|(topic, payload)| newest.put(latest(topic, payload), TOPICS_MAX, BYTES_MAX))
            .collect();
        assert_eq!(replaced, [0, 1, 1, 1]);
        assert_eq!(newest.put(latest("d", "1234567"), TOPICS_MAX, BYTES_MAX), 1);
        assert_eq!(
            newest.put(latest("e", "1"), TOPICS_MAX, BYTES_MAX),
            0,
            "it fits exactly"
        );
        assert_eq!((newest.len(), newest.bytes), (2, 10));
    }

    #[test]
    fn each_topic_keeps_its_place_and_its_newest() {
        let mut newest = NewestPerTopic::default();
        let replaced: Vec<u64> = [("a", "1"), ("b", "2"), ("a", "3"), ("c", "4")]
            .map(|(topic, payload)| newest.put(latest(topic, payload), TOPICS_MAX, BYTES_MAX))
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
