//! Publications as MQTT packets: one encoder for each version and framing.

use std::num::NonZeroU16;
use std::sync::Arc;

use bytes::BytesMut;
use gatepost_broker::{Encoder, FrameOptions, Unencodable, WireFormat};
use gatepost_message::{Properties, Publication};
use gatepost_mqtt::{Ack, EncodeError, PacketType, PropertiesBuffer, Property, Publish, Version};

use crate::mount::MountPrefix;
use crate::websocket;

/// The framing of packets on the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PacketFraming {
    /// Packets follow each other without framing.
    Plain,
    /// Each packet is in a binary WebSocket frame.
    WebSocket,
}

impl PacketFraming {
    /// Appends what `write` appends, framed.
    pub(super) fn put<T>(self, out: &mut BytesMut, write: impl FnOnce(&mut BytesMut) -> T) -> T {
        match self {
            Self::Plain => write(out),
            Self::WebSocket => websocket::put_framed(out, write),
        }
    }

    /// The length of the longest frame of a client that accepts packets of this length.
    pub(super) fn frame_bytes_max(self, packet_bytes_max: Option<u32>) -> Option<u32> {
        let packet_bytes_max = packet_bytes_max?;
        let header = match self {
            Self::Plain => 0,
            Self::WebSocket => websocket::header_length(packet_bytes_max as usize),
        };
        Some(packet_bytes_max.saturating_add(header as u32))
    }
}

struct MqttEncoder {
    name: &'static str,
    version: Version,
    framing: PacketFraming,
}

static PLAIN_3: MqttEncoder = MqttEncoder {
    name: "mqtt 3.1.1",
    version: Version::Mqtt311,
    framing: PacketFraming::Plain,
};
static PLAIN_5: MqttEncoder = MqttEncoder {
    name: "mqtt 5",
    version: Version::Mqtt5,
    framing: PacketFraming::Plain,
};
static WEBSOCKET_3: MqttEncoder = MqttEncoder {
    name: "mqtt 3.1.1 in websocket",
    version: Version::Mqtt311,
    framing: PacketFraming::WebSocket,
};
static WEBSOCKET_5: MqttEncoder = MqttEncoder {
    name: "mqtt 5 in websocket",
    version: Version::Mqtt5,
    framing: PacketFraming::WebSocket,
};

/// The format of a connection. 3.1 and 3.1.1 write publications alike.
fn encoder(version: Version, framing: PacketFraming) -> &'static MqttEncoder {
    match (version, framing) {
        (Version::Mqtt5, PacketFraming::Plain) => &PLAIN_5,
        (Version::Mqtt5, PacketFraming::WebSocket) => &WEBSOCKET_5,
        (_, PacketFraming::Plain) => &PLAIN_3,
        (_, PacketFraming::WebSocket) => &WEBSOCKET_3,
    }
}

/// A format that removes the prefix of a user's topics. Connections of one user share bytes,
/// because their formats have equal names.
struct MountedEncoder {
    name: String,
    inner: &'static MqttEncoder,
    mount: MountPrefix,
}

/// The format of a connection whose client's topics may have a prefix.
///
/// A format with a prefix belongs to its connection and ends with it: names of users may come from
/// an issuer of tokens, so a table of all of them would have no bound.
pub(super) fn format(
    version: Version,
    framing: PacketFraming,
    mount: Option<&MountPrefix>,
) -> WireFormat {
    let inner = encoder(version, framing);
    let Some(mount) = mount else {
        return WireFormat::Static(inner);
    };
    WireFormat::Owned(Arc::new(MountedEncoder {
        name: format!("{} of {}", inner.name, mount.as_str()),
        inner,
        mount: mount.clone(),
    }))
}

impl Encoder for MountedEncoder {
    fn name(&self) -> &str {
        &self.name
    }

    fn encode(
        &self,
        publication: &Publication,
        options: &FrameOptions<'_>,
        out: &mut BytesMut,
    ) -> Result<usize, Unencodable> {
        let own = self.mount.own(publication.topic.as_str());
        let topic = own.ok_or(Unencodable)?;
        let carried = publication.properties.as_deref();
        let response = carried.and_then(|carried| carried.response_topic.as_ref());
        let changed = response.and(carried);
        let changed = changed.map(|carried| self.mount.own_properties(carried));
        let contents = PublishContents {
            topic,
            properties: changed.as_ref().or(carried),
            payload: &publication.payload,
        };
        self.inner.encode_contents(contents, options, out)
    }

    fn encode_release(&self, packet_id: NonZeroU16, out: &mut BytesMut) {
        self.inner.encode_release(packet_id, out);
    }
}

/// The contents of a publication, as one client receives them.
struct PublishContents<'a> {
    topic: &'a str,
    properties: Option<&'a Properties>,
    payload: &'a [u8],
}

impl MqttEncoder {
    fn encode_contents(
        &self,
        contents: PublishContents<'_>,
        options: &FrameOptions<'_>,
        out: &mut BytesMut,
    ) -> Result<usize, Unencodable> {
        let start = out.len();
        let properties = if self.version.has_properties() {
            properties(contents.properties, options).map_err(|_| Unencodable)?
        } else {
            PropertiesBuffer::new()
        };
        let topic = match options.alias {
            Some(alias) if !alias.is_new => "",
            _ => contents.topic,
        };
        let publish = Publish {
            dup: options.dup,
            qos: options.qos,
            retain: options.retain,
            topic,
            packet_id: options.packet_id,
            properties: properties.as_properties(),
            payload: contents.payload,
        };
        if self.framing == PacketFraming::WebSocket {
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
        let contents = PublishContents {
            topic: publication.topic.as_str(),
            properties: publication.properties.as_deref(),
            payload: &publication.payload,
        };
        self.encode_contents(contents, options, out)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_maximum_packet_size_does_not_count_the_header_of_the_frame() {
        for packet_max in [2_u32, 125, 126, 127, 65_535, 65_536, 65_537, u32::MAX] {
            let max_of = |framing: PacketFraming| framing.frame_bytes_max(Some(packet_max));
            assert_eq!(max_of(PacketFraming::Plain), Some(packet_max));
            let frame_max = max_of(PacketFraming::WebSocket).expect("a limit") as usize;
            let frame = |packet: u32| websocket::header_length(packet as usize) + packet as usize;
            assert!(frame(packet_max) <= frame_max || packet_max == u32::MAX);
            if let Some(larger) = packet_max.checked_add(1) {
                assert!(frame(larger) > frame_max, "{packet_max}");
            }
        }
    }
}
