//! `/topics/NAME`: publish by POST or PUT, read and subscribe by GET.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use gatepost_message::{
    Action, Format, Message, MessageId, Properties, Qos, Topic, TopicFilter, Verdict,
};
use gatepost_settings::Period;
use serde_json::{Value, json};

use super::HttpContext;
use super::access;
use super::error::HttpError;
use super::request::Request;
use super::response::{Body, Response};
use super::rooms::{ReaderName, Since, Submitted};
use super::routes::expect_method;
use super::stream::{Shape, StreamFormat, to_json};

/// The publications that a plain GET shows, unless `count=` says otherwise.
const COUNT_DEFAULT: usize = 100;
/// The most that it shows.
const COUNT_MAX: usize = 10_000;
/// The most filters of one subscription.
const FILTERS_MAX: usize = 100;

/// Answers a request to `/topics/NAME`, or to `/topics?filter=…&filter=…`.
pub(super) async fn respond(
    context: &Arc<HttpContext>,
    request: &Request,
    name: Option<&str>,
) -> Result<Response, HttpError> {
    match name {
        Some(_) => expect_method(
            request,
            &["GET", "HEAD", "POST", "PUT"],
            "GET, HEAD, POST, PUT",
        ),
        // What is published has a topic in its path.
        None => expect_method(request, &["GET", "HEAD"], "GET, HEAD"),
    }?;
    match (request.method(), name) {
        ("POST" | "PUT", Some(name)) => {
            let message = message_of(request, Topic::new(name)?)?;
            access::expect_publish(request, name, message.retain)?;
            let id = message.id;
            let submitted = context.rooms.submit(message).await;
            Ok(answer(context, id, &submitted))
        }
        _ => read(context, request, name),
    }
}

fn read(
    context: &Arc<HttpContext>,
    request: &Request,
    name: Option<&str>,
) -> Result<Response, HttpError> {
    let mut names: Vec<String> = name.map(str::to_owned).into_iter().collect();
    let parameters = request.parameters();
    let given = parameters.iter().filter(|(name, _)| name == "filter");
    names.extend(given.map(|(_, filter)| filter.clone()));
    if names.is_empty() || names.len() > FILTERS_MAX {
        return Err(HttpError::Parameter {
            name: "filter",
            detail: format!("one to {FILTERS_MAX} filters are needed"),
        });
    }
    let filters = names
        .iter()
        .map(|name| TopicFilter::new(name))
        .collect::<Result<Vec<_>, _>>()?;
    access::expect_subscribe(context, request, &filters)?;
    let payload_only = match request.parameter("data").as_deref() {
        None | Some("json") => false,
        Some("payload") => true,
        Some(_) => {
            return Err(HttpError::Parameter {
                name: "data",
                detail: "write json or payload".to_owned(),
            });
        }
    };
    // Checked whatever becomes of the request, so that a mistake does not go unnoticed.
    let since = since_of(request, Since::Now)?;
    let ends = flag("poll", request.parameter("poll"))?;
    let shape = if request.accepts("text/event-stream") {
        if payload_only {
            Shape::SsePayload
        } else {
            Shape::Sse
        }
    } else if request.accepts("application/x-ndjson") {
        Shape::JsonLines
    } else {
        return recent(context, request, &filters);
    };
    let mut response = stream(context, request, &filters, since, shape, names.join(","));
    if let Body::Stream { format, .. } = &mut response.body {
        format.ends = ends;
    }
    Ok(response)
}

/// A response that goes on.
pub(super) fn stream(
    context: &HttpContext,
    request: &Request,
    filters: &[TopicFilter],
    since: Since,
    shape: Shape,
    topics: String,
) -> Response {
    let reader = ReaderName {
        kind: shape.kind(),
        name: request
            .user()
            .map_or_else(|| request.peer.to_string(), str::to_owned),
    };
    let mut response = Response::empty(200)
        .with("Content-Type", shape.content_type())
        .with("Cache-Control", "no-store")
        // Told to nginx: each event must pass at once.
        .with("X-Accel-Buffering", "no");
    response.body = Body::Stream {
        subscription: context.rooms.subscribe(filters, since, reader),
        format: StreamFormat {
            shape,
            ends: false,
            topics,
            filter: None,
        },
    };
    response
}

