//! The rules for topics, which a reload replaces.
//!
//! A publisher keeps the rule of each topic that it knows, and compares one number to notice a
//! replacement, so a publication on a topic without a rule takes no lock and no search.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use gatepost_topics::{TopicRule, TopicRules};

/// The rules in force, and the number of replacements.
#[derive(Debug, Default)]
pub(crate) struct RulesInForce {
    rules: ArcSwap<TopicRules>,
    version: AtomicU64,
}

impl RulesInForce {
    pub(crate) fn replace(&self, rules: TopicRules) {
        self.rules.store(Arc::new(rules));
        // After the rules: a publisher that sees the new number finds the new rules.
        self.version.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub(crate) fn find(&self, topic: &str) -> Option<Arc<TopicRule>> {
        self.rules.load().find(topic).cloned()
    }

    /// The largest number of publications that a rule remembers for one topic.
    pub(crate) fn history_messages_max(&self) -> usize {
        let most = self.rules.load().history_messages_max();
        most.unwrap_or_default()
    }
}
