//! ntfy's shapes: `POST /alarms`, JSON to `/`, `GET /alarms/publish?message=…`, and for readers
//! `GET /alarms/json`, `/alarms/sse`, `/alarms/raw`, `/alarms/ws`.
//!
//! A topic is one level of letters, digits, `-` and `_`, and several are joined by commas. ntfy's
//! fields (title, priority, tags, …) become user properties: `fields.rs`. What this server does not
//! support (phone calls, templates, messages that are not remembered, ntfy's accounts) is refused
//! rather than ignored. `sequence.rs` updates, clears and deletes messages. With `up=1` a topic is
//! an endpoint of UnifiedPush; `matrix_gateway.rs` publishes notifications of Matrix there.

mod attachment;
mod encoded_words;
mod fields;
mod filter;
mod matrix_gateway;
mod scheduled;
mod sequence;

use std::sync::Arc;

use bytes::Bytes;
use gatepost_broker::Since;
use gatepost_message::{Topic, TopicFilter};
use serde_json::json;

use super::topics::{message_of, set_due_time, stream};
use crate::http::access;
use crate::http::context::HttpContext;
use crate::http::email::AllowedEmail;
use crate::http::error::HttpError;
use crate::http::event_stream::{PublicationShape, to_ntfy, to_ntfy_at};
use crate::http::origin;
use crate::http::parameters::{first_parameter, flag, is_yes, parameter, since_of};
use crate::http::request::{HttpRequest, HttpVersion};
use crate::http::response::{HttpResponse, ResponseBody};
use crate::http::verdict::{add_retry_after_outcome, status_of_outcome, verdict_json};
use crate::http::websocket_handshake;
use crate::mount::MountPrefix;
use fields::NtfyFields;

/// ntfy's bound on a topic.
const TOPIC_CHARACTERS_MAX: usize = 64;

/// Answers, if the request has one of ntfy's shapes.
pub(in crate::http) async fn respond(
    context: &Arc<HttpContext>,
    request: &HttpRequest,
) -> Option<Result<HttpResponse, HttpError>> {
    let path = request.path.strip_prefix('/')?;
    if request.path == "/v1/health" && matches!(request.method(), "GET" | "HEAD") {
        return Some(Ok(HttpResponse::json(200, &json!({ "healthy": true }))));
    }
    if request.path == matrix_gateway::PATH {
        return Some(matrix_gateway::respond(context, request).await);
    }
    match (request.method(), path.split_once('/')) {
        ("POST" | "PUT", None) if is_topic(path) => {
            Some(publish(context, request, path, None).await)
        }
        ("GET" | "HEAD", None) if is_topic(path) && is_unified_push(request) => Some(Ok(
            HttpResponse::json(200, &json!({ "unifiedpush": { "version": 1 } })),
        )),
        (_, Some(("v1", rest))) if !sequence::is_reserved(rest) => Some(Err(HttpError::NotFound(
            format!("{}: this part of ntfy's API is not supported", request.path),
        ))),
        ("GET" | "HEAD", Some((topics, kind)))
            if !kind.contains('/') && topics.split(',').all(is_topic) =>
        {
            let shape = match kind {
                "json" => PublicationShape::NtfyJson,
                "sse" => PublicationShape::NtfySse,
                "raw" => PublicationShape::NtfyRaw,
                "ws" => PublicationShape::NtfyWs,
                "auth" => return Some(may_read(context, request, topics)),
                "publish" | "send" | "trigger" if request.method() == "GET" => {
                    return Some(publish_by_link(context, request, topics).await);
                }
                _ => return None,
            };
            Some(subscribe(context, request, topics, shape).await)
        }
        (_, Some((topic, rest))) => sequence::respond(context, request, topic, rest).await,
        _ => None,
    }
}

fn is_topic(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !name.is_empty() && name.len() <= TOPIC_CHARACTERS_MAX && name.bytes().all(plain)
}

/// Whether a request belongs to UnifiedPush: an application server checks whether this is a push
/// server, or sends bytes that only its application reads.
fn is_unified_push(request: &HttpRequest) -> bool {
    if request.path == matrix_gateway::PATH {
        return true;
    }
    let flag = first_parameter(request, &["x-unifiedpush", "unifiedpush", "up"]);
    flag.is_some_and(|flag| is_yes(&flag))
}

/// `POST /alarms` with the message as the body; `POST /alarms/ID` with the sequence id too.
async fn publish(
    context: &Arc<HttpContext>,
    request: &HttpRequest,
    topic: &str,
    sequence_id: Option<&str>,
) -> Result<HttpResponse, HttpError> {
    let mut fields = if is_unified_push(request) {
        // The fields that application servers send are those of Web Push (RFC 8030), not ntfy's.
        NtfyFields::default()
    } else {
        NtfyFields::of_request(request)?
    };
    if let Some(id) = sequence_id {
        fields.set_sequence_id(id);
    }
    send(context, request, topic, fields).await
}