/// What is remembered, newest last, as one JSON array.
fn recent(
    context: &HttpContext,
    request: &Request,
    filters: &[TopicFilter],
) -> Result<Response, HttpError> {
    let count = count_of(request, COUNT_DEFAULT, COUNT_MAX)?;
    let mut publications: Vec<_> = filters
        .iter()
        .flat_map(|filter| context.rooms.history(filter, count))
        .collect();
    publications.sort_by_key(|publication| publication.id);
    publications.dedup_by_key(|publication| publication.id);
    let from = publications.len().saturating_sub(count);
    let shown: Vec<Value> = publications.iter().skip(from).map(|p| to_json(p)).collect();
    Ok(Response::json(200, &shown))
}

/// `count=`, from 1 to `most`.
pub(super) fn count_of(request: &Request, default: usize, most: usize) -> Result<usize, HttpError> {
    let Some(text) = request.parameter("count") else {
        return Ok(default);
    };
    let count = text.parse().ok();
    count
        .filter(|count| (1..=most).contains(count))
        .ok_or_else(|| HttpError::Parameter {
            name: "count",
            detail: format!("write a number from 1 to {most}"),
        })
}

/// Where a subscription starts: `Last-Event-ID` (a reconnect) outranks `since=`.
pub(super) fn since_of(request: &Request, default: Since) -> Result<Since, HttpError> {
    let resumed = request
        .field("last-event-id")
        .map(str::to_owned)
        .or_else(|| request.parameter("last-event-id"));
    if let Some(id) = resumed.as_deref().and_then(|id| id.parse().ok()) {
        return Ok(Since::After(id));
    }
    match request.parameter("since").as_deref() {
        None | Some("") => Ok(default),
        Some(text) => parse_since(text),
    }
}

fn parse_since(text: &str) -> Result<Since, HttpError> {
    match text {
        "all" => return Ok(Since::Everything),
        "none" => return Ok(Since::Now),
        "latest" => return Ok(Since::Latest),
        _ => {}
    }
    if let Ok(id) = text.parse::<MessageId>() {
        return Ok(Since::After(id));
    }
    if let Ok(seconds) = text.parse::<u32>() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::from(seconds));
        return Ok(Since::After(MessageId::floor_at(time)));
    }
    let period: Period = text.parse().map_err(|_| HttpError::Parameter {
        name: "since",
        detail: "write all, none, latest, a message id, Unix seconds, or a period such as 10m"
            .to_owned(),
    })?;
    let time = SystemTime::now()
        .checked_sub(period.duration())
        .unwrap_or(SystemTime::UNIX_EPOCH);
    Ok(Since::After(MessageId::floor_at(time)))
}

/// The message that a request publishes. What MQTT has properties for may be given as header
/// fields or in the query: `Content-Type`; `Expiry` / `expiry=` (`60s`); `Retain` / `retain=`;
/// `Response-Topic`; `Correlation-Data` (base64); `Property: name=value` / `property=`, repeated.
pub(super) fn message_of(request: &Request, topic: Topic) -> Result<Message, HttpError> {
    let envelope = request.envelope();
    let body: Bytes = request.body.clone();
    let properties = properties_of(request)?;
    let mut message = Message::new(envelope, Some(topic), Format::Payload, body);
    message.envelope.client = request.field("user-agent").map(str::to_owned);
    message.qos = Qos::AtLeastOnce;
    message.retain = flag("retain", setting(request, "retain"))?;
    message.properties = (!properties.is_empty()).then(|| Box::new(properties));
    Ok(message)
}

fn properties_of(request: &Request) -> Result<Properties, HttpError> {
    // What curl says when it was told nothing; no publisher means it.
    let untold = |kind: &&str| !kind.starts_with("application/x-www-form-urlencoded");
    let content_type = request
        .field("content-type")
        .filter(untold)
        .map(str::to_owned);
    let is_text = content_type
        .as_deref()
        .is_some_and(|kind| kind.starts_with("text/") || kind.starts_with("application/json"));
    let expiry_seconds = setting(request, "expiry")
        .map(|expiry| {
            let period: Period = expiry.parse()?;
            Ok::<_, HttpError>(u32::try_from(period.duration().as_secs()).unwrap_or(u32::MAX))
        })
        .transpose()?;
    let correlation_data = setting(request, "correlation-data")
        .map(|data| {
            BASE64.decode(data).map_err(|error| HttpError::Parameter {
                name: "correlation-data",
                detail: format!("not base64: {error}"),
            })
        })
        .transpose()?
        .map(Bytes::from);
    let response_topic = setting(request, "response-topic");
    if let Some(topic) = &response_topic {
        Topic::check(topic)?;
    }
    Ok(Properties {
        payload_is_text: (is_text && std::str::from_utf8(&request.body).is_ok()).then_some(true),
        content_type,
        expiry_seconds,
        response_topic,
        correlation_data,
        user: user_properties(request)?,
    })
}

