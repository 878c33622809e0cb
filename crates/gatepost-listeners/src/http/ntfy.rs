//! ntfy's shapes: `POST /alarms`, JSON to `/`, `GET /alarms/publish?message=…`, and for readers
//! `GET /alarms/json`, `/alarms/sse`, `/alarms/raw`, `/alarms/ws`.
//!
//! A topic is one level of letters, digits, `-` and `_`, and several are joined by commas. What
//! ntfy's fields say (title, priority, tags, …) becomes user properties: `message.rs`. What Gatepost
//! cannot do for them (delay, mail, phone calls) is refused rather than forgotten.

mod actions;
mod filter;
mod message;

use std::sync::Arc;

use bytes::Bytes;
use gatepost_message::{Topic, TopicFilter};
use serde_json::json;

pub(super) use actions::to_json as actions_json;
pub(super) use filter::Filter;

use super::HttpContext;
use super::access;
use super::error::HttpError;
use super::request::{Request, Version};
use super::response::Response;
use super::rooms::Since;
use super::stream::{Shape, to_ntfy};
use super::topics;
use super::websocket;

/// ntfy's bound on a topic.
const TOPIC_CHARACTERS_MAX: usize = 64;

/// Answers, if the request has one of ntfy's shapes.
pub(super) async fn respond(
    context: &Arc<HttpContext>,
    request: &Request,
) -> Option<Result<Response, HttpError>> {
    let path = request.path.strip_prefix('/')?;
    if request.path == "/v1/health" && matches!(request.method(), "GET" | "HEAD") {
        return Some(Ok(Response::json(200, &json!({ "healthy": true }))));
    }
    match (request.method(), path.split_once('/')) {
        ("POST" | "PUT", None) if is_topic(path) => Some(publish(context, request, path).await),
        ("GET" | "HEAD", Some((topics, kind))) if topics.split(',').all(is_topic) => {
            let shape = match kind {
                "json" => Shape::NtfyJson,
                "sse" => Shape::NtfySse,
                "raw" => Shape::NtfyRaw,
                "ws" => Shape::NtfyWs,
                "auth" => return Some(may_read(context, request, topics)),
                "publish" | "send" | "trigger" if request.method() == "GET" => {
                    return Some(publish_by_link(context, request, topics).await);
                }
                _ => return None,
            };
            Some(subscribe(context, request, topics, shape))
        }
        _ => None,
    }
}

fn is_topic(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !name.is_empty() && name.len() <= TOPIC_CHARACTERS_MAX && name.bytes().all(plain)
}

/// `POST /alarms` with the message as the body.
async fn publish(
    context: &Arc<HttpContext>,
    request: &Request,
    topic: &str,
) -> Result<Response, HttpError> {
    let fields = message::Fields::of_request(request)?;
    send(context, request, topic, fields).await
}

/// `POST /` with topic, message and all else in a JSON object.
pub(super) async fn publish_json(
    context: &Arc<HttpContext>,
    request: &Request,
) -> Result<Response, HttpError> {
    let (topic, fields) = message::Fields::of_json(&request.body)?;
    // What the object leaves open, header fields may say.
    let fields = fields.or(message::Fields::of_request(request)?);
    if !is_topic(&topic) {
        let detail = format!("topic: {topic:?} is none; letters, digits, '-' and '_' make one");
        return Err(HttpError::Body(detail));
    }
    send(context, request, &topic, fields).await
}

/// `GET /alarms/publish?message=…`: for what can only follow a link. A page of another site that
/// makes a visitor's browser follow one is refused.
async fn publish_by_link(
    context: &Arc<HttpContext>,
    request: &Request,
    topic: &str,
) -> Result<Response, HttpError> {
    if request.field("sec-fetch-site") == Some("cross-site") {
        return Err(HttpError::CrossOrigin("the link".to_owned()));
    }
    if !is_topic(topic) {
        return Err(HttpError::NotFound(request.path.clone()));
    }
    publish(context, request, topic).await
}

async fn send(
    context: &Arc<HttpContext>,
    request: &Request,
    topic: &str,
    fields: message::Fields,
) -> Result<Response, HttpError> {
    let mut message = topics::message_of(request, Topic::new(topic)?)?;
    if let Some(text) = fields.text {
        message.size = text.len() as u64;
        message.body = Bytes::from(text);
    }
    let properties = message.properties.get_or_insert_default();
    if fields.is_json {
        // The type was that of the request, not of the message in it.
        properties.content_type = None;
        properties.payload_is_text = Some(true);
    }
    properties.user.extend(fields.properties);
    if properties.is_empty() {
        message.properties = None;
    }
    access::expect_publish(request, topic, message.retain)?;
    let id = message.id;
    let shown = message.publication();
    let submitted = context.rooms.submit(message).await;
    let action = submitted.verdict.action;
    let Some(publication) = shown.filter(|_| action.delivers()) else {
        let body = topics::verdict_json(id, &submitted.verdict);
        return Ok(Response::json(topics::status_of(action), &body));
    };
    let mut response = Response::json(200, &to_ntfy(&publication));
    response.message = Some(id);
    Ok(response)
}

fn filters(names: &str) -> Result<Vec<TopicFilter>, HttpError> {
    let filters = names.split(',').map(TopicFilter::new);
    Ok(filters.collect::<Result<_, _>>()?)
}

/// `GET /alarms/auth`: whether the login may read the topic.
fn may_read(context: &HttpContext, request: &Request, names: &str) -> Result<Response, HttpError> {
    access::expect_subscribe(context, request, &filters(names)?)?;
    Ok(Response::json(200, &json!({ "success": true })))
}

fn subscribe(
    context: &HttpContext,
    request: &Request,
    names: &str,
    shape: Shape,
) -> Result<Response, HttpError> {
    let filters = filters(names)?;
    let polls = ["poll", "x-poll", "po"]
        .iter()
        .find_map(|name| topics::setting(request, name));
    let polls = topics::flag("poll", polls)?;
    access::expect_subscribe(context, request, &filters)?;
    // A poll without a start wants what is there.
    let default = if polls { Since::Everything } else { Since::Now };
    let since = topics::since_of(request, default)?;
    let accept = match shape {
        Shape::NtfyWs if request.version == Version::Http2 => {
            return Err(HttpError::Upgrade("WebSockets are opened by HTTP/1.1 here"));
        }
        Shape::NtfyWs => Some(websocket::accept(request, "this path is a WebSocket")?),
        _ => None,
    };
    let names = names.to_owned();
    let mut response = topics::stream(context, request, &filters, since, shape, names);
    if let super::response::Body::Stream { format, .. } = &mut response.body {
        format.ends = polls;
        format.filter = Filter::of_request(request)?.map(Arc::new);
    }
    if let Some(accept) = accept {
        response.status = 101;
        response.fields.clear();
        response.field("Upgrade", "websocket");
        response.field("Connection", "Upgrade");
        response.field("Sec-WebSocket-Accept", accept);
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_ntfys() {
        assert!(is_topic("my-alerts_1"));
        for name in ["", "a/b", "a b", "é", &"a".repeat(65)] {
            assert!(!is_topic(name), "{name}");
        }
    }
}
