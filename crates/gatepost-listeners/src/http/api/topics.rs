//! `/topics/NAME`: publish by POST or PUT, read and subscribe by GET.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use gatepost_broker::{ReaderOptions, Since};
use gatepost_gateway::{DELAY, SubmissionOutcome};
use gatepost_message::{
    Format, Message, MessageId, Properties, Publication, Qos, Topic, TopicFilter,
};
use gatepost_settings::Period;
use serde_json::Value;

use crate::http::access;
use crate::http::context::HttpContext;
use crate::http::error::HttpError;
use crate::http::event_stream::{PublicationShape, StreamFormat, to_json, to_ntfy};
use crate::http::parameters::{count_of, flag, parameter, since_of};
use crate::http::request::{HttpRequest, expect_method};
use crate::http::response::{HttpResponse, ResponseBody};
use crate::http::verdict::{add_retry_after_outcome, status_of_outcome, verdict_json};
use crate::mount::MountPrefix;

/// The number of publications that a plain GET returns without `count=`.
const COUNT_DEFAULT: usize = 100;
/// The largest number that a plain GET returns.
const COUNT_MAX: usize = 10_000;
/// The most filters of one subscription.
const FILTERS_MAX: usize = 100;

/// The form in which a reader gets publications.
#[derive(Debug, Clone, Copy)]
enum EventData {
    Json,
    Payload,
    /// ntfy's objects, for topics of several levels too.
    Ntfy,
}

impl EventData {
    /// `data=`
    fn of_request(request: &HttpRequest) -> Result<Self, HttpError> {
        match request.query_value("data").as_deref() {
            None | Some("json") => Ok(Self::Json),
            Some("payload") => Ok(Self::Payload),
            Some("ntfy") => Ok(Self::Ntfy),
            Some(_) => Err(HttpError::Parameter {
                name: "data",
                detail: "write json, payload or ntfy".to_owned(),
            }),
        }
    }
}

/// Answers a request to `/topics/NAME`, or to `/topics?filter=…&filter=…`.
pub(in crate::http) async fn respond(
    context: &Arc<HttpContext>,
    request: &HttpRequest,
    name: Option<&str>,
) -> Result<HttpResponse, HttpError> {
    match name {
        Some(_) => expect_method(
            request,
            &["GET", "HEAD", "POST", "PUT"],
            "GET, HEAD, POST, PUT",
        ),
        // Publishing needs a topic in the path.
        None => expect_method(request, &["GET", "HEAD"], "GET, HEAD"),
    }?;
    match (request.method(), name) {
        ("POST" | "PUT", Some(name)) => {
            let mount = request.mount();
            let whole = MountPrefix::topic(mount.as_ref(), name);
            let mut message = message_of(request, Topic::new(&whole)?)?;
            access::expect_publish(request, &whole, message.retain)?;
            set_due_time(context, &mut message)?;
            let id = message.id;
            let outcome = context.services.gateway.submit(message).await;
            Ok(answer(context, id, &outcome))
        }
        _ => read(context, request, name),
    }
}

