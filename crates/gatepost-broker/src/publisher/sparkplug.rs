//! Sparkplug awareness (`broker.sparkplug`): a retained copy of each birth certificate, and the
//! time of delivery in the deaths of edge nodes.
//!
//! Both happen where a publication is delivered, so a publication that is refused before that (by
//! the access rules, a procedure or the rule of its topic) has no copy, and subscribers never
//! receive another time than the retained message has.

use std::time::UNIX_EPOCH;

use bytes::Bytes;
use gatepost_message::sparkplug::{CERTIFICATES, SparkplugTopic, with_timestamp};
use gatepost_message::{MessageId, Publication, Topic};

use super::topics::SparkplugRole;
use super::{Publisher, TopicSlot};
use crate::counters::Counters;
use crate::limits::Limit;

impl Publisher {
    /// The role of a topic; `None` for most topics, and for all without `broker.sparkplug`.
    pub(super) fn role_of(&self, topic: &Topic) -> Option<SparkplugRole> {
        if !self.shared.settings.sparkplug {
            return None;
        }
        match SparkplugTopic::of(topic.as_str())? {
            SparkplugTopic::NodeDeath => Some(SparkplugRole::NodeDeath),
            SparkplugTopic::Birth => {
                let name = [CERTIFICATES, topic.as_str()].concat();
                let is_possible = self.shared.is_within_limits(&name);
                let copy = Topic::new(&name).ok().filter(|_| is_possible);
                if copy.is_none() {
                    self.reached(Limit::Topic);
                }
                copy.map(SparkplugRole::Birth)
            }
        }
    }

    /// Sets the timestamp of an edge node's death to the present time. A malformed payload remains
    /// as it is. Publications of other nodes were changed there.
    pub(super) fn set_time_of_death(&self, slot: TopicSlot, publication: &mut Publication) {
        let is_death = matches!(self.topics[slot].role, Some(SparkplugRole::NodeDeath));
        if !is_death || self.is_of_other_nodes {
            return;
        }
        let now = self.shared.clock.time_of_day();
        let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let milliseconds = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        match with_timestamp(&publication.payload, milliseconds) {
            Ok(payload) => publication.payload = Bytes::from(payload),
            Err(error) => {
                Counters::add(&self.shared.counters.sparkplug_malformed, 1);
                tracing::debug!(target: "broker", topic = publication.topic.as_str(), %error,
                    "the timestamp of an NDEATH is not set");
            }
        }
    }

    /// Retains the copy of a birth certificate that was delivered; an empty payload removes it.
    /// Slots of topics may be invalid after this.
    pub(super) fn keep_certificate(&mut self, slot: TopicSlot, publication: &Publication) {
        let Some(SparkplugRole::Birth(topic)) = &self.topics[slot].role else {
            return;
        };
        let copy = Publication {
            id: MessageId::next(),
            topic: topic.clone(),
            retain: true,
            ..publication.clone()
        };
        // A refusal is counted under its limit, and does not concern the publication itself.
        self.publish(copy);
    }
}
