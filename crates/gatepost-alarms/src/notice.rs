//! The notices that an alarm publishes.

use std::sync::Arc;
use std::time::Duration;

use gatepost_message::{Properties, Publication, Qos, Topic, TopicError};
use gatepost_settings::Period;
use serde_json::json;

use crate::limit::AlarmCause;
use crate::settings::{AlarmPayload, AlarmSettings};
use crate::topic_state::RaisedAlarm;

/// The user property that marks a publication of an alarm. No alarm watches such messages.
pub(crate) const ALARM_PROPERTY: &str = "alarm";

/// The priority of the notice that an alarm is cleared.
const PRIORITY_CLEARED: u8 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoticeState {
    Raised,
    Cleared,
}

impl NoticeState {
    const fn name(self) -> &'static str {
        match self {
            Self::Raised => "raised",
            Self::Cleared => "cleared",
        }
    }
}

/// The notice that an alarm for one topic is raised or cleared.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Notice {
    pub(crate) topic: Arc<str>,
    pub(crate) state: NoticeState,
    pub(crate) raised: RaisedAlarm,
    /// The present value; for a raised alarm, the value that raised it.
    pub(crate) value: Option<f64>,
    pub(crate) limit: Option<f64>,
    pub(crate) silence: Duration,
    pub(crate) field: String,
}

impl Notice {
    /// The line for people.
    fn text(&self) -> String {
        let topic = &self.topic;
        let value = self
            .value
            .map_or_else(String::new, |value| value.to_string());
        let what = match self.field.as_str() {
            "" => "the value",
            field => field,
        };
        match (self.state, self.raised.cause) {
            (NoticeState::Raised, AlarmCause::Silence) => {
                format!("{topic}: no message for {}", Period(self.silence))
            }
            (NoticeState::Raised, cause) => {
                let limit = self.limit.unwrap_or_default();
                format!("{topic}: {what} is {value}, {} {limit}", cause.name())
            }
            (NoticeState::Cleared, AlarmCause::Silence) => {
                format!("{topic}: messages come again")
            }
            (NoticeState::Cleared, _) if value.is_empty() => format!("{topic}: over"),
            (NoticeState::Cleared, _) => format!("{topic}: {what} is {value} again"),
        }
    }

    /// The topic that it is published on.
    fn published_on(&self, settings: &AlarmSettings, has_wildcard: bool) -> String {
        // An alarm is cleared on the topic on which it was raised.
        if let (NoticeState::Cleared, Some(topic)) = (self.state, &self.raised.announced_on) {
            return topic.clone();
        }
        let base = settings.base_topic();
        if has_wildcard {
            format!("{base}/{}", self.topic)
        } else {
            base
        }
    }

    /// The publication. It is retained, so that later subscribers receive the state.
    pub(crate) fn publication(
        &self,
        settings: &AlarmSettings,
        has_wildcard: bool,
    ) -> Result<Publication, TopicError> {
        let topic = Topic::new(&self.published_on(settings, has_wildcard))?;
        let text = self.text();
        let payload = match settings.payload {
            AlarmPayload::Text => text,
            AlarmPayload::Json => json!({
                "alarm": settings.name,
                "topic": &*self.topic,
                "state": self.state.name(),
                "cause": self.raised.cause.name(),
                "value": self.value,
                "limit": self.limit,
                "since_unix_ms": self.raised.since_unix_ms,
                "text": text,
            })
            .to_string(),
        };
        let (priority, tag) = match self.state {
            NoticeState::Raised => (settings.priority, "rotating_light"),
            NoticeState::Cleared => (settings.priority.min(PRIORITY_CLEARED), "white_check_mark"),
        };
        let user = [
            (ALARM_PROPERTY, settings.name.clone()),
            ("state", self.state.name().to_owned()),
            ("title", settings.name.clone()),
            ("priority", priority.to_string()),
            // The same in both notices, for systems that recognise an alarm by it.
            ("alarm_priority", settings.priority.to_string()),
            ("tags", tag.to_owned()),
        ];
        let content_type = match settings.payload {
            AlarmPayload::Json => "application/json",
            AlarmPayload::Text => "text/plain",
        };
        let mut publication = Publication::new(topic, payload);
        publication.qos = Qos::AtLeastOnce;
        publication.retain = true;
        publication.properties = Some(Box::new(Properties {
            payload_is_text: Some(true),
            content_type: Some(content_type.to_owned()),
            user: user.map(|(name, value)| (name.to_owned(), value)).into(),
            ..Properties::default()
        }));
        Ok(publication)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(state: NoticeState, cause: AlarmCause, value: Option<f64>) -> Notice {
        Notice {
            topic: Arc::from("freezer/1"),
            state,
            raised: RaisedAlarm {
                cause,
                value,
                since_unix_ms: 5,
                acknowledged_by: None,
                announced_on: None,
            },
            value,
            limit: (cause != AlarmCause::Silence).then_some(8.0),
            silence: Duration::from_mins(10),
            field: "temperature".to_owned(),
        }
    }

    #[test]
    fn people_read_a_line_and_programs_an_object() {
        let mut settings = AlarmSettings {
            name: "freezer".to_owned(),
            payload: AlarmPayload::Text,
            ..AlarmSettings::default()
        };
        let silence = AlarmCause::Silence;
        for (notice, expected) in [
            (
                notice(NoticeState::Raised, silence, None),
                "freezer/1: no message for 10m",
            ),
            (
                notice(NoticeState::Cleared, silence, None),
                "freezer/1: messages come again",
            ),
            (
                notice(NoticeState::Raised, AlarmCause::Above, Some(9.5)),
                "freezer/1: temperature is 9.5, above 8",
            ),
            (
                notice(NoticeState::Cleared, AlarmCause::Above, Some(7.0)),
                "freezer/1: temperature is 7 again",
            ),
        ] {
            let publication = notice.publication(&settings, true).expect("a topic");
            assert_eq!(publication.payload, expected);
            assert_eq!(publication.topic.as_str(), "alarms/freezer/freezer/1");
            assert!(publication.retain);
        }
        settings.payload = AlarmPayload::Json;
        settings.topic = "house/alarm".to_owned();
        let raised = notice(NoticeState::Raised, AlarmCause::Above, Some(9.5));
        let publication = raised.publication(&settings, false).expect("a topic");
        assert_eq!(publication.topic.as_str(), "house/alarm");
        let object: serde_json::Value = serde_json::from_slice(&publication.payload).expect("JSON");
        assert_eq!(object["cause"], "above");
        assert_eq!(object["value"], 9.5);
        let properties = publication.properties.expect("properties");
        assert_eq!(properties.user_property("priority"), Some("4"));
    }
}
