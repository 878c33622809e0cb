//! ntfy's shapes: `POST /alarms`, `GET /alarms/json`, `/alarms/sse`, `/alarms/raw`.
//!
//! A topic is one level of letters, digits, `-` and `_`, and several are joined by commas. What
//! ntfy's headers say (title, priority, tags, click, icon) becomes user properties.

use std::sync::Arc;

use gatepost_message::{Topic, TopicFilter};

use super::HttpContext;
use super::access;
use super::error::HttpError;
use super::request::Request;
use super::response::Response;
use super::rooms::Since;
use super::stream::{Shape, to_ntfy};
use super::topics;

/// ntfy's bound on a topic.
const TOPIC_CHARACTERS_MAX: usize = 64;

/// The header fields and query parameters that say the same, and the property they become.
const MARKS: [(&str, &[&str]); 6] = [
    ("title", &["x-title", "title", "t"]),
    ("priority", &["x-priority", "priority", "prio", "p"]),
    ("tags", &["x-tags", "tags", "tag", "ta"]),
    ("click", &["x-click", "click"]),
    ("icon", &["x-icon", "icon"]),
    ("actions", &["x-actions", "actions", "action"]),
];

/// Answers, if the request has one of ntfy's shapes.
pub(super) async fn respond(
    context: &Arc<HttpContext>,
    request: &Request,
) -> Option<Result<Response, HttpError>> {
    let path = request.path.strip_prefix('/')?;
    match (request.method(), path.split_once('/')) {
        ("POST" | "PUT", None) if is_topic(path) => Some(publish(context, request, path).await),
        ("GET" | "HEAD", Some((topics, kind))) if topics.split(',').all(is_topic) => {
            let shape = match kind {
                "json" => Shape::NtfyJson,
                "sse" => Shape::NtfySse,
                "raw" => Shape::NtfyRaw,
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

async fn publish(
    context: &Arc<HttpContext>,
    request: &Request,
    topic: &str,
) -> Result<Response, HttpError> {
    let mut message = topics::message_of(request, Topic::new(topic)?)?;
    let properties = message.properties.get_or_insert_default();
    for (name, aliases) in MARKS {
        let value = aliases
            .iter()
            .find_map(|alias| topics::setting(request, alias));
        if let Some(value) = value {
            let value = if name == "priority" {
                priority(&value)?.to_owned()
            } else {
                value
            };
            properties.user.push((name.to_owned(), value));
        }
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

fn priority(text: &str) -> Result<&'static str, HttpError> {
    Ok(match text {
        "1" | "min" => "1",
        "2" | "low" => "2",
        "3" | "default" => "3",
        "4" | "high" => "4",
        "5" | "max" | "urgent" => "5",
        _ => {
            return Err(HttpError::Parameter {
                name: "priority",
                detail: "write 1 to 5, or min, low, default, high, max".to_owned(),
            });
        }
    })
}

fn subscribe(
    context: &HttpContext,
    request: &Request,
    names: &str,
    shape: Shape,
) -> Result<Response, HttpError> {
    let filters = names
        .split(',')
        .map(TopicFilter::new)
        .collect::<Result<Vec<_>, _>>()?;
    let polls = request
        .parameter("poll")
        .is_some_and(|poll| topics::is_yes(&poll));
    access::expect_subscribe(context, request, &filters)?;
    // A poll without a start wants what is there.
    let default = if polls { Since::Everything } else { Since::Now };
    let since = topics::since_of(request, default)?;
    Ok(topics::stream(
        context,
        request,
        &filters,
        since,
        shape,
        names.to_owned(),
    ))
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

    #[test]
    fn priorities_have_names() {
        assert_eq!(priority("urgent"), Ok("5"));
        assert!(priority("6").is_err());
    }
}
