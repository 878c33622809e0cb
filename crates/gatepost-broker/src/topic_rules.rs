//! The rules for topics at the broker's handle.

use gatepost_message::Publication;
use gatepost_topics::{RuleViolation, TopicRules};

use crate::broker::Broker;

impl Broker {
    /// Replaces the rules for topics. What is beyond the new ones is forgotten within a second.
    pub fn set_topic_rules(&self, rules: TopicRules) {
        let shared = self.shared();
        if let Some(store) = &shared.store {
            store.set_history_ages(rules.history_ages());
        }
        shared.topic_rules.replace(rules);
        shared.recent.apply_rules();
    }

    /// The reason why the rule of its topic never permits this publication.
    pub fn rule_violation(&self, publication: &Publication) -> Option<RuleViolation> {
        let topic = publication.topic.as_str();
        let rule = self.shared().topic_rules.find(topic)?;
        rule.violation(publication)
    }
}
