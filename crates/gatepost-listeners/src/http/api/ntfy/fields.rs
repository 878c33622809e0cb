//! Attributes of an ntfy publication besides the text: by header fields, by the query, or in one
//! JSON object.

use gatepost_gateway::DELAY;
use gatepost_message::{CACHE, SEQUENCE_ID, SequenceEvent};
use gatepost_sinks::{ACTIONS, NotificationAction};
use serde::Deserialize;
use serde_json::{Value, json};

use super::encoded_words::decoded;
use super::is_topic;
use crate::http::error::HttpError;
use crate::http::parameters::is_yes;
use crate::http::request::{HttpRequest, json_object};

/// The user properties, each with the header fields and query parameters that set it.
const PROPERTIES: [(&str, &[&str]); 11] = [
    ("title", &["x-title", "title", "ti", "t"]),
    ("priority", &["x-priority", "priority", "prio", "p"]),
    ("tags", &["x-tags", "tags", "tag", "ta"]),
    ("click", &["x-click", "click"]),
    ("icon", &["x-icon", "icon"]),
    (ACTIONS, &["x-actions", "actions", "action"]),
    ("attach", &["x-attach", "attach", "a"]),
    ("filename", &["x-filename", "filename", "file", "f"]),
    ("markdown", &["x-markdown", "markdown", "md"]),
    (
        SEQUENCE_ID,
        &["x-sequence-id", "sequence-id", "sequence_id", "sid"],
    ),
    (DELAY, &["x-delay", "delay", "x-at", "at", "x-in", "in"]),
];
/// The text, if the body is not the text.
const MESSAGE: [&str; 3] = ["x-message", "message", "m"];
/// The address that gets the message as mail.
const EMAIL: [&str; 6] = ["x-email", "x-e-mail", "email", "e-mail", "mail", "e"];
/// Fields of ntfy that this server does not support, with the explanation.
const UNSUPPORTED: [(&str, &[&str], &str); 2] = [
    (
        "call",
        &["x-call", "call"],
        "this server makes no phone calls; omit the field",
    ),
    (
        "template",
        &["x-template", "template", "tpl"],
        "this server fills in no templates; send the finished text, or let a procedure write it",
    ),
];
/// Whether the message is remembered.
const CACHE_NAMES: [&str; 2] = ["x-cache", "cache"];
/// The text that ntfy's server uses for a message without text.
const EMPTY: &str = "triggered";

/// The published fields.
#[derive(Debug, Default, PartialEq)]
pub(super) struct NtfyFields {
    /// The text, if the request's body is not the text.
    pub text: Option<String>,
    /// Whether the fields came as a JSON object.
    pub is_json: bool,
    /// The address that gets it as mail.
    pub email: Option<String>,
    /// The user properties.
    pub properties: Vec<(String, String)>,
}

/// ntfy's object for publishing.
#[derive(Deserialize, Default)]
#[serde(default)]
struct NtfyObject {
    topic: String,
    message: Option<String>,
    title: Option<String>,
    /// A number of JSON: 4.0 is 4.
    priority: Option<f64>,
    tags: Vec<String>,
    click: Option<String>,
    icon: Option<String>,
    attach: Option<String>,
    filename: Option<String>,
    markdown: bool,
    sequence_id: Option<String>,
    actions: Vec<serde_json::Map<String, Value>>,
    delay: Option<String>,
    email: Option<String>,
    call: Option<String>,
    template: Option<String>,
    cache: Option<String>,
}

impl NtfyFields {
    pub(super) fn of_request(request: &HttpRequest) -> Result<Self, HttpError> {
        let value = |names: &[&str]| value_of(request, names);
        for (name, aliases, detail) in UNSUPPORTED {
            let is_requested = value(aliases).is_some_and(|text| !is_no(&text));
            expect_supported(name, is_requested, detail)?;
        }
        let mut fields = Self {
            text: value(&MESSAGE),
            email: value(&EMAIL),
            ..Self::default()
        };
        if fields.text.is_none() && request.body.is_empty() {
            fields.text = Some(EMPTY.to_owned());
        }
        for (name, aliases) in PROPERTIES {
            let Some(text) = value(aliases) else { continue };
            let text = match name {
                // The field of HTTP (RFC 9218), which browsers and proxies add.
                "priority" if is_http_priority(&text) => continue,
                "priority" => priority(&text)?.to_owned(),
                SEQUENCE_ID => sequence_id(text)?,
                ACTIONS => checked_actions(&text)?,
                "markdown" if !is_yes(&text) => continue,
                "markdown" => "1".to_owned(),
                _ => text,
            };
            fields.properties.push((name.to_owned(), text));
        }
        fields.properties.extend(cache(value(&CACHE_NAMES)));
        Ok(fields)
    }

