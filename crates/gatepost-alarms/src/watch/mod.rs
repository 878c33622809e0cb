//! The topics that one alarm watches. The watch knows neither broker nor clock: its inputs are
//! messages and moments, its outputs are changes.
//!
//! A message costs a look-up and a comparison: the ordered set of deadlines is not changed when a
//! deadline moves later, but when the earlier deadline is reached.

mod earlier;
mod requests;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use gatepost_message::TopicFilter;

use crate::limit::Limits;
use crate::notice::{Notice, NoticeState};
use crate::payload_field::PayloadField;
use crate::settings::AlarmSettings;
use crate::topic_state::{AlarmMoment, RaisedAlarm, TopicState, Transition};

/// The pause before a notice that could not be published is published again.
const ANNOUNCE_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// The part of a message that alarms read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ObservedMessage<'a> {
    pub(crate) topic: &'a str,
    pub(crate) payload: &'a [u8],
    pub(crate) retain: bool,
}

/// A change of a topic's state, which must be stored after the notice is published.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) topic: Arc<str>,
    pub(crate) notice: Option<Notice>,
}

pub(crate) struct AlarmWatch {
    /// The one topic, where the filter has no wildcard.
    only: Option<Arc<str>>,
    silence: Duration,
    hold: Duration,
    repeat: Duration,
    topics_max: usize,
    field: String,
    reading: Option<PayloadField>,
    limits: Limits,
    topics: HashMap<Arc<str>, TopicState>,
    /// The topics by the moment at which they are evaluated.
    due: BTreeSet<(Duration, Arc<str>)>,
    changes: Vec<Change>,
    /// Messages on topics beyond `topics_max`.
    unwatched: u64,
}

impl AlarmWatch {
    pub(crate) fn new(settings: &AlarmSettings, filter: &TopicFilter) -> Self {
        let only = (!filter.has_wildcard()).then(|| Arc::from(filter.as_str()));
        Self {
            only,
            silence: settings.silence.duration(),
            hold: settings.hold.duration(),
            repeat: settings.repeat.duration(),
            topics_max: settings.topics_max,
            field: settings.field.clone(),
            reading: settings
                .has_limit()
                .then(|| PayloadField::new(&settings.field)),
            limits: Limits::new(settings),
            topics: HashMap::new(),
            due: BTreeSet::new(),
            changes: Vec::new(),
            unwatched: 0,
        }
    }

    /// Begins to watch, after the states of an earlier run were restored.
    pub(crate) fn begin(&mut self, now: AlarmMoment) {
        if let Some(only) = self.only.clone() {
            self.watch(&only, now);
        }
    }

    /// Watches the topic from now on; returns `None` if `topics_max` is reached.
    fn watch(&mut self, topic: &str, now: AlarmMoment) -> Option<Arc<str>> {
        if let Some((known, _)) = self.topics.get_key_value(topic) {
            return Some(known.clone());
        }
        if self.topics.len() >= self.topics_max {
            self.unwatched += 1;
            return None;
        }
        let key: Arc<str> = Arc::from(topic);
        let state = TopicState {
            heard_unix_ms: now.unix_ms,
            has_no_message: true,
            silent_at: (!self.silence.is_zero()).then(|| now.steady + self.silence),
            ..TopicState::default()
        };
        self.topics.insert(key.clone(), state);
        if !self.silence.is_zero() {
            // After a restart the topic's silence must be noticed, even if no message ever arrives.
            self.changed(&key, None);
        }
        self.evaluate_topic(&key, now);
        Some(key)
    }

    /// Processes a message.
    pub(crate) fn observe(&mut self, message: ObservedMessage<'_>, now: AlarmMoment) {
        if self.is_removal(message) {
            self.forget(message.topic, now);
            return;
        }
        let Some(topic) = self.watch(message.topic, now) else {
            return;
        };
        let silence = self.silence;
        if let Some(state) = self.topics.get_mut(&topic) {
            state.heard_unix_ms = now.unix_ms;
            state.has_no_message = false;
            state.is_silent = false;
            state.silent_at = (!silence.is_zero()).then(|| now.steady + silence);
        }
        self.compare(&topic, message.payload, now);
    }

    /// Returns whether the message clears its retained topic: its device was removed permanently.
    fn is_removal(&self, message: ObservedMessage<'_>) -> bool {
        self.only.is_none() && message.retain && message.payload.is_empty()
    }

