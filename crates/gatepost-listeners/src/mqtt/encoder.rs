//! Publications as MQTT writes them: one encoder for each version and framing.

use std::num::NonZeroU16;

use bytes::BytesMut;
use gatepost_broker::{Encoder, Format, FrameOptions, Unencodable};
use gatepost_message::{Properties as MessageProperties, Publication};
use gatepost_mqtt::{
    Ack, EncodeError, PacketType, Properties, PropertiesBuffer, Property, Publish, Version,
};

use crate::websocket;

/// How packets lie on the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// One after the other.
    Plain,
    /// Each in a binary WebSocket frame.
    WebSocket,
}

impl Framing {
    /// Appends what `write` appends, framed.
    pub(super) fn put<T>(self, out: &mut BytesMut, write: impl FnOnce(&mut BytesMut) -> T) -> T {
        match self {
            Self::Plain => write(out),
            Self::WebSocket => websocket::put_framed(out, write),
        }
    }
}

struct MqttEncoder {
    name: &'static str,
    version: Version,
    framing: Framing,
}

static PLAIN_3: MqttEncoder = MqttEncoder {
    name: "mqtt 3.1.1",
    version: Version::Mqtt311,
    framing: Framing::Plain,
};
static PLAIN_5: MqttEncoder = MqttEncoder {
    name: "mqtt 5",
    version: Version::Mqtt5,
    framing: Framing::Plain,
};
static WEBSOCKET_3: MqttEncoder = MqttEncoder {
    name: "mqtt 3.1.1 in websocket",
    version: Version::Mqtt311,
    framing: Framing::WebSocket,
};
static WEBSOCKET_5: MqttEncoder = MqttEncoder {
    name: "mqtt 5 in websocket",
    version: Version::Mqtt5,
    framing: Framing::WebSocket,
};

/// The format of a connection. 3.1 and 3.1.1 write publications alike.
pub(super) fn format(version: Version, framing: Framing) -> Format {
    match (version, framing) {
        (Version::Mqtt5, Framing::Plain) => &PLAIN_5,
        (Version::Mqtt5, Framing::WebSocket) => &WEBSOCKET_5,
        (_, Framing::Plain) => &PLAIN_3,
        (_, Framing::WebSocket) => &WEBSOCKET_3,
    }
}

impl Encoder for MqttEncoder {
    fn name(&self) -> &'static str {
        self.name
    }

    fn encode(
        &self,
        publication: &Publication,
        options: &FrameOptions<'_>,
        out: &mut BytesMut,
    ) -> Result<usize, Unencodable> {
        let start = out.len();
        let properties = if self.version.has_properties() {
            properties(publication.properties.as_deref(), options).map_err(|_| Unencodable)?
        } else {
            PropertiesBuffer::new()
        };
        let topic = match options.alias {
            Some(alias) if !alias.is_new => "",
            _ => publication.topic.as_str(),
        };
        let publish = Publish {
            dup: options.dup,
            qos: options.qos,
            retain: options.retain,
            topic,
            packet_id: options.packet_id,
            properties: properties.as_properties(),
            payload: &publication.payload,
        };
        if self.framing == Framing::WebSocket {
            let length = publish.encoded_length(self.version);
            websocket::put_header(out, websocket::Opcode::Binary, length);
        }
        let header = out.len() - start;
        let Ok(packet_id_at) = publish.encode(self.version, out) else {
            out.truncate(start);
            return Err(Unencodable);
        };
        Ok(header + packet_id_at)
    }

    fn encode_release(&self, packet_id: NonZeroU16, out: &mut BytesMut) {
        self.framing.put(out, |out| {
            // An identifier alone always fits.
            let _ = Ack::success(packet_id).encode(PacketType::Pubrel, self.version, out);
        });
    }
}

/// The properties of a delivery: the publication's, then the delivery's own.
fn properties(
    carried: Option<&MessageProperties>,
    options: &FrameOptions<'_>,
) -> Result<PropertiesBuffer, EncodeError> {
    let mut buffer = PropertiesBuffer::new();
    if let Some(seconds) = options.expiry_seconds {
        buffer.push(&Property::MessageExpiryInterval(seconds))?; // [MQTT-3.3.2-6]
    }
    if let Some(alias) = options.alias {
        buffer.push(&Property::TopicAlias(alias.number))?;
    }
    for &identifier in options.identifiers {
        buffer.push(&Property::SubscriptionIdentifier(identifier))?; // [MQTT-3.3.4-3]
    }
    let Some(carried) = carried else {
        return Ok(buffer);
    };
    if let Some(is_text) = carried.payload_is_text {
        buffer.push(&Property::PayloadFormatIndicator(is_text))?;
    }
    if let Some(content_type) = &carried.content_type {
        buffer.push(&Property::ContentType(content_type))?;
    }
    if let Some(response_topic) = &carried.response_topic {
        buffer.push(&Property::ResponseTopic(response_topic))?; // [MQTT-3.3.2-15]
    }
    if let Some(correlation_data) = &carried.correlation_data {
        buffer.push(&Property::CorrelationData(correlation_data))?; // [MQTT-3.3.2-16]
    }
    for (name, value) in &carried.user {
        buffer.push(&Property::UserProperty((name, value)))?; // [MQTT-3.3.2-17]
    }
    Ok(buffer)
}

/// The properties of a publication that the client sent; `None` where there are none.
pub(super) fn carried(properties: Properties<'_>) -> Option<Box<MessageProperties>> {
    if properties.is_empty() {
        return None;
    }
    let mut carried = MessageProperties::default();
    for property in properties.iter() {
        match property {
            Property::PayloadFormatIndicator(is_text) => carried.payload_is_text = Some(is_text),
            Property::MessageExpiryInterval(seconds) => carried.expiry_seconds = Some(seconds),
            Property::ContentType(text) => carried.content_type = Some(text.to_owned()),
            Property::ResponseTopic(topic) => carried.response_topic = Some(topic.to_owned()),
            Property::CorrelationData(data) => {
                carried.correlation_data = Some(bytes::Bytes::copy_from_slice(data));
            }
            Property::UserProperty((name, value)) => {
                carried.user.push((name.to_owned(), value.to_owned()));
            }
            _ => {}
        }
    }
    (!carried.is_empty()).then(|| Box::new(carried))
}
