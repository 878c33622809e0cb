//! The topics that a publisher knows, and the route of each.

use std::collections::HashMap;
use std::ops;
use std::sync::Arc;

use gatepost_message::{Topic, TopicError};
use gatepost_topics::TopicRule;

use super::Publisher;
use crate::index::{Generations, Index, TopicHash};
use crate::limits::Limit;
use crate::recent::{TopicKey, TopicRecord};
use crate::route::Route;
use crate::rules_in_force::RulesInForce;
use crate::shared::BrokerShared;

/// The number of topics that one publisher remembers; beyond it, the table is cleared.
const TOPICS_MAX: usize = 1024;
/// The bytes of their names, beyond which the table is cleared too.
const TOPICS_BYTES_MAX: usize = 1024 * 1024;

/// A topic that a publisher remembers; valid until [`Publisher::topics_epoch`] changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicSlot(usize);

impl TopicSlot {
    /// The index of the slot, for further tables by topic.
    pub const fn index(self) -> usize {
        self.0
    }
}

pub(super) struct KnownTopic {
    pub(super) topic: Topic,
    pub(super) record: Arc<TopicRecord>,
    pub(super) rule: Option<Arc<TopicRule>>,
    pub(super) role: Option<SparkplugRole>,
    hash: TopicHash,
    generations: Generations,
    route: Arc<Route>,
}

/// A topic's role for a Sparkplug aware server.
#[derive(Debug, Clone)]
pub(super) enum SparkplugRole {
    /// Birth certificates, which are retained as copies under this topic.
    Birth(Topic),
    /// Deaths of an edge node, whose timestamps are set.
    NodeDeath,
}

impl EnterError {
    /// For people, in one line.
    pub const fn explanation(self) -> &'static str {
        match self {
            Self::Topic(_) => "the topic is refused",
            Self::BeyondLimits => "the topic is longer or deeper than this server allows",
        }
    }
}

/// The reason why a topic cannot be published to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EnterError {
    /// The text is not a topic.
    #[error(transparent)]
    Topic(#[from] TopicError),
    /// The topic is longer or deeper than the settings allow.
    #[error("the topic is longer or deeper than this server allows")]
    BeyondLimits,
}

impl KnownTopic {
    fn find(shared: &BrokerShared, topic: Topic, role: Option<SparkplugRole>) -> Self {
        let hash = shared.index.topic_hash(topic.as_str());
        let generations = shared.index.generations(hash);
        let route = Route::find(&shared.index, topic.as_str(), hash);
        Self {
            record: shared.recent.record(&topic),
            rule: shared.topic_rules.find(topic.as_str()),
            role,
            hash,
            generations,
            route: Arc::new(route),
            topic,
        }
    }

    /// The route of the topic's publications; looked up again only if something changed.
    fn route(&mut self, index: &Index) -> Arc<Route> {
        let generations = index.generations(self.hash);
        if generations != self.generations {
            let route = Route::find(index, self.topic.as_str(), self.hash);
            self.route = Arc::new(route);
            self.generations = generations;
        }
        self.route.clone()
    }
}

/// The topics that a publisher knows, by their slots.
pub(super) struct KnownTopics {
    known: Vec<KnownTopic>,
    slots: HashMap<TopicKey, TopicSlot>,
    /// Bytes of the names of these topics.
    bytes: usize,
    /// The slot that was looked up last.
    last: Option<TopicSlot>,
    /// The version of the rules that `known` contains.
    rules_version: u64,
    epoch: u64,
}

impl KnownTopics {
    pub(super) fn new(rules_version: u64) -> Self {
        Self {
            known: Vec::new(),
            slots: HashMap::new(),
            bytes: 0,
            last: None,
            rules_version,
            epoch: 0,
        }
    }

    fn lookup(&mut self, name: &str) -> Option<TopicSlot> {
        if let Some(last) = self.last
            && self[last].topic.as_str() == name
        {
            return Some(last);
        }
        self.last = self.slots.get(name).copied();
        self.last
    }