fn user_properties(request: &Request) -> Result<Vec<(String, String)>, HttpError> {
    let in_fields = request
        .field_bytes("property")
        .map(|value| String::from_utf8_lossy(value).into_owned());
    let in_query = request
        .parameters()
        .into_iter()
        .filter(|(name, _)| name == "property")
        .map(|(_, value)| value);
    in_fields
        .chain(in_query)
        .map(|pair| {
            let (name, value) = pair.split_once('=').ok_or(HttpError::Parameter {
                name: "property",
                detail: "write name=value".to_owned(),
            })?;
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        })
        .collect()
}

/// A header field, or the query's value of the same name.
pub(super) fn setting(request: &Request, name: &str) -> Option<String> {
    request
        .field(name)
        .map(str::to_owned)
        .or_else(|| request.parameter(name))
}

/// A yes or no that is given as text; no where it is not given.
pub(super) fn flag(name: &'static str, text: Option<String>) -> Result<bool, HttpError> {
    match text.as_deref() {
        None | Some("0" | "false" | "no" | "off") => Ok(false),
        Some(text) if is_yes(text) => Ok(true),
        Some(_) => Err(HttpError::Parameter {
            name,
            detail: "write 1 or 0".to_owned(),
        }),
    }
}

pub(super) fn is_yes(text: &str) -> bool {
    matches!(text, "" | "1" | "true" | "yes" | "on")
}

/// The answer to a publisher, sent when everything promised is durable.
fn answer(context: &HttpContext, id: MessageId, submitted: &Submitted) -> Response {
    let mut body = verdict_json(id, &submitted.verdict);
    body["subscribers"] = submitted.subscribers.into();
    let mut response = Response::json(status_of(submitted.verdict.action), &body);
    if submitted.verdict.action == Action::Defer {
        let seconds = context.settings.retry_after.duration().as_secs();
        response.field("Retry-After", seconds.to_string());
    }
    response.message = Some(id);
    response
}

/// The status that tells a verdict.
pub(super) const fn status_of(action: Action) -> u16 {
    match action {
        Action::Accept | Action::Tag => 200,
        Action::Quarantine | Action::Drop => 202,
        Action::Reject => 422,
        Action::Defer => 503,
    }
}

/// A verdict as JSON.
pub(super) fn verdict_json(id: MessageId, verdict: &Verdict) -> Value {
    let mut object = json!({
        "id": id.to_string(),
        "verdict": verdict.action.name(),
    });
    if let Some(score) = verdict.score {
        object["score"] = rounded(score.value);
        object["required"] = rounded(score.required);
    }
    if !verdict.hits.is_empty() {
        object["hits"] = verdict
            .hits
            .iter()
            .map(|hit| json!({ "name": hit.name, "score": rounded(hit.score) }))
            .collect();
    }
    if !verdict.reason.is_empty() {
        object["reason"] = verdict.reason.as_str().into();
    }
    if !verdict.procedure.is_empty() {
        object["procedure"] = verdict.procedure.as_str().into();
    }
    if !verdict.tags.is_empty() {
        object["tags"] = verdict
            .tags
            .iter()
            .map(|(name, value)| json!([name, value]))
            .collect();
    }
    object
}

/// Scores have three decimals in the rules; sums of them shall not show more.
fn rounded(score: f64) -> Value {
    ((score * 1_000.0).round() / 1_000.0).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_are_read_in_every_form() {
        let id = MessageId::next();
        assert_eq!(parse_since("all"), Ok(Since::Everything));
        assert_eq!(parse_since("latest"), Ok(Since::Latest));
        assert_eq!(parse_since(&id.to_string()), Ok(Since::After(id)));
        assert!(matches!(parse_since("1700000000"), Ok(Since::After(_))));
        assert!(matches!(parse_since("10m"), Ok(Since::After(_))));
        assert!(parse_since("yesterday").is_err());
    }

    #[test]
    fn each_verdict_has_its_status() {
        let statuses = Action::ALL.map(status_of);
        assert_eq!(statuses, [200, 200, 202, 202, 422, 503]);
    }
}
