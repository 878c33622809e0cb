//! `gatepost sub -F FORMAT`: the output format of a message.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gatepost_mqtt::{Property, Publish};
use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A parsed format.
#[derive(Debug)]
pub(super) struct MessageFormat(Vec<FormatPart>);

#[derive(Debug, PartialEq, Eq)]
enum FormatPart {
    Text(String),
    /// The letter after the percent sign.
    Field(char),
}

const FIELDS: &str = "tpxXlqrmIUjJCDEFPRS";

impl MessageFormat {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            match character {
                '%' => match characters.next() {
                    Some('%') => plain.push('%'),
                    Some(field) if FIELDS.contains(field) => {
                        parts.push(FormatPart::Text(std::mem::take(&mut plain)));
                        parts.push(FormatPart::Field(field));
                    }
                    Some(other) => return Err(format!("-F: there is no field %{other}")),
                    None => return Err("-F: a field is missing after %".to_owned()),
                },
                '\\' => plain.push(match characters.next() {
                    Some('n') => '\n',
                    Some('t') => '\t',
                    Some('r') => '\r',
                    Some('0') => '\0',
                    Some('a') => '\x07',
                    Some('e') => '\x1b',
                    Some('\\') => '\\',
                    _ => {
                        return Err("-F: the escapes are \\n \\t \\r \\0 \\a \\e and \
                        \\\\"
                            .to_owned());
                    }
                }),
                character => plain.push(character),
            }
        }
        parts.push(FormatPart::Text(plain));
        parts.retain(|part| *part != FormatPart::Text(String::new()));
        Ok(Self(parts))
    }

    /// The message in this format.
    pub(super) fn render(&self, publish: &Publish<'_>) -> Vec<u8> {
        let now = SystemTime::now();
        let mut out = Vec::new();
        for part in &self.0 {
            match part {
                FormatPart::Text(text) => out.extend_from_slice(text.as_bytes()),
                FormatPart::Field('p') => out.extend_from_slice(publish.payload),
                FormatPart::Field(field) => out.extend(rendered(*field, publish, now).into_bytes()),
            }
        }
        out
    }
}

fn rendered(field: char, publish: &Publish<'_>, now: SystemTime) -> String {
    match field {
        't' => publish.topic.to_owned(),
        'x' => hex(publish.payload, "0123456789abcdef"),
        'X' => hex(publish.payload, "0123456789ABCDEF"),
        'l' => publish.payload.len().to_string(),
        'q' => publish.qos.level().to_string(),
        'r' => u8::from(publish.retain).to_string(),
        'm' => publish
            .packet_id
            .map_or(0, std::num::NonZeroU16::get)
            .to_string(),
        'I' => iso(now),
        'U' => {
            let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
            format!("{}.{:09}", since.as_secs(), since.subsec_nanos())
        }
        'j' => to_json(publish, now, false).to_string(),
        'J' => to_json(publish, now, true).to_string(),
        'P' => {
            let properties = publish.properties.user_properties();
            let pairs: Vec<String> = properties
                .map(|(name, value)| format!("{name}:{value}"))
                .collect();
            pairs.join(" ")
        }
        field => property(field, publish).unwrap_or_default(),
    }
}

fn property(field: char, publish: &Publish<'_>) -> Option<String> {
    publish.properties.find(|property| match (field, property) {
        ('C', Property::ContentType(text)) | ('R', Property::ResponseTopic(text)) => {
            Some(text.to_owned())
        }
        ('D', Property::CorrelationData(data)) => Some(String::from_utf8_lossy(data).into_owned()),
        ('E', Property::MessageExpiryInterval(number))
        | ('S', Property::SubscriptionIdentifier(number)) => Some(number.to_string()),
        ('F', Property::PayloadFormatIndicator(is_text)) => Some(u8::from(is_text).to_string()),
        _ => None,
    })
}

fn hex(bytes: &[u8], digits: &str) -> String {
    let digit = |number: u8| digits.chars().nth(number.into()).unwrap_or('?');
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 0x0F)])
        .collect()
}

fn iso(now: SystemTime) -> String {
    OffsetDateTime::from(now)
        .format(&Rfc3339)
        .unwrap_or_default()
}

