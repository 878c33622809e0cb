//! The state of an alarm, for `/admin/alarms`, `/metrics` and the dashboard.

use std::time::Duration;

use serde::Serialize;

use crate::watch::AlarmWatch;

/// A topic for which an alarm is raised.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RaisedTopic {
    /// The watched topic.
    pub topic: String,
    /// `silence`, `above` or `below`.
    pub cause: &'static str,
    /// The value that raised it.
    pub value: Option<f64>,
    /// The limit that the value is beyond.
    pub limit: Option<f64>,
    /// The time at which it was raised, in Unix milliseconds.
    pub since_unix_ms: u64,
    /// The user who has acknowledged it.
    pub acknowledged_by: Option<String>,
    /// The time until which its notices are suppressed, in Unix milliseconds.
    pub snoozed_until_unix_ms: Option<u64>,
}

/// An alarm at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct AlarmStatus {
    /// Its name.
    pub name: String,
    /// The topics that it watches.
    pub filter: String,
    /// The number of topics that it watches.
    pub topics: usize,
    /// The number of topics for which it is raised.
    pub raised_count: usize,
    /// Topics for which it is raised, the longest first, up to the requested number.
    pub raised: Vec<RaisedTopic>,
    /// Messages on topics beyond `topics_max` since the start; these are not watched.
    pub unwatched: u64,
}

impl AlarmStatus {
    /// Adds the figures of the topics, and up to `count` raised topics.
    pub(crate) fn describe(&mut self, watch: &AlarmWatch, count: usize, now: Duration) {
        self.topics = watch.topics().len();
        self.unwatched = watch.unwatched();
        let topics = watch.topics().iter();
        let raised = topics.filter_map(|(topic, state)| {
            let raised = state.raised.as_ref()?;
            let snoozed_until = state.snoozed_until.filter(|_| state.is_snoozed(now));
            Some(RaisedTopic {
                topic: topic.to_string(),
                cause: raised.cause.name(),
                value: raised.value,
                limit: watch.limits().of(raised.cause),
                since_unix_ms: raised.since_unix_ms,
                acknowledged_by: raised.acknowledged_by.clone(),
                snoozed_until_unix_ms: snoozed_until.map(|until| until.unix_ms),
            })
        });
        let mut raised: Vec<RaisedTopic> = raised.collect();
        raised.sort_by(|one, other| {
            let one = (one.since_unix_ms, &one.topic);
            one.cmp(&(other.since_unix_ms, &other.topic))
        });
        self.raised_count = raised.len();
        raised.truncate(count);
        self.raised = raised;
    }
}
