//! The state that only the learner uses: learned messages, the last expiry, unwritten records.

use super::message_key::MessageKey;
use super::record::{Class, ExpiryRecord, LearnedRecord, LessonPosition};
use super::sample::BayesSample;
use super::seen::Seen;

/// The state that only learning changes, guarded by one lock.
pub(super) struct LearnerState {
    /// The messages that were learned.
    pub(super) seen: Seen,
    /// The latest expiry.
    pub(super) expiry: ExpiryRecord,
    /// The position in the lessons of a cluster.
    pub(super) position: Option<LessonPosition>,
    /// Records other than tokens that are not yet written to the store.
    pub(super) waiting: Vec<LearnedRecord>,
}

impl LearnerState {
    pub(super) fn new(messages_max: usize) -> Self {
        Self {
            seen: Seen::new(messages_max),
            expiry: ExpiryRecord::default(),
            position: None,
            waiting: Vec::new(),
        }
    }

    /// Notes the position in the lessons of a cluster.
    pub(super) fn pass_to(&mut self, position: LessonPosition) {
        self.position = Some(position);
        self.waiting.push(LearnedRecord::Position(position));
    }

    /// The key under which a message was learned, and its class.
    pub(super) fn find(&self, sample: &BayesSample) -> Option<(MessageKey, Class)> {
        let own = sample.own_id.as_deref();
        std::iter::once(sample.generated_id.as_slice())
            .chain(own)
            .map(MessageKey::of)
            .find_map(|key| Some((key, self.seen.get(key)?)))
    }
}