    fn add(&mut self, topic: KnownTopic) -> TopicSlot {
        let bytes = topic.topic.as_str().len();
        if self.known.len() >= TOPICS_MAX || self.bytes + bytes > TOPICS_BYTES_MAX {
            self.known.clear();
            self.slots.clear();
            self.bytes = 0;
            self.epoch += 1;
        }
        self.bytes += bytes;
        let slot = TopicSlot(self.known.len());
        self.slots.insert(TopicKey(topic.topic.clone()), slot);
        self.known.push(topic);
        self.last = Some(slot);
        slot
    }

    /// Looks up the rules of all topics again after a reload.
    pub(super) fn renew_rules(&mut self, rules: &RulesInForce) {
        let version = rules.version();
        if version != self.rules_version {
            self.rules_version = version;
            for known in &mut self.known {
                known.rule = rules.find(known.topic.as_str());
            }
        }
    }
}

impl ops::Index<TopicSlot> for KnownTopics {
    type Output = KnownTopic;

    fn index(&self, slot: TopicSlot) -> &KnownTopic {
        &self.known[slot.0]
    }
}

impl ops::IndexMut<TopicSlot> for KnownTopics {
    fn index_mut(&mut self, slot: TopicSlot) -> &mut KnownTopic {
        &mut self.known[slot.0]
    }
}

impl Publisher {
    /// Looks `name` up among the topics of this publisher, checking it when it is new.
    pub fn enter(&mut self, name: &str) -> Result<TopicSlot, EnterError> {
        if let Some(slot) = self.topics.lookup(name) {
            return Ok(slot);
        }
        if !self.shared.is_within_limits(name) {
            self.reached(Limit::Topic);
            return Err(EnterError::BeyondLimits);
        }
        let topic = Topic::new(name)?;
        Ok(self.remember(topic))
    }

    /// The slot of a topic that need not be known yet.
    pub(super) fn slot_of(&mut self, topic: &Topic) -> TopicSlot {
        match self.topics.lookup(topic.as_str()) {
            Some(slot) => slot,
            None => self.remember(topic.clone()),
        }
    }

    fn remember(&mut self, topic: Topic) -> TopicSlot {
        let role = self.role_of(&topic);
        self.topics.add(KnownTopic::find(&self.shared, topic, role))
    }

    /// A number that increases whenever earlier [`TopicSlot`]s become invalid.
    pub const fn topics_epoch(&self) -> u64 {
        self.topics.epoch
    }

    /// The topic of a slot.
    pub fn topic(&self, slot: TopicSlot) -> &Topic {
        &self.topics[slot].topic
    }

    /// Whether the known route of the topic is current.
    pub(super) fn is_current(&self, slot: TopicSlot) -> bool {
        let known = &self.topics[slot];
        self.shared.index.generations(known.hash) == known.generations
    }

    /// Looks up the topic's record again after it was evicted.
    pub(super) fn renew_record(&mut self, slot: TopicSlot) {
        let known = &mut self.topics[slot];
        known.record = self.shared.recent.record(&known.topic);
    }

    /// See [`KnownTopic::route`].
    pub(super) fn route(&mut self, slot: TopicSlot) -> Arc<Route> {
        self.topics[slot].route(&self.shared.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::Broker;
    use crate::settings::BrokerSettings;

    #[test]
    fn names_of_known_topics_are_bounded_in_bytes() {
        let mut publisher = Broker::new(BrokerSettings::default()).publisher();
        for number in 0..100 {
            let name = format!("{number}/{}", "x".repeat(60_000));
            let slot = publisher.enter(&name).expect("a topic");
            assert_eq!(publisher.topic(slot).as_str(), name);
            let known = publisher.topics.known.iter();
            let bytes: usize = known.map(|known| known.topic.as_str().len()).sum();
            assert_eq!(publisher.topics.bytes, bytes);
            assert!(bytes <= TOPICS_BYTES_MAX);
        }
        assert!(publisher.topics_epoch() > 0, "earlier slots are invalid");
    }
}
