//! Templates of outgoing content: the body of a request, the subject and the text of a mail.
//!
//! In a JSON body, the template's values are written as JSON, so no payload can break out of its
//! string, and the result is checked.

use std::collections::BTreeMap;
use std::fmt;
use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use minijinja::{AutoEscape, Environment, ErrorKind, UndefinedBehavior, Value, context};
use serde::de::IgnoredAny;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::frame::SinkDelivery;

/// The maximum number of template instructions, and of further ones for each message of a digest.
const STEPS_MAX: u64 = 100_000;
const STEPS_PER_MESSAGE: u64 = 2_000;
/// The maximum number of bytes of a result.
const BODY_BYTES_MAX: usize = 4 << 20;
const NAME: &str = "body";
const PRIORITY_DEFAULT: u8 = 3;

/// The reason why a message has no request body.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SinkTemplateError {
    #[error("the template: {0:#}")]
    Template(#[from] minijinja::Error),
    #[error("the template's result is not JSON: {0}")]
    NotJson(serde_json::Error),
    #[error("the message as JSON: {0}")]
    Message(serde_json::Error),
    #[error("the template's result is not UTF-8")]
    NotText,
}

/// A compiled template.
pub(crate) struct SinkTemplate {
    environment: Environment<'static>,
    is_json: bool,
    wants_json: bool,
    wants_base64: bool,
}

impl SinkTemplate {
    /// `messages_max`: of how many messages one text may be made.
    pub(crate) fn new(
        source: &str,
        is_json: bool,
        messages_max: u16,
    ) -> Result<Self, minijinja::Error> {
        let mut environment = Environment::new();
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_undefined_behavior(UndefinedBehavior::Chainable);
        let of_digest = STEPS_PER_MESSAGE * u64::from(messages_max);
        environment.set_fuel(Some(STEPS_MAX + of_digest));
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
        Ok(Self {
            is_json,
            wants_json: source.contains("json"),
            wants_base64: source.contains("payload_base64"),
            environment,
        })
    }

    /// The text for one message.
    pub(crate) fn render(
        &self,
        sink: &str,
        variables: &BTreeMap<String, String>,
        delivery: &SinkDelivery,
    ) -> Result<Vec<u8>, SinkTemplateError> {
        let message = self.values(delivery);
        self.render_values(context! { sink, variables, ..message })
    }

    /// The text for a digest: the values of the first message, and all of them as `messages`.
    pub(crate) fn render_digest(
        &self,
        sink: &str,
        variables: &BTreeMap<String, String>,
        deliveries: &[SinkDelivery],
    ) -> Result<String, SinkTemplateError> {
        let messages: Vec<Value> = deliveries.iter().map(|one| self.values(one)).collect();
        let first = messages.first().cloned().unwrap_or_default();
        let count = messages.len();
        let text = self.render_values(context! { sink, variables, messages, count, ..first })?;
        String::from_utf8(text).map_err(|_| SinkTemplateError::NotText)
    }

    /// The values of one message.
    fn values(&self, delivery: &SinkDelivery) -> Value {
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
        context! {
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
        }
    }

    fn render_values(&self, values: Value) -> Result<Vec<u8>, SinkTemplateError> {
        let mut body = BoundedOutput(Vec::new());
        let template = self.environment.get_template(NAME)?;
        template.render_captured_to(values, &mut body)?;
        if self.is_json {
            serde_json::from_slice::<IgnoredAny>(&body.0).map_err(SinkTemplateError::NotJson)?;
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
struct BoundedOutput(Vec<u8>);

impl io::Write for BoundedOutput {
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
