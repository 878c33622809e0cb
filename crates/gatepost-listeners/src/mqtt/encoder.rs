//! Publications as MQTT packets: one encoder for each version and framing.

use std::num::NonZeroU16;

use bytes::BytesMut;
use gatepost_broker::{Encoder, FrameOptions, Unencodable, WireFormat};
use gatepost_message::{Properties, Publication};
use gatepost_mqtt::{Ack, EncodeError, PacketType, PropertiesBuffer, Property, Publish, Version};

use crate::websocket;

/// The framing of packets on the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// Packets follow each other without framing.
    Plain,
    /// Each packet is in a binary WebSocket frame.
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
pub(super) fn format(version: Version, framing: Framing) -> WireFormat {
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
    carried: Option<&Properties>,
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
    if let Some(carried) = carried {
        buffer.push_carried(carried)?;
    }
    Ok(buffer)
}
