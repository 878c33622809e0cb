//! The rules for topics, as they apply to a publication.

use std::sync::Arc;

use gatepost_message::Publication;
use gatepost_topics::{RuleViolation, TopicRule};

use super::{PublishOutcome, PublishRefusal, Publisher, TopicSlot};
use crate::limits::Limit;

impl Publisher {
    /// The rule of a known topic, looked up again only after a reload.
    fn rule(&mut self, slot: TopicSlot) -> Option<Arc<TopicRule>> {
        self.topics.renew_rules(&self.shared.topic_rules);
        self.topics[slot].rule.clone()
    }

    /// Completes a publication as the rule of its topic demands; returns the outcome of one that
    /// the rule does not permit. Publications of other nodes were checked there.
    pub(super) fn apply_rule(
        &mut self,
        slot: TopicSlot,
        publication: &mut Publication,
    ) -> Result<(), PublishOutcome> {
        let Some(rule) = self.rule(slot).filter(|_| !self.is_of_other_nodes) else {
            return Ok(());
        };
        let too_many = || {
            let (messages, per) = rule.rate()?;
            let allowance = &self.topics[slot].record.allowance;
            let taken = allowance.take(messages, per, self.shared.clock.now());
            taken.err().map(RuleViolation::TooMany)
        };
        let violation = rule.violation(publication).or_else(too_many);
        let Some(violation) = violation else {
            rule.complete(publication);
            return Ok(());
        };
        self.reached(Limit::TopicRule);
        Err(PublishOutcome {
            receivers: 0,
            refused: Some(PublishRefusal::Rule(violation)),
            is_forwarded: false,
        })
    }
}
