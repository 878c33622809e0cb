//! One message's story as JSON: its journal entry, and what happened to it at each subscriber.

use std::time::{SystemTime, UNIX_EPOCH};

use gatepost_broker::{StepOutcome, TraceStep};
use gatepost_gateway::journal;
use gatepost_message::{Action, MessageId};
use gatepost_store::JournalEntry;
use serde_json::{Value, json};

/// `trace` contains the steps that the broker still has, and the number of further ones. Returns
/// `None` if neither the journal nor the broker has the message.
pub(crate) fn story(
    id: MessageId,
    entry: Option<&JournalEntry>,
    trace: Option<(Vec<TraceStep>, u64)>,
) -> Option<Value> {
    let mut story = match (entry, &trace) {
        (Some(entry), _) => journal::to_json(entry),
        // Neither judged nor a mail: the broker has it, but the journal does not.
        (None, Some((steps, more))) => unjudged(id, steps, *more),
        (None, None) => return None,
    };
    if let Some((steps, more)) = trace {
        story["steps"] = steps.iter().map(step).collect();
        story["steps_more"] = more.into();
    }
    Some(story)
}

/// The events at one subscriber.
fn step(step: &TraceStep) -> Value {
    let cause = match step.outcome {
        StepOutcome::Dropped(cause) => Some(cause.name()),
        _ => None,
    };
    json!({
        "client": &*step.client,
        "kind": step.kind,
        "topic": step.published.as_ref().map(|(topic, _)| topic.as_str()),
        "qos": step.published.as_ref().map(|(_, qos)| qos.level()),
        "outcome": step.outcome.name(),
        "cause": cause,
        "said": step.said.as_deref(),
        "unix_ms": unix_ms(step.since),
    })
}

/// The story of a message that the journal does not have.
fn unjudged(id: MessageId, steps: &[TraceStep], more: u64) -> Value {
    let published = steps.iter().find_map(|step| step.published.as_ref());
    let topic = published.map(|(topic, _)| topic.as_str());
    json!({
        "id": id.to_string(),
        "unix_ms": unix_ms(id.time()),
        "action": Action::Accept.name(),
        "topic": topic,
        "reason": "no procedure judged it",
        "deliveries": steps.len() as u64 + more,
    })
}

fn unix_ms(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as u64
}
