//! A publication as one JSON object: Gatepost's own shape.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use gatepost_message::{MessageId, Publication};
use serde_json::{Value, json};

/// A publication as one JSON object.
pub(in crate::http) fn to_json(publication: &Publication) -> Value {
    let unix_ms = unix_ms(publication.id);
    let mut object = json!({
        "id": publication.id.to_string(),
        "unix_ms": unix_ms,
        "topic": publication.topic.as_str(),
    });
    let payload = match std::str::from_utf8(&publication.payload) {
        Ok(text) => ("payload", Value::from(text)),
        Err(_) => (
            "payload_base64",
            Value::from(BASE64.encode(&publication.payload)),
        ),
    };
    object[payload.0] = payload.1;
    if publication.retain {
        object["retain"] = true.into();
    }
    let Some(properties) = &publication.properties else {
        return object;
    };
    if let Some(content_type) = &properties.content_type {
        object["content_type"] = content_type.as_str().into();
    }
    if let Some(seconds) = properties.expiry_seconds {
        object["expiry_seconds"] = seconds.into();
    }
    if !properties.user.is_empty() {
        object["properties"] = properties
            .user
            .iter()
            .map(|(name, value)| json!([name, value]))
            .collect();
    }
    object
}

/// The time of arrival, in Unix milliseconds.
pub(super) fn unix_ms(id: MessageId) -> u64 {
    id.time()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gatepost_message::Topic;

    #[test]
    fn bytes_that_are_no_text_travel_as_base64() {
        let topic = Topic::new("alarms/fire").expect("a topic");
        let publication = Publication::new(topic, &b"\xff\x00"[..]);
        assert_eq!(to_json(&publication)["payload_base64"], "/wA=");
    }
}