    /// Compares the value in a payload, if it has one, with the limits.
    fn compare(&mut self, topic: &Arc<str>, payload: &[u8], now: AlarmMoment) {
        let value = self
            .reading
            .as_ref()
            .and_then(|reading| reading.of(payload));
        if let Some(value) = value
            && let Some(state) = self.topics.get_mut(topic)
        {
            state.value = Some(value);
            let before = state.beyond;
            let beyond = self.limits.beyond(value, before.map(|(cause, _)| cause));
            state.beyond = beyond.map(|cause| match before {
                Some((same, since)) if same == cause => (same, since),
                _ => (cause, now.steady),
            });
        }
        self.evaluate_topic(topic, now);
    }

    /// Evaluates a topic: raises, clears and publishes its alarm as necessary.
    fn evaluate_topic(&mut self, topic: &Arc<str>, now: AlarmMoment) {
        let Some(state) = self.topics.get_mut(topic) else {
            return;
        };
        let transition = state.evaluate(self.hold, now);
        let is_due = state.announce_at.is_some_and(|at| at <= now.steady);
        let (raised, value) = (state.raised.clone(), state.value);
        if is_due {
            let is_acknowledged =
                matches!(&raised, Some(raised) if raised.acknowledged_by.is_some());
            let repeats = !self.repeat.is_zero() && !is_acknowledged;
            state.announce_at = repeats.then(|| now.steady + self.repeat);
        }
        match (transition, raised) {
            (Some(Transition::Cleared(before)), _) => {
                let notice = self.notice(topic, NoticeState::Cleared, before, value);
                self.changed(topic, notice);
            }
            (_, Some(raised)) if is_due => {
                let value = raised.value;
                let notice = self.notice(topic, NoticeState::Raised, raised, value);
                self.changed(topic, notice);
            }
            (Some(Transition::Raised), _) => self.changed(topic, None),
            (None, _) => {}
        }
        self.arm(topic);
    }

    /// The notice; `None` for the end of an alarm that was never published.
    fn notice(
        &self,
        topic: &Arc<str>,
        state: NoticeState,
        raised: RaisedAlarm,
        value: Option<f64>,
    ) -> Option<Notice> {
        let is_wanted = state == NoticeState::Raised || raised.announced_on.is_some();
        is_wanted.then(|| Notice {
            topic: topic.clone(),
            state,
            field: self.field.clone(),
            limit: self.limits.of(raised.cause),
            silence: self.silence,
            value,
            raised,
        })
    }

    fn changed(&mut self, topic: &Arc<str>, notice: Option<Notice>) {
        let topic = topic.clone();
        self.changes.push(Change { topic, notice });
    }

    /// Schedules the topic's next evaluation, unless an earlier one is scheduled.
    fn arm(&mut self, topic: &Arc<str>) {
        let Some(state) = self.topics.get_mut(topic) else {
            return;
        };
        let Some(due) = state.due(self.hold) else {
            return;
        };
        if state.armed.is_some_and(|armed| armed <= due) {
            return;
        }
        if let Some(later) = state.armed.replace(due) {
            self.due.remove(&(later, topic.clone()));
        }
        self.due.insert((due, topic.clone()));
    }

    /// The moment at which [`AlarmWatch::elapse`] is to be called.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Evaluates the topics whose deadline has passed.
    pub(crate) fn elapse(&mut self, now: AlarmMoment) {
        while self.next_due().is_some_and(|due| due <= now.steady) {
            let Some((_, topic)) = self.due.pop_first() else {
                return;
            };
            let changes = self.changes.len();
            if let Some(state) = self.topics.get_mut(&topic) {
                state.armed = None;
            }
            self.evaluate_topic(&topic, now);
            if self.changes.len() == changes && !self.silence.is_zero() {
                // Stored so that after a restart the time of the last message is roughly known.
                self.changed(&topic, None);
            }
        }
    }

    /// The changes since the last call.
    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// Records that a notice of this topic was published on the topic `on`.
    pub(crate) fn announced(&mut self, topic: &str, on: &str) {
        if let Some(raised) = self
            .topics
            .get_mut(topic)
            .and_then(|state| state.raised.as_mut())
        {
            raised.announced_on = Some(on.to_owned());
        }
    }

    /// Records that a notice of this topic could not be published.
    pub(crate) fn not_announced(&mut self, topic: &Arc<str>, now: AlarmMoment) {
        if let Some(state) = self
            .topics
            .get_mut(topic)
            .filter(|state| state.raised.is_some())
        {
            state.announce_at = Some(now.steady + ANNOUNCE_AGAIN_AFTER);
        }
        self.arm(topic);
    }

    pub(crate) fn topics(&self) -> &HashMap<Arc<str>, TopicState> {
        &self.topics
    }

    pub(crate) const fn unwatched(&self) -> u64 {
        self.unwatched
    }

    pub(crate) const fn limits(&self) -> &Limits {
        &self.limits
    }
}

#[cfg(test)]
mod tests;
