//! A message as a browser reads it: a JSON object with ntfy's field names, and the header fields
//! that control its handling by the push service.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use gatepost_message::{SEQUENCE_ID, SequenceEvent};
use ring::digest;
use serde::Serialize;

use super::encryption::TEXT_BYTES_MAX;
use crate::frame::SinkDelivery;
use crate::notification_action::{ACTIONS, NotificationAction};

/// The longest `Topic` of a push service (RFC 8030, section 5.4).
const TOPIC_CHARACTERS_MAX: usize = 32;
/// The longest attribute other than the text; a longer one is omitted.
const ATTRIBUTE_BYTES_MAX: usize = 512;
/// The longest topic; a longer one is cut.
const SENT_TOPIC_BYTES_MAX: usize = 256;
/// The longest JSON of the buttons; longer ones are omitted.
const ACTIONS_BYTES_MAX: usize = 1_024;
/// The size of all attributes but the text. An attribute that would leave too little space for the
/// text is omitted.
const ATTRIBUTES_BYTES_MAX: usize = TEXT_BYTES_MAX / 2;

/// The fields that a service worker shows.
#[derive(Default, Serialize)]
struct PushNotification<'a> {
    event: &'static str,
    id: String,
    /// Unix seconds.
    time: u64,
    topic: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<u8>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    click: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    icon: Option<&'a str>,
    /// The link of an attachment that is an image.
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    actions: Vec<NotificationAction>,
    /// Whether the text was cut; the server has all of it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

/// The JSON of a message on `topic`, short enough for one record. A text that is too long is cut.
pub(super) fn text(delivery: &SinkDelivery, topic: &str) -> Result<Vec<u8>, serde_json::Error> {
    let binary;
    let message = if let Ok(message) = std::str::from_utf8(&delivery.payload) {
        message
    } else {
        binary = format!("{} bytes", delivery.payload.len());
        &binary
    };
    let property = |name| {
        let value = delivery.properties.user_property(name);
        value.filter(|value| value.len() <= ATTRIBUTE_BYTES_MAX)
    };
    let tags = property("tags").unwrap_or_default().split(',');
    let mut notification = PushNotification {
        event: SequenceEvent::of(&delivery.properties).map_or("message", SequenceEvent::name),
        id: delivery.id.to_string(),
        time: super::unix_seconds(delivery.id.time()),
        topic: cut(topic, SENT_TOPIC_BYTES_MAX),
        title: property("title").or(property("subject")),
        message: "",
        priority: priority(delivery),
        tags: tags.map(str::trim).filter(|tag| !tag.is_empty()).collect(),
        click: property("click"),
        icon: property("icon"),
        sequence_id: property(SEQUENCE_ID),
        image: property("attach").filter(|_| is_image(delivery)),
        actions: actions(delivery),
        truncated: false,
    };
    if serde_json::to_vec(&notification)?.len() > ATTRIBUTES_BYTES_MAX {
        notification.actions.clear();
    }
    if serde_json::to_vec(&notification)?.len() > ATTRIBUTES_BYTES_MAX {
        notification = PushNotification {
            event: notification.event,
            id: notification.id,
            time: notification.time,
            topic: notification.topic,
            priority: notification.priority,
            ..PushNotification::default()
        };
    }
    // A character takes at least as many bytes in JSON as in the text, so the first cut is close to
    // the final one.
    let mut room = TEXT_BYTES_MAX;
    loop {
        notification.message = cut(message, room);
        notification.truncated = notification.message.len() < message.len();
        let json = serde_json::to_vec(&notification)?;
        let excess = json.len().saturating_sub(TEXT_BYTES_MAX);
        if excess == 0 || room == 0 {
            return Ok(json);
        }
        // One byte of text takes up to six bytes of JSON.
        room = room
            .min(message.len())
            .saturating_sub(excess.div_ceil(6).max(1));
    }
}

/// The beginning of a text, of at most this many bytes.
fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

/// Whether the attachment is an image, by its type or by the ending of its link.
fn is_image(delivery: &SinkDelivery) -> bool {
    const ENDINGS: [&str; 5] = [".jpg", ".jpeg", ".png", ".gif", ".webp"];
    let property = |name| delivery.properties.user_property(name);
    match (property("attachment_type"), property("attach")) {
        (Some(content_type), _) => content_type.starts_with("image/"),
        (None, Some(link)) => {
            let link = link.to_ascii_lowercase();
            ENDINGS.iter().any(|ending| link.ends_with(ending))
        }
        (None, None) => false,
    }
}

fn priority(delivery: &SinkDelivery) -> Option<u8> {
    let priority = delivery.properties.user_property("priority")?;
    let number = priority.parse().ok();
    number.filter(|number| (1..=5).contains(number))
}

/// The buttons, if they are short enough and a reader can parse them.
fn actions(delivery: &SinkDelivery) -> Vec<NotificationAction> {
    let text = delivery.properties.user_property(ACTIONS);
    let actions = text.and_then(|text| NotificationAction::parse(text).ok());
    let is_short = |actions: &Vec<NotificationAction>| {
        serde_json::to_vec(actions).is_ok_and(|json| json.len() <= ACTIONS_BYTES_MAX)
    };
    actions.filter(is_short).unwrap_or_default()
}

