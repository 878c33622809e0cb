//! The message as JSON: the body of a request where there is no template.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Serialize;
use time::OffsetDateTime;

use crate::frame::SinkDelivery;
use crate::template::SinkTemplateError;

/// The message as JSON, in the shape that event streams have.
#[derive(Serialize)]
struct MessageJson<'a> {
    id: String,
    unix_ms: i64,
    topic: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    retain: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expiry_seconds: Option<u32>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    properties: &'a [(String, String)],
}

/// The body where there is no template.
pub(super) fn message_json(delivery: &SinkDelivery) -> Result<Vec<u8>, SinkTemplateError> {
    let text = std::str::from_utf8(&delivery.payload).ok();
    let nanoseconds = OffsetDateTime::from(delivery.id.time()).unix_timestamp_nanos();
    let message = MessageJson {
        id: delivery.id.to_string(),
        unix_ms: (nanoseconds / 1_000_000) as i64,
        topic: &delivery.topic,
        payload: text,
        payload_base64: text.is_none().then(|| BASE64.encode(&delivery.payload)),
        retain: delivery.retain,
        content_type: delivery.properties.content_type.as_deref(),
        expiry_seconds: delivery.properties.expiry_seconds,
        properties: &delivery.properties.user,
    };
    serde_json::to_vec(&message).map_err(SinkTemplateError::Message)
}