/// `POST /` with topic, message and all else in a JSON object.
pub(in crate::http) async fn publish_json(
    context: &Arc<HttpContext>,
    request: &HttpRequest,
) -> Result<HttpResponse, HttpError> {
    let (topic, fields) = NtfyFields::of_json(&request.body)?;
    // Header fields supply the values that the object omits.
    let fields = fields.or(NtfyFields::of_request(request)?);
    if !is_topic(&topic) {
        let detail = format!(
            "topic: {topic:?} is not a valid name; use letters, digits, '-' and \
            '_'"
        );
        return Err(HttpError::Body(detail));
    }
    send(context, request, &topic, fields).await
}

/// `GET /alarms/publish?message=…`: for clients that can only follow a link. A request that a page
/// of another site makes through a visitor's browser is refused.
async fn publish_by_link(
    context: &Arc<HttpContext>,
    request: &HttpRequest,
    topic: &str,
) -> Result<HttpResponse, HttpError> {
    origin::expect_own_link(context, request)?;
    if !is_topic(topic) {
        return Err(HttpError::NotFound(request.path.clone()));
    }
    publish(context, request, topic, None).await
}

async fn send(
    context: &Arc<HttpContext>,
    request: &HttpRequest,
    topic: &str,
    mut fields: NtfyFields,
) -> Result<HttpResponse, HttpError> {
    let announcement = attachment::announcement(context, request, &mut fields)?;
    let mount = request.mount();
    let whole = MountPrefix::topic(mount.as_ref(), topic);
    let mut message = message_of(request, Topic::new(&whole)?)?;
    if let Some(text) = fields.text {
        message.size = text.len() as u64;
        message.body = Bytes::from(text);
    }
    let properties = message.properties.get_or_insert_default();
    if fields.is_json {
        // The type belongs to the request, not to the message in it.
        properties.content_type = None;
        properties.payload_is_text = Some(true);
    }
    properties.user.extend(fields.properties);
    if properties.is_empty() {
        message.properties = None;
    }
    access::expect_publish(request, &whole, message.retain)?;
    let due = set_due_time(context, &mut message)?;
    if due.is_some() && fields.email.is_some() {
        return Err(HttpError::Parameter {
            name: "email",
            detail: "a delayed message is not sent as mail; leave one of the two out".to_owned(),
        });
    }
    let email = match &fields.email {
        Some(address) => Some(AllowedEmail::check(context, request, address)?),
        None => None,
    };
    let id = message.id;
    let (outcome, publication) = attachment::submit(context, message, announcement).await?;
    let Some(publication) = publication else {
        let body = verdict_json(id, &outcome.verdict);
        let mut response = HttpResponse::json(status_of_outcome(&outcome), &body);
        add_retry_after_outcome(context, &outcome, &mut response);
        return Ok(response);
    };
    if let Some(email) = email {
        email.send(&publication).await?;
    }
    let own = mount.and_then(|mount| mount.own_publication(&publication).ok());
    let shown = own.as_ref().unwrap_or(&publication);
    let object = match due {
        Some(due) => to_ntfy_at(due, shown),
        None => to_ntfy(publication.id, shown),
    };
    let mut response = HttpResponse::json(200, &object);
    response.message = Some(id);
    Ok(response)
}

fn filters(request: &HttpRequest, names: &str) -> Result<Vec<TopicFilter>, HttpError> {
    let mount = request.mount();
    let whole = |name| TopicFilter::new(&MountPrefix::filter(mount.as_ref(), name));
    let filters = names.split(',').map(whole);
    Ok(filters.collect::<Result<_, _>>()?)
}

/// `GET /alarms/auth`: whether the login may read the topic.
fn may_read(
    context: &HttpContext,
    request: &HttpRequest,
    names: &str,
) -> Result<HttpResponse, HttpError> {
    access::expect_subscribe(context, request, &filters(request, names)?)?;
    Ok(HttpResponse::json(200, &json!({ "success": true })))
}

/// A yes or no under any of these names, the first of which errors contain.
fn flag_of(request: &HttpRequest, names: [&'static str; 3]) -> Result<bool, HttpError> {
    flag(
        names[0],
        names.iter().find_map(|name| parameter(request, name)),
    )
}

async fn subscribe(
    context: &HttpContext,
    request: &HttpRequest,
    names: &str,
    shape: PublicationShape,
) -> Result<HttpResponse, HttpError> {
    let filters = filters(request, names)?;
    let polls = flag_of(request, ["poll", "x-poll", "po"])?;
    let wants_scheduled = flag_of(request, ["scheduled", "x-scheduled", "sched"])?;
    access::expect_subscribe(context, request, &filters)?;
    // A poll without a start returns all remembered messages.
    let default = if polls { Since::Everything } else { Since::Now };
    let since = since_of(request, default)?;
    let accept = match shape {
        PublicationShape::NtfyWs if request.version == HttpVersion::Http2 => {
            return Err(HttpError::Upgrade("WebSockets are opened over HTTP/1.1"));
        }
        PublicationShape::NtfyWs => Some(websocket_handshake::accept(
            request,
            "this path is a WebSocket",
        )?),
        _ => None,
    };
    let names = names.to_owned();
    let mut response = stream(context, request, &filters, since, shape, names);
    if let ResponseBody::Stream { format, .. } = &mut response.body {
        format.ends = polls;
        format.filter = filter::filter_of(request)?.map(Arc::new);
        if wants_scheduled {
            format.scheduled = scheduled::text(context, format, filters).await?;
        }
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