    /// An event of a sequence, which has no text.
    pub(super) fn of_event(event: SequenceEvent, sequence_id: &str) -> Self {
        Self {
            text: Some(String::new()),
            properties: event.properties(sequence_id),
            ..Self::default()
        }
    }

    /// Sets the sequence id; the path outranks the fields.
    pub(super) fn set_sequence_id(&mut self, id: &str) {
        self.properties.retain(|(name, _)| name != SEQUENCE_ID);
        self.properties
            .push((SEQUENCE_ID.to_owned(), id.to_owned()));
    }

    /// The user property of this name.
    pub(super) fn property(&self, name: &str) -> Option<&str> {
        let mut properties = self.properties.iter();
        let found = properties.find(|(known, _)| known == name)?;
        Some(&found.1)
    }

    /// Whether the publisher has written no text.
    pub(super) fn has_no_text(&self) -> bool {
        self.text.as_deref() == Some(EMPTY)
    }

    /// These fields, completed with the properties of `others` that they do not name.
    pub(super) fn or(mut self, others: Self) -> Self {
        for (name, value) in others.properties {
            if self.properties.iter().all(|(known, _)| *known != name) {
                self.properties.push((name, value));
            }
        }
        self.email = self.email.or(others.email);
        self
    }

    /// The topic and the rest of an object.
    pub(super) fn of_json(body: &[u8]) -> Result<(String, Self), HttpError> {
        let object: NtfyObject = json_object(body)?;
        let given = [&object.call, &object.template];
        for ((name, _, detail), text) in UNSUPPORTED.into_iter().zip(given) {
            let is_requested = text.as_ref().is_some_and(|text| !is_no(text));
            expect_supported(name, is_requested, detail)?;
        }
        let sequence_id = object.sequence_id.filter(|id| !id.is_empty());
        let sequence_id = sequence_id.map(self::sequence_id).transpose()?;
        let actions = (!object.actions.is_empty()).then(|| {
            let text = Value::from(object.actions).to_string();
            checked_actions(&text)
        });
        let priority = object.priority.filter(|&priority| priority != 0.0);
        let priority = priority
            .map(|number| Ok::<_, HttpError>(self::priority(&number.to_string())?.to_owned()));
        let tags = (!object.tags.is_empty()).then(|| object.tags.join(","));
        let given = [
            ("title", object.title),
            ("priority", priority.transpose()?),
            ("tags", tags),
            ("click", object.click),
            ("icon", object.icon),
            (ACTIONS, actions.transpose()?),
            ("attach", object.attach),
            ("filename", object.filename),
            ("markdown", object.markdown.then(|| "1".to_owned())),
            (SEQUENCE_ID, sequence_id),
            (DELAY, object.delay),
        ];
        let properties = given.into_iter().filter_map(|(name, value)| {
            let value = value.filter(|value| !value.is_empty())?;
            Some((name.to_owned(), value))
        });
        let text = object.message.filter(|text| !text.is_empty());
        let fields = Self {
            text: Some(text.unwrap_or_else(|| EMPTY.to_owned())),
            is_json: true,
            email: object.email.filter(|address| !address.is_empty()),
            properties: properties.chain(cache(object.cache)).collect(),
        };
        Ok((object.topic, fields))
    }
}

/// The first value that is not empty, of a header field or of the query.
fn value_of(request: &HttpRequest, names: &[&str]) -> Option<String> {
    let mut values = names.iter().filter_map(|name| match request.field(name) {
        Some(value) => Some(decoded(value)),
        None => request.query_value(name),
    });
    values.find(|value| !value.is_empty())
}

