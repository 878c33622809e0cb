//! The states of topics as they are stored.

use bytes::Bytes;
use gatepost_store::{Store, StoreChange, StoreError};
use serde::{Deserialize, Serialize};

use crate::topic_state::{RaisedAlarm, TopicState};

/// The key space of the records. A key is the alarm's name, a NUL and the topic.
const SPACE: &str = "alarm";

/// The stored part of a topic's state.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct StoredState {
    pub(crate) heard_unix_ms: u64,
    pub(crate) raised: Option<RaisedAlarm>,
    pub(crate) snoozed_until_unix_ms: Option<u64>,
}

/// A stored state with its topic.
#[derive(Debug)]
pub(crate) struct StoredTopic {
    pub(crate) topic: String,
    pub(crate) state: StoredState,
}

fn key(alarm: &str, topic: &str) -> Bytes {
    Bytes::from(format!("{alarm}\0{topic}"))
}

/// The change that stores the state of a topic; `None` removes it.
pub(crate) fn change(alarm: &str, topic: &str, state: Option<&TopicState>) -> StoreChange {
    let key = key(alarm, topic);
    let space = SPACE;
    let Some(state) = state else {
        return StoreChange::DeleteRecord { space, key };
    };
    let stored = StoredState {
        heard_unix_ms: state.heard_unix_ms,
        raised: state.raised.clone(),
        snoozed_until_unix_ms: state.snoozed_until.map(|until| until.unix_ms),
    };
    // An object of numbers and text always serialises.
    let value = serde_json::to_vec(&stored).unwrap_or_default().into();
    StoreChange::PutRecord { space, key, value }
}

/// The states of one alarm's topics. Unreadable records are skipped.
pub(crate) fn of_alarm(store: &Store, alarm: &str) -> Result<Vec<StoredTopic>, StoreError> {
    let prefix = key(alarm, "");
    let mut found = Vec::new();
    store.each_record(SPACE, &prefix, |key, value| {
        let topic = std::str::from_utf8(&key[prefix.len()..]);
        let state = serde_json::from_slice(&value);
        if let (Ok(topic), Ok(state)) = (topic, state) {
            let topic = topic.to_owned();
            found.push(StoredTopic { topic, state });
        }
    })?;
    Ok(found)
}

/// The names of all alarms with stored states.
pub(crate) fn names(store: &Store) -> Result<Vec<String>, StoreError> {
    let mut names: Vec<String> = Vec::new();
    store.each_record(SPACE, b"", |key, _| {
        let name = key.split(|&byte| byte == 0).next().unwrap_or_default();
        if let Ok(name) = std::str::from_utf8(name)
            && names.last().is_none_or(|last| last != name)
        {
            names.push(name.to_owned());
        }
    })?;
    Ok(names)
}
