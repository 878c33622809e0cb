//! The time before the start: the states of an earlier run, and the messages of the history.

use std::sync::Arc;
use std::time::Duration;

use super::{AlarmWatch, ObservedMessage};
use crate::limit::AlarmCause;
use crate::topic_state::{AlarmMoment, RaisedAlarm, TopicState};

/// After a start, no topic counts as silent before this, unless its alarm permits only a shorter
/// silence: clients must reconnect first.
const START_GRACE: Duration = Duration::from_mins(2);

impl AlarmWatch {
    /// Restores the state of an earlier run of the server.
    pub(crate) fn restore(
        &mut self,
        topic: &Arc<str>,
        heard_unix_ms: u64,
        raised: Option<RaisedAlarm>,
        snoozed_until: Option<AlarmMoment>,
        now: AlarmMoment,
    ) {
        if self.topics.len() >= self.topics_max {
            return;
        }
        let cause = raised.as_ref().map(|raised| raised.cause);
        let is_watched = |cause: &AlarmCause| match cause {
            AlarmCause::Silence => !self.silence.is_zero(),
            limit => self.limits.of(*limit).is_some(),
        };
        let beyond = cause.filter(|cause| *cause != AlarmCause::Silence && is_watched(cause));
        let is_silent = cause == Some(AlarmCause::Silence) && !self.silence.is_zero();
        let repeats = !self.repeat.is_zero()
            && raised
                .as_ref()
                .is_some_and(|raised| raised.acknowledged_by.is_none());
        let state = TopicState {
            heard_unix_ms,
            is_silent,
            silent_at: (!is_silent)
                .then(|| self.silent_at(heard_unix_ms, now))
                .flatten(),
            beyond: beyond.map(|cause| (cause, now.steady)),
            announce_at: repeats.then(|| now.steady + self.repeat),
            raised,
            snoozed_until,
            ..TopicState::default()
        };
        self.topics.insert(topic.clone(), state);
        self.evaluate_topic(topic, now);
    }

    /// The moment at which a topic counts as silent whose last message arrived before the start, at
    /// this time.
    fn silent_at(&self, heard_unix_ms: u64, now: AlarmMoment) -> Option<Duration> {
        let age = Duration::from_millis(now.unix_ms.saturating_sub(heard_unix_ms));
        let left = self.silence.saturating_sub(age);
        let wait = left.max(START_GRACE.min(self.silence));
        (!self.silence.is_zero()).then(|| now.steady + wait)
    }

    /// Processes a message from before the start: its value and its time count.
    pub(crate) fn observe_earlier(
        &mut self,
        message: ObservedMessage<'_>,
        unix_ms: u64,
        now: AlarmMoment,
    ) {
        if self.is_removal(message) {
            self.forget(message.topic, now);
            return;
        }
        let age = Duration::from_millis(now.unix_ms.saturating_sub(unix_ms));
        let is_known = self.topics.contains_key(message.topic);
        // A device that was abandoned before the alarm was configured raises no alarm.
        if !is_known && !self.silence.is_zero() && age >= self.silence {
            return;
        }
        let Some(topic) = self.watch(message.topic, now) else {
            return;
        };
        let silent_at = self.silent_at(unix_ms, now);
        if let Some(state) = self.topics.get_mut(&topic)
            && (state.has_no_message || unix_ms > state.heard_unix_ms)
        {
            state.heard_unix_ms = unix_ms;
            state.has_no_message = false;
            state.is_silent = false;
            state.silent_at = silent_at;
        }
        self.compare(&topic, message.payload, now);
    }
}
