//! The part of its history that each topic keeps: a number of publications, and an age.

use std::time::{Duration, SystemTime};

use gatepost_topics::TopicRule;

use super::{RecentMessages, Ring, weight};

/// The limits of one topic's ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct KeptHistory {
    pub(super) messages_max: usize,
    age_max: Option<Duration>,
}

impl RecentMessages {
    /// The limits of a topic: those of its rule, or those of all topics.
    pub(super) fn kept_of(&self, topic: &str) -> KeptHistory {
        let rule = self.rules.find(topic);
        let rule = rule.as_deref();
        KeptHistory {
            messages_max: rule
                .and_then(TopicRule::history_messages_max)
                .unwrap_or(self.per_topic),
            age_max: rule.and_then(TopicRule::history_age_max),
        }
    }

    /// Sets the limits of all topics again after the rules were replaced.
    pub(crate) fn apply_rules(&self) {
        for record in self.all() {
            let kept = self.kept_of(record.topic.as_str());
            record.ring.lock().kept = kept;
        }
    }

    /// Removes publications beyond the number or the age that the topic's rule permits.
    pub(crate) fn forget_aged(&self, now: SystemTime) {
        for record in self.all() {
            let freed = record.ring.lock().forget_aged(now);
            if freed > 0 {
                let bytes = &self.bytes;
                bytes.fetch_sub(freed, std::sync::atomic::Ordering::Relaxed);
            }
        }
    }
}

impl Ring {
    /// Returns the number of bytes that are free again.
    fn forget_aged(&mut self, now: SystemTime) -> usize {
        let mut freed = 0;
        while let Some(oldest) = self.publications.front() {
            let age = now.duration_since(oldest.publication.id.time());
            let is_aged = (self.kept.age_max).is_some_and(|max| age.is_ok_and(|age| age >= max));
            if !is_aged && self.publications.len() <= self.kept.messages_max {
                break;
            }
            freed += weight(oldest);
            self.forgotten = self.forgotten.max(Some(oldest.position));
            self.publications.pop_front();
        }
        freed
    }
}
