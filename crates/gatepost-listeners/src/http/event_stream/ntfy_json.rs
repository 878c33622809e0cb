//! A publication as one JSON object in ntfy's shape, and ntfy's events about the stream itself.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use gatepost_message::{MessageId, Properties, Publication, SEQUENCE_ID, SequenceEvent};
use gatepost_sinks::{ACTIONS, NotificationAction};
use serde_json::{Value, json};

use super::publication_json::unix_ms;

/// ntfy's message object. A reader resumes after its id.
pub(in crate::http) fn to_ntfy(id: MessageId, publication: &Publication) -> Value {
    let mut object = json!({
        "id": id.to_string(),
        "time": unix_ms(publication.id) / 1_000,
        "event": "message",
        "topic": publication.topic.as_str(),
    });
    let event = publication.properties.as_deref();
    if let Some(event) = event.and_then(SequenceEvent::of) {
        object["event"] = event.name().into();
    } else if let Ok(text) = std::str::from_utf8(&publication.payload) {
        object["message"] = text.into();
    } else {
        object["message"] = BASE64.encode(&publication.payload).into();
        object["encoding"] = "base64".into();
    }
    if id != publication.id {
        // Updates name the id that the publisher was answered.
        object[SEQUENCE_ID] = publication.id.to_string().into();
    }
    let Some(properties) = &publication.properties else {
        return object;
    };
    if let Some(seconds) = properties.expiry_seconds {
        object["expires"] = (unix_ms(publication.id) / 1_000 + u64::from(seconds)).into();
    }
    let actions = properties.user_property(ACTIONS);
    if let Some(Ok(actions)) = actions.map(NotificationAction::parse)
        && !actions.is_empty()
    {
        object[ACTIONS] = json!(actions);
    }
    if let Some(attachment) = attachment(properties) {
        object["attachment"] = attachment;
    }
    for name in ["title", "click", "icon", SEQUENCE_ID] {
        if let Some(value) = properties.user_property(name) {
            object[name] = value.into();
        }
    }
    if let Some(title) = properties.user_property("subject") {
        object["title"] = title.into();
    }
    if let Some(priority) = properties
        .user_property("priority")
        .and_then(|p| p.parse::<u8>().ok())
    {
        object["priority"] = priority.into();
    }
    if let Some(tags) = properties.user_property("tags") {
        object["tags"] = tags.split(',').map(str::trim).collect();
    }
    let markdown = properties
        .user_property("markdown")
        .map(|_| "text/markdown");
    if let Some(content_type) = markdown.or(properties.content_type.as_deref()) {
        object["content_type"] = content_type.into();
    }
    object
}

/// The object of a message that waits for its time, which is its time for ntfy's clients.
pub(in crate::http) fn to_ntfy_at(due: SystemTime, publication: &Publication) -> Value {
    let mut object = to_ntfy(publication.id, publication);
    let since = due.duration_since(UNIX_EPOCH).unwrap_or_default();
    object["time"] = since.as_secs().into();
    object
}

/// The link to a file that accompanies the message.
fn attachment(properties: &Properties) -> Option<Value> {
    let property = |name| properties.user_property(name);
    let url = property("attach")?;
    let name = property("filename").or_else(|| url.rsplit('/').next());
    let mut object = json!({ "name": name.unwrap_or("attachment"), "url": url });
    if let Some(content_type) = property("attachment_type") {
        object["type"] = content_type.into();
    }
    for (member, name) in [
        ("size", "attachment_size"),
        ("expires", "attachment_expires"),
    ] {
        if let Some(number) = property(name).and_then(|text| text.parse::<u64>().ok()) {
            object[member] = number.into();
        }
    }
    Some(object)
}

/// An event about the stream: `open` or `keepalive`.
pub(super) fn ntfy_event(event: &str, topics: &str) -> Value {
    let id = MessageId::next();
    json!({ "id": id.to_string(), "time": unix_ms(id) / 1_000, "event": event, "topic": topics })
}
