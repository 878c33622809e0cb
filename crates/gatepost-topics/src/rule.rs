//! The rules in the form that the broker uses, and what violates them.

use std::sync::Arc;
use std::time::Duration;

use gatepost_message::{Publication, TopicFilter};
use gatepost_settings::Period;

use crate::schema::JsonSchema;
use crate::settings::TopicSettings;

/// ntfy's user property for the priority of a message.
const PRIORITY: &str = "priority";

/// The reason why a topic does not permit a publication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleViolation {
    /// The payload is larger than this number of bytes.
    PayloadTooLarge(u64),
    /// The payload does not conform to the topic's schema, for this reason.
    Schema(Arc<str>),
    /// It is to be retained.
    Retained,
    /// There were too many messages; the time until the next is permitted.
    TooMany(Duration),
}

impl std::fmt::Display for RuleViolation {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::PayloadTooLarge(bytes) => {
                write!(
                    formatter,
                    "a payload on this topic has at most {bytes} bytes"
                )
            }
            Self::Schema(reason) => formatter.write_str(reason),
            Self::Retained => formatter.write_str("this topic retains no messages"),
            Self::TooMany(wait) => write!(
                formatter,
                "more messages than this topic permits; try again in {} s",
                wait_seconds(*wait)
            ),
        }
    }
}

/// In whole seconds, at least one.
const fn wait_seconds(wait: Duration) -> u64 {
    wait.as_secs() + 1
}

impl RuleViolation {
    /// Whether the same publication may be permitted later.
    pub const fn is_temporary(&self) -> bool {
        matches!(self, Self::TooMany(_))
    }

    /// The number of seconds after which the publisher may try again.
    pub const fn retry_seconds(&self) -> Option<u64> {
        match self {
            Self::TooMany(wait) => Some(wait_seconds(*wait)),
            _ => None,
        }
    }
}

/// The rule of some topics.
#[derive(Debug)]
pub struct TopicRule {
    filter: TopicFilter,
    settings: TopicSettings,
    schema: Option<JsonSchema>,
}

impl TopicRule {
    /// The number of publications remembered for each topic.
    pub const fn history_messages_max(&self) -> Option<usize> {
        self.settings.history_messages_max
    }

    /// The age at which publications are forgotten.
    pub fn history_age_max(&self) -> Option<Duration> {
        self.settings.history_age_max.map(Period::duration)
    }

    /// The number of publications on each topic, and the time in which they are permitted.
    pub const fn rate(&self) -> Option<(u32, Duration)> {
        match self.settings.messages_max {
            0 => None,
            messages => Some((messages, self.settings.messages_per.duration())),
        }
    }

    /// The reason why this publication is never permitted.
    pub fn violation(&self, publication: &Publication) -> Option<RuleViolation> {
        let payload = &publication.payload;
        if let Some(max) = self.settings.payload_max
            && payload.len() as u64 > max.bytes()
        {
            return Some(RuleViolation::PayloadTooLarge(max.bytes()));
        }
        // An empty retained message clears the topic, which any rule permits.
        let clears = publication.retain && payload.is_empty();
        if publication.retain && !self.settings.retained && !clears {
            return Some(RuleViolation::Retained);
        }
        let schema = self.schema.as_ref().filter(|_| !clears)?;
        let reason = schema.violation(payload)?;
        Some(RuleViolation::Schema(reason.into()))
    }

    /// Adds the topic's priority to a message without one.
    pub fn complete(&self, publication: &mut Publication) {
        if self.settings.priority == 0 {
            return;
        }
        let properties = publication.properties.get_or_insert_default();
        if properties.user_property(PRIORITY).is_none() {
            let priority = self.settings.priority.to_string();
            properties.user.push((PRIORITY.to_owned(), priority));
        }
    }
}

/// The rules of all topics. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct TopicRules(Arc<[Arc<TopicRule>]>);

impl TopicRules {
    /// Reads the schemas, and compiles the rules. Settings in which no
    /// [`mistakes`](crate::mistakes) were found cause an error only if a file has changed since.
    pub fn new(settings: &[TopicSettings]) -> Result<Self, String> {
        let compiled = settings.iter().map(|settings| {
            let filter = TopicFilter::new(&settings.filter).map_err(|error| error.to_string())?;
            let schema = settings.schema.as_deref().map(JsonSchema::read);
            Ok(Arc::new(TopicRule {
                filter,
                schema: schema.transpose()?,
                settings: settings.clone(),
            }))
        });
        compiled.collect::<Result<_, _>>().map(Self)
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The rule of a topic: the first whose filter matches.
    pub fn find(&self, topic: &str) -> Option<&Arc<TopicRule>> {
        self.0.iter().find(|rule| rule.filter.matches(topic))
    }

    /// The largest number of publications that a rule remembers for one topic.
    pub fn history_messages_max(&self) -> Option<usize> {
        let numbers = self.0.iter().filter_map(|rule| rule.history_messages_max());
        numbers.max()
    }

    /// The filters in their order, each with the age at which publications are forgotten.
    pub fn history_ages(&self) -> Vec<(TopicFilter, Option<Duration>)> {
        let age = |rule: &Arc<TopicRule>| (rule.filter.clone(), rule.history_age_max());
        self.0.iter().map(age).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gatepost_message::Topic;
    use gatepost_settings::ByteSize;

    fn publication(topic: &str, payload: &str) -> Publication {
        Publication::new(Topic::new(topic).expect("a topic"), payload.to_owned())
    }

    #[test]
    fn the_first_table_that_matches_applies_as_a_whole() {
        let table = |filter: &str, bytes, retained| TopicSettings {
            filter: filter.to_owned(),
            payload_max: Some(ByteSize(bytes)),
            retained,
            ..TopicSettings::default()
        };
        let rules = [table("a/b", 3, true), table("a/+", 1, false)];
        let rules = TopicRules::new(&rules).expect("rules");
        let violation = |mut publication: Publication, retain| {
            publication.retain = retain;
            let rule = rules.find(publication.topic.as_str())?;
            rule.violation(&publication)
        };
        assert_eq!(violation(publication("a/b", "123"), true), None);
        let too_large = Some(RuleViolation::PayloadTooLarge(3));
        assert_eq!(violation(publication("a/b", "1234"), false), too_large);
        let retained = Some(RuleViolation::Retained);
        assert_eq!(violation(publication("a/c", "1"), true), retained);
        assert_eq!(violation(publication("a/c", ""), true), None);
        assert_eq!(violation(publication("a/c/d", "1234"), true), None);
    }

    #[test]
    fn a_priority_is_added_where_none_is() {
        let rules = TopicRules::new(&[TopicSettings {
            filter: "#".to_owned(),
            priority: 2,
            ..TopicSettings::default()
        }]);
        let rules = rules.expect("rules");
        let rule = rules.find("a").expect("a rule");
        let mut plain = publication("a", "x");
        rule.complete(&mut plain);
        rule.complete(&mut plain);
        let properties = plain.properties.expect("properties");
        assert_eq!(properties.user, [("priority".to_owned(), "2".to_owned())]);
        assert!(rules.find("$SYS/a").is_none());
    }
}
