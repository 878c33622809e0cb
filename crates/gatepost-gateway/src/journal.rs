//! The journal as JSON, which the dashboard reads, live and from the store.

use std::fmt::Display;

use gatepost_message::{MessageId, Peer, RuleHit, Topic};
use gatepost_store::JournalEntry;
use serde::{Serialize, Serializer};
use serde_json::Value;

/// Every judged message is published here.
pub const TOPIC: &str = "$SYS/gatepost/journal";

/// The usual maximum length of an entry's text.
const TEXT_BYTES_USUAL: usize = 512;

/// [`TOPIC`], checked.
pub(crate) fn topic() -> Topic {
    Topic::new(TOPIC).expect("a constant that is a topic")
}

/// One entry. Times are Unix milliseconds and microseconds, scores are numbers; unknown values are
/// null.
pub fn to_json(entry: &JournalEntry) -> Value {
    serde_json::to_value(JournalRecord::of(entry)).unwrap_or_default()
}

/// The same as text, serialized without an intermediate value: every mail is announced this way.
pub(crate) fn to_text(entry: &JournalEntry) -> String {
    let mut text = Vec::with_capacity(TEXT_BYTES_USUAL);
    // Writing to a vector cannot fail, and the text is UTF-8.
    let _ = serde_json::to_writer(&mut text, &JournalRecord::of(entry));
    String::from_utf8(text).unwrap_or_default()
}

#[derive(Serialize)]
struct JournalRecord<'a> {
    #[serde(serialize_with = "as_text")]
    id: MessageId,
    unix_ms: u64,
    listener: &'a str,
    #[serde(serialize_with = "as_text")]
    peer: Peer,
    client: Option<&'a str>,
    user: Option<&'a str>,
    sender: Option<&'a str>,
    recipients: &'a [String],
    topic: Option<&'a str>,
    #[serde(serialize_with = "names")]
    topics: &'a [Topic],
    subject: Option<&'a str>,
    size: u64,
    action: &'a str,
    score: Option<f64>,
    required: Option<f64>,
    #[serde(serialize_with = "rule_hits")]
    hits: &'a [RuleHit],
    reason: &'a str,
    procedure: &'a str,
    duration_us: u64,
    deliveries: u64,
}

impl<'a> JournalRecord<'a> {
    fn of(entry: &'a JournalEntry) -> Self {
        let envelope = &entry.envelope;
        let since_epoch = entry.id.time().duration_since(std::time::UNIX_EPOCH);
        Self {
            id: entry.id,
            unix_ms: since_epoch.unwrap_or_default().as_millis() as u64,
            listener: envelope.listener.name(),
            peer: envelope.peer,
            client: envelope.client.as_deref(),
            user: envelope.user.as_deref(),
            sender: envelope.sender.as_deref(),
            recipients: &envelope.recipients,
            topic: entry.topic.as_ref().map(Topic::as_str),
            topics: entry.all_topics(),
            subject: entry.subject.as_deref(),
            size: entry.size,
            action: entry.action.name(),
            score: entry.score.map(|score| score.value),
            required: entry.score.map(|score| score.required),
            hits: &entry.hits,
            reason: &entry.reason,
            procedure: &entry.procedure,
            duration_us: entry.duration.as_micros() as u64,
            deliveries: entry.deliveries,
        }
    }
}

fn as_text<S: Serializer>(value: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn names<S: Serializer>(topics: &&[Topic], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(topics.iter().map(Topic::as_str))
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn rule_hits<S: Serializer>(hits: &&[RuleHit], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct JournalHit<'a> {
        name: &'a str,
        score: f64,
    }
    serializer.collect_seq(hits.iter().map(|hit| JournalHit {
        name: &hit.name,
        score: hit.score,
    }))
}