fn read(
    context: &Arc<HttpContext>,
    request: &HttpRequest,
    name: Option<&str>,
) -> Result<HttpResponse, HttpError> {
    let mut names: Vec<String> = name.map(str::to_owned).into_iter().collect();
    let parameters = request.query_values();
    let given = parameters.iter().filter(|(name, _)| name == "filter");
    names.extend(given.map(|(_, filter)| filter.clone()));
    if names.is_empty() || names.len() > FILTERS_MAX {
        return Err(HttpError::Parameter {
            name: "filter",
            detail: format!("one to {FILTERS_MAX} filters are needed"),
        });
    }
    let is_of_page = flag("page", request.query_value("page"))?;
    let filters = if is_of_page {
        filters_of_page(context, request, &names)?
    } else {
        let mount = request.mount();
        let whole = |name: &String| TopicFilter::new(&MountPrefix::filter(mount.as_ref(), name));
        let filters = names.iter().map(whole).collect::<Result<Vec<_>, _>>()?;
        access::expect_subscribe(context, request, &filters)?;
        filters
    };
    let data = EventData::of_request(request)?;
    // Checked even if the response does not depend on it, so that a mistake is reported.
    let since = since_of(request, Since::Now)?;
    let ends = flag("poll", request.query_value("poll"))?;
    let shape = if request.accepts("text/event-stream") {
        match data {
            EventData::Json => PublicationShape::Sse,
            EventData::Payload => PublicationShape::SsePayload,
            EventData::Ntfy => PublicationShape::NtfySse,
        }
    } else if request.accepts("application/x-ndjson") {
        match data {
            EventData::Ntfy => PublicationShape::NtfyJson,
            EventData::Json | EventData::Payload => PublicationShape::JsonLines,
        }
    } else {
        return recent(context, request, &filters, (data, is_of_page));
    };
    let mut response = stream(context, request, &filters, since, shape, names.join(","));
    if let ResponseBody::Stream { format, .. } = &mut response.body {
        format.ends = ends;
        format.names_whole_topics = is_of_page;
    }
    Ok(response)
}

/// The filters of a page's live values that its visitor may read. A page names whole topics, also
/// for a user whose own topics have a prefix; a value that the visitor may not read must not keep
/// the others from changing.
fn filters_of_page(
    context: &HttpContext,
    request: &HttpRequest,
    names: &[String],
) -> Result<Vec<TopicFilter>, HttpError> {
    let named = names.iter().map(|name| TopicFilter::new(name));
    let named = named.collect::<Result<Vec<_>, _>>()?;
    let mut refusal = None;
    let mut permitted = Vec::new();
    for filter in named {
        match access::expect_subscribe(context, request, std::slice::from_ref(&filter)) {
            Ok(()) => permitted.push(filter),
            Err(error) => refusal = Some(error),
        }
    }
    match refusal {
        Some(error) if permitted.is_empty() => Err(error),
        _ => Ok(permitted),
    }
}

/// A streaming response.
pub(super) fn stream(
    context: &HttpContext,
    request: &HttpRequest,
    filters: &[TopicFilter],
    since: Since,
    shape: PublicationShape,
    topics: String,
) -> HttpResponse {
    let reader = ReaderOptions {
        since,
        kind: shape.kind(),
        name: request
            .user()
            .map_or_else(|| request.peer.to_string(), str::to_owned),
    };
    let mut response = HttpResponse::empty(200)
        .with("Content-Type", shape.content_type())
        .with("Cache-Control", "no-store")
        // This makes nginx pass each event on immediately.
        .with("X-Accel-Buffering", "no");
    response.body = ResponseBody::Stream {
        reader: Box::new(context.services.broker.subscribe_stream(filters, reader)),
        format: StreamFormat {
            shape,
            ends: false,
            topics,
            filter: None,
            mount: request.mount(),
            names_whole_topics: false,
            scheduled: Bytes::new(),
        },
        rights: Box::new(access::stream_rights(request, filters)),
    };
    response
}

/// Recent publications, newest last, as one JSON array.
fn recent(
    context: &HttpContext,
    request: &HttpRequest,
    filters: &[TopicFilter],
    (data, names_whole_topics): (EventData, bool),
) -> Result<HttpResponse, HttpError> {
    let as_json = |one: &Publication| match data {
        EventData::Ntfy => to_ntfy(one.id, one),
        EventData::Json | EventData::Payload => to_json(one),
    };
    let count = count_of(request, COUNT_DEFAULT, COUNT_MAX)?;
    let publications = context.services.broker.history_of(filters, count);
    let mount = request.mount();
    let shown = publications.iter().filter_map(|one| match &mount {
        None => Some(as_json(one)),
        Some(mount) if names_whole_topics => {
            let topic = one.topic.as_str();
            mount.own(topic).map(|_| as_json(one))
        }
        Some(mount) => mount.own_publication(one).ok().map(|own| as_json(&own)),
    });
    let shown: Vec<Value> = shown.collect();
    Ok(HttpResponse::json(200, &shown))
}