/// A payload that is not UTF-8 is in `payload_base64`.
fn to_json(publish: &Publish<'_>, now: SystemTime, payload_is_json: bool) -> Value {
    let mut message = Map::new();
    let mut set = |name: &str, value: Value| message.insert(name.to_owned(), value);
    set("tst", iso(now).into());
    set("topic", publish.topic.into());
    set("qos", publish.qos.level().into());
    set("retain", u8::from(publish.retain).into());
    set("payloadlen", publish.payload.len().into());
    if let Some(id) = publish.packet_id {
        set("mid", id.get().into());
    }
    let mut properties = Map::new();
    let mut user = Map::new();
    for property in publish.properties.iter() {
        let (name, value) = match property {
            Property::UserProperty((name, value)) => {
                user.insert(name.to_owned(), value.into());
                continue;
            }
            Property::ContentType(text) => ("content-type", json!(text)),
            Property::ResponseTopic(text) => ("response-topic", json!(text)),
            Property::CorrelationData(data) => {
                ("correlation-data", json!(String::from_utf8_lossy(data)))
            }
            Property::MessageExpiryInterval(seconds) => ("message-expiry-interval", json!(seconds)),
            Property::PayloadFormatIndicator(is_text) => {
                ("payload-format-indicator", json!(u8::from(is_text)))
            }
            Property::SubscriptionIdentifier(number) => ("subscription-identifier", json!(number)),
            _ => continue,
        };
        properties.insert(name.to_owned(), value);
    }
    if !user.is_empty() {
        properties.insert("user-properties".to_owned(), user.into());
    }
    if !properties.is_empty() {
        set("properties", properties.into());
    }
    let parsed = payload_is_json.then(|| serde_json::from_slice(publish.payload).ok());
    match (parsed.flatten(), std::str::from_utf8(publish.payload)) {
        (Some(value), _) => set("payload", value),
        (None, Ok(text)) => set("payload", text.into()),
        (None, Err(_)) => set("payload_base64", STANDARD.encode(publish.payload).into()),
    };
    message.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gatepost_message::Qos;
    use gatepost_mqtt::PropertiesBuffer;

    fn render(format: &str, payload: &[u8]) -> String {
        let mut properties = PropertiesBuffer::new();
        for property in [
            Property::ContentType("text/plain"),
            Property::UserProperty(("colour", "red")),
        ] {
            properties.push(&property).expect("short");
        }
        let publish = Publish {
            dup: false,
            qos: Qos::AtLeastOnce,
            retain: true,
            topic: "state/door",
            packet_id: None,
            properties: properties.as_properties(),
            payload,
        };
        let format = MessageFormat::parse(format).expect("a format");
        String::from_utf8_lossy(&format.render(&publish)).into_owned()
    }

    #[test]
    fn fields_are_filled_in() {
        let line = render("%t|%p|%x|%X|%l|%q|%r|%C|%P|%R|100%%\\t\\\\", b"o\xcc\x81");
        assert_eq!(
            line,
            "state/door|o\u{301}|6fcc81|6FCC81|3|1|1|text/plain|colour:red||100%\t\\"
        );
    }

    #[test]
    fn json_holds_everything() {
        let value: Value = serde_json::from_str(&render("%j", b"open")).expect("JSON");
        assert_eq!(value["payload"], "open");
        assert_eq!(value["topic"], "state/door");
        assert_eq!(value["properties"]["user-properties"]["colour"], "red");
        let parsed: Value = serde_json::from_str(&render("%J", b"{\"a\":1}")).expect("JSON");
        assert_eq!(parsed["payload"]["a"], 1);
        let bytes: Value = serde_json::from_str(&render("%j", b"\xff")).expect("JSON");
        assert_eq!(bytes["payload_base64"], "/w==");
    }

    #[test]
    fn mistakes_are_errors() {
        for (format, part) in [
            ("%y", "no field %y"),
            ("a%", "missing"),
            ("\\q", "the escapes are"),
        ] {
            let error = MessageFormat::parse(format).expect_err(format);
            assert!(error.contains(part), "{error}");
        }
    }
}
