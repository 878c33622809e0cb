//! Updates of delivered messages: `POST /alarms/ID` publishes the next message of a sequence,
//! `DELETE /alarms/ID` and `PUT /alarms/ID/clear` publish an event for it.
//!
//! `ID` is the sequence id, or the message id of a message without one. An event is a publication
//! like any other, with the same rights, procedures and history, so later readers of the topic get
//! it after the message that it concerns.

use std::sync::Arc;

use gatepost_message::SequenceEvent;

use super::fields::NtfyFields;
use super::{is_topic, publish, send};
use crate::http::access;
use crate::http::context::HttpContext;
use crate::http::error::HttpError;
use crate::http::origin;
use crate::http::request::HttpRequest;
use crate::http::response::HttpResponse;
use crate::mount::MountPrefix;

/// Second segments of paths that mean something else with GET: as sequence ids they would turn a
/// mistaken method into a publication.
const NO_SEQUENCE_IDS: [&str; 8] = [
    "json", "sse", "raw", "ws", "auth", "publish", "send", "trigger",
];
/// First segments that are no topics in ntfy: its API, and its attachments.
const NO_TOPICS: [&str; 2] = ["v1", "file"];

/// Whether a second segment of a path names something other than a sequence.
pub(super) fn is_reserved(text: &str) -> bool {
    NO_SEQUENCE_IDS.contains(&text)
}

/// Answers, if the request changes a sequence.
pub(super) async fn respond(
    context: &Arc<HttpContext>,
    request: &HttpRequest,
    topic: &str,
    rest: &str,
) -> Option<Result<HttpResponse, HttpError>> {
    let (id, verb) = match rest.split_once('/') {
        Some((id, verb)) => (id, Some(verb)),
        None => (rest, None),
    };
    if !is_topic(topic) || !is_topic(id) || NO_TOPICS.contains(&topic) {
        return None;
    }
    let event = match (request.method(), verb) {
        ("POST" | "PUT", None) if !is_reserved(id) => {
            return Some(publish(context, request, topic, Some(id)).await);
        }
        ("DELETE", None) | ("PUT" | "POST" | "GET", Some("delete")) => SequenceEvent::Delete,
        ("PUT" | "POST" | "GET", Some("clear" | "read")) => SequenceEvent::Clear,
        _ => return None,
    };
    if request.method() == "GET"
        && let Err(error) = origin::expect_own_link(context, request)
    {
        return Some(Err(error));
    }
    Some(publish_event(context, request, topic, id, event).await)
}

/// Publishes the event. A deletion also cancels a message of the sequence that waits for its time.
async fn publish_event(
    context: &Arc<HttpContext>,
    request: &HttpRequest,
    topic: &str,
    id: &str,
    event: SequenceEvent,
) -> Result<HttpResponse, HttpError> {
    if event == SequenceEvent::Delete {
        let mount = request.mount();
        let whole = MountPrefix::topic(mount.as_ref(), topic);
        access::expect_publish(request, &whole, false)?;
        let cancelled = context.services.gateway.cancel_delayed(&whole, id).await;
        cancelled.map_err(|error| HttpError::Unavailable(error.to_string()))?;
    }
    send(context, request, topic, NtfyFields::of_event(event, id)).await
}
