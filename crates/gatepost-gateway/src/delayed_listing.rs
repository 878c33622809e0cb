//! The list of messages that wait for their time, for operators.

use serde::Serialize;

/// A message that waits for its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DelayedMessage {
    /// Its id until then; it is published with a new one.
    pub id: String,
    /// Its topic.
    pub topic: String,
    /// Its sequence id, otherwise its id.
    pub sequence_id: String,
    /// Its time, in Unix milliseconds.
    pub due_unix_ms: u64,
    /// The bytes of its topic and payload.
    pub bytes: usize,
}

/// The messages that wait for their time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct DelayedListing {
    /// The first ones, in the order of their times.
    pub messages: Vec<DelayedMessage>,
    /// The number of all.
    pub total: usize,
    /// The bytes of their topics and payloads.
    pub bytes: usize,
}
