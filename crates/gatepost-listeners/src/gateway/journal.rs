//! The journal as JSON: what the dashboard reads, live and from the store.

use gatepost_message::Topic;
use gatepost_store::JournalEntry;
use serde_json::{Value, json};

/// Every judged message is published here.
pub const TOPIC: &str = "$SYS/gatepost/journal";

/// [`TOPIC`], checked.
pub(super) fn topic() -> Topic {
    Topic::new(TOPIC).expect("a constant that is a topic")
}

/// One entry. Times are Unix milliseconds and microseconds, scores are numbers; what is not
/// known is null.
pub fn to_json(entry: &JournalEntry) -> Value {
    let envelope = &entry.envelope;
    let since_epoch = entry.id.time().duration_since(std::time::UNIX_EPOCH);
    let hit = |hit: &gatepost_message::RuleHit| json!({"name": hit.name, "score": hit.score});
    json!({
        "id": entry.id.to_string(),
        "unix_ms": since_epoch.unwrap_or_default().as_millis() as u64,
        "listener": envelope.listener.name(),
        "peer": envelope.peer.to_string(),
        "client": envelope.client,
        "user": envelope.user,
        "sender": envelope.sender,
        "recipients": envelope.recipients,
        "topic": entry.topic.as_ref().map(Topic::as_str),
        "topics": entry.all_topics().iter().map(Topic::as_str).collect::<Vec<_>>(),
        "subject": entry.subject,
        "size": entry.size,
        "action": entry.action.name(),
        "score": entry.score.map(|score| score.value),
        "required": entry.score.map(|score| score.required),
        "hits": entry.hits.iter().map(hit).collect::<Vec<_>>(),
        "reason": entry.reason,
        "procedure": entry.procedure,
        "duration_us": entry.duration.as_micros() as u64,
        "deliveries": entry.deliveries,
    })
}
