//! `-D PACKET NAME VALUE`: properties of MQTT 5, by the names of the standard.

use gatepost_mqtt::{PropertiesBuffer, Property};

use super::{ClientError, ClientOptions};

/// The packet with which a property is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PropertyPacket {
    Connect,
    Publish,
    Subscribe,
    Will,
}

impl PropertyPacket {
    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "connect" => Self::Connect,
            "publish" => Self::Publish,
            "subscribe" => Self::Subscribe,
            "will" => Self::Will,
            _ => return None,
        })
    }
}

/// One property, as the user gave it.
#[derive(Debug, Clone)]
struct GivenProperty {
    place: PropertyPacket,
    name: String,
    value: String,
    second: Option<String>,
}

/// All properties that the user gave.
#[derive(Debug, Clone, Default)]
pub(crate) struct CommandLineProperties(Vec<GivenProperty>);

impl CommandLineProperties {
    pub(crate) fn parse(options: &ClientOptions) -> Result<Self, ClientError> {
        let mut words = options.property.iter().cloned().peekable();
        let mut list = Vec::new();
        while let (Some(place), Some(name), Some(value)) =
            (words.next(), words.next(), words.next())
        {
            let known = PropertyPacket::parse(&place).ok_or_else(|| {
                let places = "connect, publish, subscribe and will";
                ClientError::Usage(format!(
                    "-D {place}: unknown packet; the packets with \
                    properties are {places}"
                ))
            })?;
            let second = if name == "user-property" {
                words.next()
            } else {
                None
            };
            list.push(GivenProperty {
                place: known,
                name,
                value,
                second,
            });
        }
        let carried = Self(list);
        for place in [
            PropertyPacket::Connect,
            PropertyPacket::Publish,
            PropertyPacket::Subscribe,
            PropertyPacket::Will,
        ] {
            carried.of(place)?;
        }
        Ok(carried)
    }

    /// The properties of one packet.
    pub(crate) fn of(&self, place: PropertyPacket) -> Result<PropertiesBuffer, ClientError> {
        let mut buffer = PropertiesBuffer::new();
        for given in self.0.iter().filter(|given| given.place == place) {
            buffer.push(&given.property()?)?;
        }
        Ok(buffer)
    }
}

impl GivenProperty {
    fn property(&self) -> Result<Property<'_>, ClientError> {
        let value = self.value.as_str();
        let bad = |what: &str| ClientError::Usage(format!("-D {}: {what}", self.name));
        let number = || {
            value
                .parse::<u32>()
                .map_err(|_| bad("a number is expected"))
        };
        let small = || {
            value
                .parse::<u16>()
                .map_err(|_| bad("a number up to 65535 is expected"))
        };
        let switch = || match value {
            "0" => Ok(false),
            "1" => Ok(true),
            _ => Err(bad("0 or 1 is expected")),
        };
        let (connect, publish) = (
            self.place == PropertyPacket::Connect,
            self.place == PropertyPacket::Publish,
        );
        let message = publish || self.place == PropertyPacket::Will;
        Ok(match self.name.as_str() {
            "user-property" => {
                let second = self.second.as_deref();
                Property::UserProperty((value, second.ok_or_else(|| bad("a name and a value"))?))
            }
            "payload-format-indicator" if message => Property::PayloadFormatIndicator(switch()?),
            "message-expiry-interval" if message => Property::MessageExpiryInterval(number()?),
            "content-type" if message => Property::ContentType(value),
            "response-topic" if message => Property::ResponseTopic(value),
            "correlation-data" if message => Property::CorrelationData(value.as_bytes()),
            "topic-alias" if publish => Property::TopicAlias(small()?),
            "will-delay-interval" if self.place == PropertyPacket::Will => {
                Property::WillDelayInterval(number()?)
            }
            "session-expiry-interval" if connect => Property::SessionExpiryInterval(number()?),
            "receive-maximum" if connect => Property::ReceiveMaximum(small()?.max(1)),
            "maximum-packet-size" if connect => Property::MaximumPacketSize(number()?.max(1)),
            "request-problem-information" if connect => {
                Property::RequestProblemInformation(switch()?)
            }
            "request-response-information" if connect => {
                Property::RequestResponseInformation(switch()?)
            }
            "subscription-identifier" if self.place == PropertyPacket::Subscribe => {
                Property::SubscriptionIdentifier(number()?)
            }
            _ => return Err(bad("that packet has no such property")),
        })
    }
}
