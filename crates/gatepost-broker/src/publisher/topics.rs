//! The topics that a publisher knows, and the route of each.

use std::sync::Arc;

use gatepost_message::{Topic, TopicError};
use gatepost_topics::TopicRule;

use super::Publisher;
use crate::index::{Generations, TopicHash};
use crate::limits::Limit;
use crate::recent::{TopicKey, TopicRecord};
use crate::route::Route;

/// The number of topics that one publisher remembers; beyond it, the table is cleared.
const TOPICS_MAX: usize = 1024;
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

impl Publisher {
    /// Looks `name` up among the topics of this publisher, checking it when it is new.
    pub fn enter(&mut self, name: &str) -> Result<TopicSlot, EnterError> {
        if let Some(slot) = self.lookup(name) {
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
        match self.lookup(topic.as_str()) {
            Some(slot) => slot,
            None => self.remember(topic.clone()),
        }
    }

    pub(super) fn lookup(&mut self, name: &str) -> Option<TopicSlot> {
        if let Some(last) = self.last
            && self.known[last.0].topic.as_str() == name
        {
            return Some(last);
        }
        self.last = self.slots.get(name).copied();
        self.last
    }

    pub(super) fn remember(&mut self, topic: Topic) -> TopicSlot {
        if self.known.len() >= TOPICS_MAX {
            self.known.clear();
            self.slots.clear();
            self.epoch += 1;
        }
        let slot = TopicSlot(self.known.len());
        let hash = self.shared.index.topic_hash(topic.as_str());
        let generations = self.shared.index.generations(hash);
        let route = Route::find(&self.shared.index, topic.as_str(), hash);
        self.slots.insert(TopicKey(topic.clone()), slot);
        self.known.push(KnownTopic {
            record: self.shared.recent.record(&topic),
            rule: self.shared.topic_rules.find(topic.as_str()),
            role: self.role_of(&topic),
            hash,
            generations,
            route: Arc::new(route),
            topic,
        });
        self.last = Some(slot);
        slot
    }

    /// A number that increases whenever earlier [`TopicSlot`]s become invalid.
    pub const fn topics_epoch(&self) -> u64 {
        self.epoch
    }

    /// The topic of a slot.
    pub fn topic(&self, slot: TopicSlot) -> &Topic {
        &self.known[slot.0].topic
    }

    /// Whether the known route of the topic is current.
    pub(super) fn is_current(&self, slot: TopicSlot) -> bool {
        let known = &self.known[slot.0];
        self.shared.index.generations(known.hash) == known.generations
    }

    /// Looks up the topic's record again after it was evicted.
    pub(super) fn renew_record(&mut self, slot: TopicSlot) {
        let known = &mut self.known[slot.0];
        known.record = self.shared.recent.record(&known.topic);
    }

    /// The route of the topic's publications; looked up again only if something changed.
    pub(super) fn route(&mut self, slot: TopicSlot) -> Arc<Route> {
        let known = &mut self.known[slot.0];
        let generations = self.shared.index.generations(known.hash);
        if generations != known.generations {
            let route = Route::find(&self.shared.index, known.topic.as_str(), known.hash);
            known.route = Arc::new(route);
            known.generations = generations;
        }
        known.route.clone()
    }
}