/// The actions as JSON, in which every reader gets them.
fn checked_actions(text: &str) -> Result<String, HttpError> {
    let actions = NotificationAction::parse(text).map_err(|mistake| HttpError::Parameter {
        name: ACTIONS,
        detail: mistake.to_string(),
    })?;
    Ok(json!(actions).to_string())
}

/// A sequence id is part of a path, as a topic is.
fn sequence_id(text: String) -> Result<String, HttpError> {
    if is_topic(&text) {
        return Ok(text);
    }
    Err(HttpError::Parameter {
        name: SEQUENCE_ID,
        detail: "write at most 64 letters, digits, '-' and '_'".to_owned(),
    })
}

fn expect_supported(
    name: &'static str,
    is_requested: bool,
    detail: &'static str,
) -> Result<(), HttpError> {
    if is_requested {
        let detail = detail.to_owned();
        return Err(HttpError::Parameter { name, detail });
    }
    Ok(())
}

/// The property of a message that is not remembered; none if it is, as most are.
fn cache(text: Option<String>) -> Option<(String, String)> {
    let is_refused = text.is_some_and(|text| is_no(&text) && !text.is_empty());
    is_refused.then(|| (CACHE.to_owned(), "no".to_owned()))
}

fn is_no(text: &str) -> bool {
    matches!(text, "" | "0" | "no" | "false" | "off")
}

/// Whether a `Priority` field is that of HTTP (RFC 9218): `u=1, i`.
pub(super) fn is_http_priority(text: &str) -> bool {
    text.split(',').map(str::trim).all(|part| {
        let urgency = part.strip_prefix("u=");
        part == "i" || urgency.is_some_and(|digit| matches!(digit.as_bytes(), [b'0'..=b'7']))
    })
}

pub(super) fn priority(text: &str) -> Result<&'static str, HttpError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_have_names() {
        assert_eq!(priority("urgent"), Ok("5"));
        assert!(priority("6").is_err());
        for field in ["u=1, i", "u=0", "i"] {
            assert!(is_http_priority(field), "{field}");
        }
        for priority in ["1", "high", "u=9", "ui", ""] {
            assert!(!is_http_priority(priority), "{priority}");
        }
    }

    #[test]
    fn one_object_contains_all_fields() {
        let body = br#"{"topic":"alarms","message":"Smoke","title":"Hall","tags":["fire","hall"],
            "priority":5,"markdown":true,
            "actions":[{"action":"view","label":"See","url":"https://x"}]}"#;
        let (topic, fields) = NtfyFields::of_json(body).expect("an object");
        assert_eq!(topic, "alarms");
        assert_eq!(fields.text.as_deref(), Some("Smoke"));
        let property = |name: &str| {
            let mut all = fields.properties.iter();
            all.find(|(known, _)| known == name)
                .map(|(_, value)| value.as_str())
        };
        assert_eq!(property("tags"), Some("fire,hall"));
        assert_eq!(property("priority"), Some("5"));
        assert!(property("actions").is_some_and(|text| text.contains("view")));
        let (_, empty) = NtfyFields::of_json(br#"{"topic":"alarms"}"#).expect("an object");
        assert_eq!(empty.text.as_deref(), Some(EMPTY));
        let later = br#"{"topic":"a","delay":"1h","email":"anna@example.org"}"#;
        let (_, later) = NtfyFields::of_json(later).expect("an object");
        assert_eq!(later.email.as_deref(), Some("anna@example.org"));
        assert_eq!(later.properties, [(DELAY.to_owned(), "1h".to_owned())]);
        let (_, present) =
            NtfyFields::of_json(br#"{"topic":"a","cache":"no"}"#).expect("an object");
        assert_eq!(present.property(CACHE), Some("no"));
        for body in [
            &b"{"[..],
            b"[]",
            br#"{"topic":1}"#,
            br#"{"topic":"a","call":"+49123"}"#,
            br#"{"topic":"a","template":"github"}"#,
            br#"{"topic":"a","actions":[{"action":"view","label":"no address"}]}"#,
            br#"{"topic":"a","sequence_id":"a/b"}"#,
        ] {
            assert!(NtfyFields::of_json(body).is_err());
        }
    }
}
