//! `[[alarm]]`: the topics that are watched, and the reasons for an alarm.

use gatepost_settings::Period;
use serde::{Deserialize, Serialize};

/// One alarm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AlarmSettings {
    /// The alarm's name: letters, digits, `-` and `_`.
    pub name: String,
    /// The filter of the topics that the alarm watches. Each topic has its own state.
    pub filter: String,
    /// The topic that it publishes on, followed by the watched topic if the filter has a wildcard;
    /// empty for `alarms/NAME`.
    pub topic: String,
    /// The time without a message after which it is raised; 0 for never.
    pub silence: Period,
    /// The value in a JSON payload, as in `battery.percent` or `readings.0`; empty for a payload
    /// that is a number.
    pub field: String,
    /// The value above which it is raised.
    pub above: Option<f64>,
    /// The value below which it is raised.
    pub below: Option<f64>,
    /// The distance by which a value must return beyond the limit before the alarm is cleared.
    pub hysteresis: f64,
    /// The time for which values must be beyond the limit before it is raised.
    pub hold: Period,
    /// The time after which it is published again until it is acknowledged; 0 for once.
    pub repeat: Period,
    /// The priority of a raised alarm for ntfy's clients, from 1 to 5.
    pub priority: u8,
    /// The format of notices: `json`, or a line of `text`.
    pub payload: AlarmPayload,
    /// Topics that are watched at once.
    pub topics_max: usize,
}

/// `payload`: the format of notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AlarmPayload {
    /// A JSON object with all information.
    Json,
    /// A line for people.
    Text,
}

impl Default for AlarmSettings {
    fn default() -> Self {
        Self {
            name: String::new(),
            filter: String::new(),
            topic: String::new(),
            silence: Period::seconds(0),
            field: String::new(),
            above: None,
            below: None,
            hysteresis: 0.0,
            hold: Period::seconds(0),
            repeat: Period::seconds(0),
            priority: 4,
            payload: AlarmPayload::Json,
            topics_max: 1_000,
        }
    }
}

impl AlarmSettings {
    /// The topic that the alarm publishes on, or its first levels.
    pub(crate) fn base_topic(&self) -> String {
        if self.topic.is_empty() {
            format!("alarms/{}", self.name)
        } else {
            self.topic.clone()
        }
    }

    /// Returns whether values are compared.
    pub(crate) const fn has_limit(&self) -> bool {
        self.above.is_some() || self.below.is_some()
    }
}
