//! The state of one watched topic.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::limit::AlarmCause;

/// A moment on the monotonic clock and on the wall clock. Deadlines use the first, displayed and
/// stored times use the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AlarmMoment {
    /// The time since the start of the alarms.
    pub(crate) steady: Duration,
    pub(crate) unix_ms: u64,
}

/// An alarm that is raised for a topic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RaisedAlarm {
    pub(crate) cause: AlarmCause,
    /// The value that raised it.
    pub(crate) value: Option<f64>,
    pub(crate) since_unix_ms: u64,
    /// The user who has acknowledged it.
    pub(crate) acknowledged_by: Option<String>,
    /// The topic on which the alarm was published, if it was.
    pub(crate) announced_on: Option<String>,
}

/// The state of one topic under an alarm's filter.
#[derive(Debug, Default)]
pub(crate) struct TopicState {
    pub(crate) heard_unix_ms: u64,
    /// No message was received yet; the time above is then that of the first evaluation.
    pub(crate) has_no_message: bool,
    /// The moment at which it counts as silent; `None` if the topic is silent already, or if
    /// silence is not watched.
    pub(crate) silent_at: Option<Duration>,
    pub(crate) is_silent: bool,
    pub(crate) value: Option<f64>,
    /// The limit that the value exceeds, and the time since then.
    pub(crate) beyond: Option<(AlarmCause, Duration)>,
    pub(crate) raised: Option<RaisedAlarm>,
    /// The moment at which the raised alarm is published next.
    pub(crate) announce_at: Option<Duration>,
    pub(crate) snoozed_until: Option<AlarmMoment>,
    /// The earliest moment at which the state is evaluated again.
    pub(crate) armed: Option<Duration>,
}

/// A change of the raised alarms.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Transition {
    /// The alarm is raised, and must be published at `announce_at`.
    Raised,
    /// The earlier alarm is cleared.
    Cleared(RaisedAlarm),
}

impl TopicState {
    /// The cause for which the alarm must be raised now.
    fn cause(&self, hold: Duration, now: Duration) -> Option<AlarmCause> {
        if self.is_silent {
            return Some(AlarmCause::Silence);
        }
        let (cause, since) = self.beyond?;
        let is_raised = self.raised.as_ref().map(|raised| raised.cause) == Some(cause);
        (is_raised || since + hold <= now).then_some(cause)
    }

    /// Evaluates the last value and the time since the last message.
    pub(crate) fn evaluate(&mut self, hold: Duration, now: AlarmMoment) -> Option<Transition> {
        if self
            .silent_at
            .is_some_and(|silent_at| silent_at <= now.steady)
        {
            self.silent_at = None;
            self.is_silent = true;
        }
        let cause = self.cause(hold, now.steady);
        if cause == self.raised.as_ref().map(|raised| raised.cause) {
            return None;
        }
        let before = self.raised.take();
        self.announce_at = None;
        let Some(cause) = cause else {
            return before.map(Transition::Cleared);
        };
        self.raised = Some(RaisedAlarm {
            cause,
            value: self.value.filter(|_| cause != AlarmCause::Silence),
            since_unix_ms: now.unix_ms,
            acknowledged_by: None,
            // If the earlier cause was published, its end is published too.
            announced_on: before.and_then(|before| before.announced_on),
        });
        let snoozed_until = self.snoozed_until.map(|until| until.steady);
        self.announce_at = Some(snoozed_until.unwrap_or_default().max(now.steady));
        Some(Transition::Raised)
    }

    /// The moment at which [`TopicState::evaluate`] or an announcement is due next.
    pub(crate) fn due(&self, hold: Duration) -> Option<Duration> {
        let raised = self.raised.as_ref().map(|raised| raised.cause);
        let held = self
            .beyond
            .filter(|(cause, _)| !self.is_silent && raised != Some(*cause))
            .map(|(_, since)| since + hold);
        let times = [self.silent_at, held, self.announce_at];
        times.into_iter().flatten().min()
    }

    /// Returns whether notices are suppressed for now.
    pub(crate) fn is_snoozed(&self, now: Duration) -> bool {
        self.snoozed_until.is_some_and(|until| until.steady > now)
    }
}
