//! A publication, as the broker delivers it: a payload under a topic, with its properties.

use std::time::{Duration, SystemTime};

use bytes::Bytes;

use crate::{MessageId, Topic};

/// The user property by which a publisher says `no`: its message shall not be remembered.
pub const CACHE: &str = "cache";

/// MQTT's quality of service. Other protocols publish at the level that corresponds to their own
/// guarantee (SMTP and HTTP acknowledge, so they publish at [`Qos::AtLeastOnce`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum Qos {
    /// QoS 0: no guarantee.
    #[default]
    AtMostOnce = 0,
    /// QoS 1: acknowledged, may arrive twice.
    AtLeastOnce = 1,
    /// QoS 2: acknowledged, arrives once.
    ExactlyOnce = 2,
}

impl Qos {
    /// The level on the wire; `None` for 3 and above, which are malformed \[MQTT-3.3.1-4\].
    pub const fn from_level(level: u8) -> Option<Self> {
        match level {
            0 => Some(Self::AtMostOnce),
            1 => Some(Self::AtLeastOnce),
            2 => Some(Self::ExactlyOnce),
            _ => None,
        }
    }

    /// The level on the wire.
    pub const fn level(self) -> u8 {
        self as u8
    }
}

/// MQTT 5's application properties of a PUBLISH (section 3.3.2.3); the properties of other
/// protocols are mapped to them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Properties {
    /// Whether the payload is declared to be UTF-8 text (payload format indicator).
    pub payload_is_text: Option<bool>,
    /// The payload's MIME type.
    pub content_type: Option<String>,
    /// The time after arrival during which the message is worth delivering, in seconds.
    pub expiry_seconds: Option<u32>,
    /// The topic on which a response is expected.
    pub response_topic: Option<String>,
    /// The data that the response must repeat.
    pub correlation_data: Option<Bytes>,
    /// Name and value, in the order given; names may repeat \[MQTT-3.3.2-18\].
    pub user: Vec<(String, String)>,
}

impl Properties {
    /// Whether no property is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The first user property of this name.
    pub fn user_property(&self, name: &str) -> Option<&str> {
        self.user
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }
}

/// A message on its way to subscribers. Immutable and shared once published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publication {
    /// The message's id; also its time of arrival.
    pub id: MessageId,
    /// Its topic.
    pub topic: Topic,
    /// The payload.
    pub payload: Bytes,
    /// The level at which it was published; a subscription may lower it.
    pub qos: Qos,
    /// Whether the topic retains it for later subscribers. An empty payload clears the topic.
    pub retain: bool,
    /// Boxed because most publications have none, and many are held at once.
    pub properties: Option<Box<Properties>>,
}

impl Publication {
    /// A publication with a new id, at QoS 0, without properties.
    pub fn new(topic: Topic, payload: impl Into<Bytes>) -> Self {
        Self {
            id: MessageId::next(),
            topic,
            payload: payload.into(),
            qos: Qos::AtMostOnce,
            retain: false,
            properties: None,
        }
    }

    /// Whether it belongs to the history of its topic. As in ntfy, its publisher may decide that
    /// only present subscribers receive it.
    pub fn is_remembered(&self) -> bool {
        let properties = self.properties.as_ref();
        properties.is_none_or(|properties| properties.user_property(CACHE) != Some("no"))
    }

    /// The time from which it is no longer worth delivering.
    pub fn expires(&self) -> Option<SystemTime> {
        let seconds = self.properties.as_ref()?.expiry_seconds?;
        Some(self.id.time() + Duration::from_secs(u64::from(seconds)))
    }

    /// The seconds of expiry left at `now`; `Some(0)` means that it has expired
    /// \[MQTT-3.3.2-5\]\[MQTT-3.3.2-6\].
    pub fn expiry_seconds_left(&self, now: SystemTime) -> Option<u32> {
        let seconds = self.properties.as_ref()?.expiry_seconds?;
        let left = self.expires()?.duration_since(now).unwrap_or_default();
        // Rounded up, so that a message does not expire early. A clock that was set back since the
        // message arrived does not prolong its expiry.
        let rounded_up = left.as_millis().div_ceil(1_000);
        Some(u32::try_from(rounded_up).map_or(seconds, |left| left.min(seconds)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_back_does_not_prolong_an_expiry() {
        let topic = Topic::new("a").expect("a topic");
        let mut publication = Publication::new(topic, "x");
        let mut left = |seconds: u32, set_back: Duration| {
            publication.properties = Some(Box::new(Properties {
                expiry_seconds: Some(seconds),
                ..Properties::default()
            }));
            publication.expiry_seconds_left(publication.id.time() - set_back)
        };
        for set_back in [
            Duration::ZERO,
            Duration::from_millis(1),
            Duration::from_hours(1),
        ] {
            for seconds in [0, 10, u32::MAX] {
                assert_eq!(left(seconds, set_back), Some(seconds), "{set_back:?}");
            }
        }
    }
}
