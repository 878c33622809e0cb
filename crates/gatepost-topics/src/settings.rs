//! `[[topics]]`: the rules of the topics under one filter.

use std::path::PathBuf;

use gatepost_settings::{ByteSize, Period};
use serde::{Deserialize, Serialize};

/// The rules of the topics under one filter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TopicSettings {
    /// The filter of the topics. The first table whose filter matches a topic applies to it.
    pub filter: String,
    /// Publications remembered for each topic, instead of `broker.recent_per_topic`; 0 for none.
    pub history_messages_max: Option<usize>,
    /// The age at which publications are forgotten, if that is earlier than
    /// `store.history_age_max`.
    pub history_age_max: Option<Period>,
    /// Bytes of the largest payload.
    pub payload_max: Option<ByteSize>,
    /// Publications on each topic in `messages_per`, by all publishers together; 0 for any number.
    pub messages_max: u32,
    /// The time in which `messages_max` publications are permitted.
    pub messages_per: Period,
    /// Whether messages may be retained.
    pub retained: bool,
    /// The file of the JSON Schema (drafts 4 to 2020-12) that payloads must conform to. References
    /// to other files and to the web are not followed.
    pub schema: Option<PathBuf>,
    /// The priority of messages that have none, for ntfy's clients, from 1 to 5; 0 adds none.
    pub priority: u8,
}

impl Default for TopicSettings {
    fn default() -> Self {
        Self {
            filter: String::new(),
            history_messages_max: None,
            history_age_max: None,
            payload_max: None,
            messages_max: 0,
            messages_per: Period::seconds(60),
            retained: true,
            schema: None,
            priority: 0,
        }
    }
}