/// `Urgency` (RFC 8030, section 5.3): a device that saves its battery takes only the urgent ones.
pub(super) fn urgency(delivery: &SinkDelivery) -> &'static str {
    match priority(delivery) {
        Some(1) => "very-low",
        Some(2) => "low",
        Some(4 | 5) => "high",
        _ => "normal",
    }
}

/// `Topic` (RFC 8030, section 5.4): a message with a sequence id replaces an earlier one that the
/// push service has not delivered yet.
pub(super) fn replaced_topic(delivery: &SinkDelivery) -> Option<String> {
    let sequence_id = delivery.properties.user_property(SEQUENCE_ID)?;
    let named = [delivery.topic.as_bytes(), b"\0", sequence_id.as_bytes()].concat();
    let mut name = BASE64.encode(digest::digest(&digest::SHA256, &named));
    name.truncate(TOPIC_CHARACTERS_MAX);
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gatepost_message::{MessageId, Properties, Qos};
    use serde_json::Value;

    fn delivery(payload: &[u8], user: &[(&str, &str)]) -> SinkDelivery {
        let user = user
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        SinkDelivery {
            id: MessageId::next(),
            topic: "alarms/fire".to_owned(),
            payload: payload.to_vec().into(),
            properties: Properties {
                user: user.collect(),
                ..Properties::default()
            },
            qos: Qos::AtLeastOnce,
            retain: false,
            dup: false,
            packet_id: None,
            expires: None,
        }
    }

    fn json(delivery: &SinkDelivery) -> Value {
        let text = text(delivery, &delivery.topic).expect("JSON");
        assert!(text.len() <= TEXT_BYTES_MAX, "{}", text.len());
        serde_json::from_slice(&text).expect("JSON")
    }

    #[test]
    fn attributes_have_ntfys_names() {
        let sent = json(&delivery(
            b"smoke",
            &[
                ("title", "Hall"),
                ("priority", "5"),
                ("tags", "fire, hall"),
                ("click", "https://example.org/"),
            ],
        ));
        assert_eq!(sent["topic"], "alarms/fire");
        assert_eq!(
            (&sent["title"], &sent["message"]),
            (&"Hall".into(), &"smoke".into())
        );
        assert_eq!(sent["priority"], 5);
        assert_eq!(sent["tags"], serde_json::json!(["fire", "hall"]));
        assert_eq!(sent["click"], "https://example.org/");
        assert_eq!(sent["event"], "message");
        let sent = json(&delivery(
            b"",
            &[("actions", "view, See, https://x.example")],
        ));
        assert_eq!(sent["actions"][0]["label"], "See");
        for omitted in [
            "view, See",
            &format!("view, See, https://{}", "x".repeat(2_000)),
        ] {
            let sent = json(&delivery(b"", &[("actions", omitted)]));
            assert!(sent.get("actions").is_none(), "{sent}");
        }
        assert_eq!(json(&delivery(&[0xff, 0], &[]))["message"], "2 bytes");
        let deletes = [("event", "message_delete"), ("sequence_id", "7")];
        let sent = json(&delivery(b"", &deletes));
        assert_eq!(
            (&sent["event"], &sent["sequence_id"]),
            (&"message_delete".into(), &"7".into())
        );
        for (link, kind, expected) in [
            ("/file/a.jpg", "image/jpeg", true),
            ("/file/a.jpg", "text/plain", false),
            ("https://example.org/A.PNG", "", true),
            ("https://example.org/a.zip", "", false),
        ] {
            let mut user = vec![("attach", link)];
            user.extend((!kind.is_empty()).then_some(("attachment_type", kind)));
            let sent = json(&delivery(b"", &user));
            assert_eq!(sent["image"] == link, expected, "{link} {kind}");
        }
    }

    #[test]
    fn every_text_fits_into_one_record() {
        for part in ["x", "é", "\u{1}", "\"", "𝄞"] {
            for length in [3_000, 4_000, 100_000] {
                let whole = part.repeat(length);
                let sent = json(&delivery(whole.as_bytes(), &[("title", &"t".repeat(512))]));
                let message = sent["message"].as_str().expect("a text");
                assert!(whole.starts_with(message) && !message.is_empty());
                let is_cut = message.len() < whole.len();
                assert_eq!(sent["truncated"].as_bool().unwrap_or(false), is_cut);
            }
        }
        let nasty = "\u{1}".repeat(512);
        let all = ["title", "click", "icon", "sequence_id"].map(|name| (name, nasty.as_str()));
        let sent = json(&delivery(&[b'x'; 5_000], &all));
        assert!(
            sent["message"]
                .as_str()
                .is_some_and(|text| text.len() > 1_000)
        );
    }

    #[test]
    fn priorities_become_urgencies_and_sequences_topics() {
        for (given, urgency_of) in [
            ("1", "very-low"),
            ("2", "low"),
            ("3", "normal"),
            ("4", "high"),
            ("5", "high"),
            ("9", "normal"),
        ] {
            assert_eq!(urgency(&delivery(b"", &[("priority", given)])), urgency_of);
        }
        assert_eq!(urgency(&delivery(b"", &[])), "normal");
        let of = |id| replaced_topic(&delivery(b"", &[("sequence_id", id)]));
        assert_eq!(of("a"), of("a"));
        assert_ne!(of("a"), of("b"));
        assert_eq!(of("a").map(|name| name.len()), Some(32));
        assert_eq!(replaced_topic(&delivery(b"", &[])), None);
    }
}