/// The message that a request publishes. MQTT's properties may be given as header fields or in the
/// query: `Content-Type`; `Expiry` / `expiry=` (`60s`); `Retain` / `retain=`; `Delay`;
/// `Response-Topic`; `Correlation-Data` (base64); `Property: name=value` / `property=`, repeated.
pub(super) fn message_of(request: &HttpRequest, topic: Topic) -> Result<Message, HttpError> {
    let envelope = request.envelope();
    let body: Bytes = request.body.clone();
    let mut properties = properties_of(request)?;
    MountPrefix::complete(request.mount().as_ref(), &mut properties);
    let mut message = Message::new(envelope, Some(topic), Format::Payload, body);
    message.envelope.client = request.field("user-agent").map(str::to_owned);
    message.qos = Qos::AtLeastOnce;
    message.retain = flag("retain", parameter(request, "retain"))?;
    message.properties = (!properties.is_empty()).then(|| Box::new(properties));
    Ok(message)
}

/// Checks the time at which a message is to be delivered, and writes it in Unix seconds, so that it
/// does not move while the message is judged. Returns the time, if there is one.
pub(super) fn set_due_time(
    context: &HttpContext,
    message: &mut Message,
) -> Result<Option<SystemTime>, HttpError> {
    let properties = message.properties.iter_mut();
    let mut user = properties.flat_map(|properties| &mut properties.user);
    let Some((_, delay)) = user.find(|(name, _)| name == DELAY) else {
        return Ok(None);
    };
    let due = context.services.gateway.due_unix_seconds(delay);
    let due = due.map_err(|mistake| HttpError::Parameter {
        name: DELAY,
        detail: mistake.explanation(),
    })?;
    *delay = due.to_string();
    Ok(Some(UNIX_EPOCH + Duration::from_secs(due)))
}

fn properties_of(request: &HttpRequest) -> Result<Properties, HttpError> {
    // This is curl's default type, which no publisher intends.
    let is_meant = |kind: &&str| !kind.starts_with("application/x-www-form-urlencoded");
    let content_type = request
        .field("content-type")
        .filter(is_meant)
        .map(str::to_owned);
    let is_text = content_type
        .as_deref()
        .is_some_and(|kind| kind.starts_with("text/") || kind.starts_with("application/json"));
    let expiry_seconds = parameter(request, "expiry")
        .map(|expiry| {
            let period: Period = expiry.parse()?;
            Ok::<_, HttpError>(u32::try_from(period.duration().as_secs()).unwrap_or(u32::MAX))
        })
        .transpose()?;
    let correlation_data = parameter(request, "correlation-data")
        .map(|data| {
            BASE64.decode(data).map_err(|error| HttpError::Parameter {
                name: "correlation-data",
                detail: format!("not base64: {error}"),
            })
        })
        .transpose()?
        .map(Bytes::from);
    let response_topic = parameter(request, "response-topic");
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

fn user_properties(request: &HttpRequest) -> Result<Vec<(String, String)>, HttpError> {
    let in_fields = request
        .field_bytes("property")
        .map(|value| String::from_utf8_lossy(value).into_owned());
    let in_query = request
        .query_values()
        .into_iter()
        .filter(|(name, _)| name == "property")
        .map(|(_, value)| value);
    let delay = parameter(request, DELAY).map(|delay| format!("{DELAY}={delay}"));
    in_fields
        .chain(in_query)
        .chain(delay)
        .map(|pair| {
            let (name, value) = pair.split_once('=').ok_or(HttpError::Parameter {
                name: "property",
                detail: "write name=value".to_owned(),
            })?;
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        })
        .collect()
}

/// The answer to a publisher, sent once the message is durable.
fn answer(context: &HttpContext, id: MessageId, outcome: &SubmissionOutcome) -> HttpResponse {
    let mut body = verdict_json(id, &outcome.verdict);
    body["subscribers"] = outcome.deliveries.into();
    let mut response = HttpResponse::json(status_of_outcome(outcome), &body);
    add_retry_after_outcome(context, outcome, &mut response);
    response.message = Some(id);
    response
}
