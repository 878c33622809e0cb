//! The body of a request: a template's result, or the message as JSON.
//!
//! In a JSON body, the template's values are written as JSON, so no payload can break out of its
//! string, and the result is checked.

use std::collections::BTreeMap;
use std::fmt;
use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use minijinja::{AutoEscape, Environment, ErrorKind, UndefinedBehavior, Value, context};
use serde::Serialize;
use serde::de::IgnoredAny;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::frame::Delivery;

/// The maximum number of template instructions for one message.
const STEPS_MAX: u64 = 100_000;
/// The maximum number of bytes of a request's body.
const BODY_BYTES_MAX: usize = 4 << 20;
const NAME: &str = "body";
const PRIORITY_DEFAULT: u8 = 3;

/// The reason why a message has no request body.
#[derive(Debug, thiserror::Error)]
pub(super) enum BodyError {
    #[error("the template: {0:#}")]
    Template(#[from] minijinja::Error),
    #[error("the template's result is not JSON: {0}")]
    NotJson(serde_json::Error),
    #[error("the message as JSON: {0}")]
    Message(serde_json::Error),
}

/// A compiled template.
pub(super) struct BodyTemplate {
    environment: Environment<'static>,
    is_json: bool,
    wants_json: bool,
    wants_base64: bool,
}

impl BodyTemplate {
    pub(super) fn new(source: &str, is_json: bool) -> Result<Self, minijinja::Error> {
        let mut environment = Environment::new();
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_undefined_behavior(UndefinedBehavior::Chainable);
        environment.set_fuel(Some(STEPS_MAX));
        environment.add_filter("cut", cut);
        environment.add_filter("slack", escaped_for_slack);
        if is_json {
            environment.set_formatter(|out, _, value| {
                let text = serde_json::to_string(value).map_err(|error| {
                    minijinja::Error::new(ErrorKind::BadSerialization, error.to_string())
                })?;
                fmt::Write::write_str(out, &text).map_err(Into::into)
            });
        }
        environment.add_template_owned(NAME, source.to_owned())?;
        let names = environment.get_template(NAME)?.undeclared_variables(false);
        Ok(Self {
            is_json,
            wants_json: names.contains("json"),
            wants_base64: names.contains("payload_base64"),
            environment,
        })
    }

    pub(super) fn render(
        &self,
        sink: &str,
        variables: &BTreeMap<String, String>,
        delivery: &Delivery,
    ) -> Result<Vec<u8>, BodyError> {
        let payload = &delivery.payload;
        let properties = &delivery.properties;
        let property = |name| properties.user_property(name);
        let by_name: BTreeMap<&str, &str> = properties
            .user
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let time = OffsetDateTime::from(delivery.id.time());
        let json = self
            .wants_json
            .then(|| serde_json::from_slice(payload).ok());
        let json: Option<serde_json::Value> = json.flatten();
        let values = context! {
            sink,
            variables,
            id => delivery.id.to_string(),
            topic => delivery.topic,
            levels => delivery.topic.split('/').collect::<Vec<_>>(),
            payload => String::from_utf8_lossy(payload),
            payload_base64 => self.wants_base64.then(|| BASE64.encode(payload)),
            json => json.map_or(Value::UNDEFINED, Value::from_serialize),
            time => time.format(&Rfc3339).unwrap_or_default(),
            unix => time.unix_timestamp(),
            unix_ms => (time.unix_timestamp_nanos() / 1_000_000) as i64,
            qos => delivery.qos.level(),
            retain => delivery.retain,
            content_type => properties.content_type,
            properties => by_name,
            title => property("title").or(property("subject")).unwrap_or(&delivery.topic),
            priority => priority(property("priority")),
            tags => tags(property("tags")),
            click => property("click"),
        };
        let mut body = Bounded(Vec::new());
        let template = self.environment.get_template(NAME)?;
        template.render_captured_to(values, &mut body)?;
        if self.is_json {
            serde_json::from_slice::<IgnoredAny>(&body.0).map_err(BodyError::NotJson)?;
        }
        Ok(body.0)
    }
}

/// From 1 to 5, as ntfy has it.
fn priority(text: Option<&str>) -> u8 {
    let number = text.and_then(|text| text.parse().ok());
    number
        .filter(|number| (1..=5).contains(number))
        .unwrap_or(PRIORITY_DEFAULT)
}

fn tags(text: Option<&str>) -> Vec<&str> {
    let tags = text.unwrap_or_default().split(',').map(str::trim);
    tags.filter(|tag| !tag.is_empty()).collect()
}

/// The filter `cut`: at most this many characters.
fn cut(text: String, characters_max: usize) -> String {
    if text.chars().count() <= characters_max {
        return text;
    }
    let kept = text.chars().take(characters_max.saturating_sub(1));
    kept.chain(['…']).collect()
}

/// The filter `slack`: the three characters that Slack's own markup uses.
fn escaped_for_slack(text: String) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Output with a bound.
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > BODY_BYTES_MAX {
            return Err(io::Error::other("the body would be longer than 4 MiB"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

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

/// The body if there is no template.
pub(super) fn message_json(delivery: &Delivery) -> Result<Vec<u8>, BodyError> {
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
    serde_json::to_vec(&message).map_err(BodyError::Message)
}
