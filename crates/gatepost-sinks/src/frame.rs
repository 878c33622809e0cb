//! Publications as the broker passes them to a sink: the message's id, then the PUBLISH packet of
//! MQTT 5. So a sink reads the same packets as any subscriber, and also knows the message's id.

use std::num::NonZeroU16;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use gatepost_broker::{Encoder, FrameOptions, Unencodable, WireFormat};
use gatepost_message::{MessageId, Properties, Publication, Qos};
use gatepost_mqtt::{
    Ack, EncodeError, Frame, Packet, PacketId, PacketType, PropertiesBuffer, Property, Publish,
    Version,
};
use tokio::time::Instant;

/// The message's id in front of each packet; 0 before a release.
const ID_BYTES: usize = 8;

/// The format of all sinks.
pub(crate) const FORMAT: WireFormat = WireFormat::Static(&SinkEncoder);

struct SinkEncoder;

impl Encoder for SinkEncoder {
    fn name(&self) -> &'static str {
        "sink"
    }

    fn encode(
        &self,
        publication: &Publication,
        options: &FrameOptions<'_>,
        out: &mut BytesMut,
    ) -> Result<usize, Unencodable> {
        let start = out.len();
        let properties = properties(publication, options).map_err(|_| Unencodable)?;
        let publish = Publish {
            dup: options.dup,
            qos: options.qos,
            retain: options.retain,
            topic: publication.topic.as_str(),
            packet_id: options.packet_id,
            properties: properties.as_properties(),
            payload: &publication.payload,
        };
        out.put_u64(publication.id.number());
        let Ok(packet_id_at) = publish.encode(Version::Mqtt5, out) else {
            out.truncate(start);
            return Err(Unencodable);
        };
        Ok(ID_BYTES + packet_id_at)
    }

    fn encode_release(&self, packet_id: NonZeroU16, out: &mut BytesMut) {
        out.put_u64(0);
        // An identifier alone always fits.
        let _ = Ack::success(packet_id).encode(PacketType::Pubrel, Version::Mqtt5, out);
    }
}

fn properties(
    publication: &Publication,
    options: &FrameOptions<'_>,
) -> Result<PropertiesBuffer, EncodeError> {
    let mut buffer = PropertiesBuffer::new();
    if let Some(seconds) = options.expiry_seconds {
        buffer.push(&Property::MessageExpiryInterval(seconds))?;
    }
    if let Some(carried) = &publication.properties {
        buffer.push_carried(carried)?;
    }
    Ok(buffer)
}

/// A publication that is being sent to the destination.
#[derive(Debug, Clone)]
pub(crate) struct SinkDelivery {
    /// The message's id.
    pub(crate) id: MessageId,
    pub(crate) topic: String,
    pub(crate) payload: Bytes,
    pub(crate) properties: Properties,
    pub(crate) qos: Qos,
    pub(crate) retain: bool,
    /// Whether the message may have been passed on before.
    pub(crate) dup: bool,
    /// The identifier by which it is acknowledged; `None` at QoS 0.
    pub(crate) packet_id: Option<PacketId>,
    /// The moment at which the message expires, if it does.
    pub(crate) expires: Option<Instant>,
}

impl SinkDelivery {
    /// Whether the message has expired since the broker passed it on.
    pub(crate) fn has_expired(&self) -> bool {
        self.expires
            .is_some_and(|expires| expires <= Instant::now())
    }

    /// The seconds until the message expires; `None` if it does not.
    pub(crate) fn seconds_left(&self) -> Option<u64> {
        let left = |expires: Instant| expires.saturating_duration_since(Instant::now());
        // A second that has begun counts.
        let seconds = |expires| left(expires).as_millis().div_ceil(1_000) as u64;
        self.expires.map(seconds)
    }
}

/// The frames that the broker passes to a sink.
#[derive(Debug)]
pub(crate) enum SinkFrame {
    Delivery(Box<SinkDelivery>),
    /// A QoS 2 delivery that the destination has received must be released.
    Release(PacketId),
}

/// The bytes are not a valid frame: the sink's session must be opened again.
#[derive(Debug, thiserror::Error)]
#[error("a frame of the sink's own cannot be read")]
pub(crate) struct MalformedFrame;

fn delivery(id: MessageId, publish: &Publish<'_>) -> SinkDelivery {
    let properties = publish.properties.carried();
    let properties = properties.map_or_else(Default::default, |properties| *properties);
    let expiry = properties.expiry_seconds.map(u64::from);
    SinkDelivery {
        id,
        topic: publish.topic.to_owned(),
        // Copied: a delivery may wait for hours between attempts, and a slice would keep all of the
        // bytes that were read together with it.
        payload: Bytes::copy_from_slice(publish.payload),
        properties,
        qos: publish.qos,
        retain: publish.retain,
        dup: publish.dup,
        packet_id: publish.packet_id,
        expires: expiry.map(|seconds| Instant::now() + Duration::from_secs(seconds)),
    }
}

/// Removes the first frame from `bytes`; `None` if it is not complete.
pub(crate) fn take_frame(bytes: &mut BytesMut) -> Result<Option<SinkFrame>, MalformedFrame> {
    let Some((mut id, packet)) = bytes.split_at_checked(ID_BYTES) else {
        return Ok(None);
    };
    let id = MessageId::from_number(id.get_u64());
    let frame = Frame::split(packet, usize::MAX).map_err(|_| MalformedFrame)?;
    let Some(frame) = frame else {
        return Ok(None);
    };
    let length = ID_BYTES + frame.length;
    let handed = match Packet::decode(Version::Mqtt5, frame).map_err(|_| MalformedFrame)? {
        Packet::Publish(publish) => SinkFrame::Delivery(Box::new(delivery(id, &publish))),
        Packet::Pubrel(ack) => SinkFrame::Release(ack.packet_id),
        _ => return Err(MalformedFrame),
    };
    bytes.advance(length);
    Ok(Some(handed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gatepost_message::Topic;

    #[test]
    fn written_frames_are_read_with_their_id() {
        let topic = Topic::new("alarms/fire").expect("a topic");
        let mut publication = Publication::new(topic, "smoke");
        publication.properties = Some(Box::new(Properties {
            content_type: Some("text/plain".to_owned()),
            user: vec![("priority".to_owned(), "5".to_owned())],
            ..Properties::default()
        }));
        let options = FrameOptions {
            qos: Qos::AtLeastOnce,
            packet_id: NonZeroU16::new(7),
            expiry_seconds: Some(60),
            ..FrameOptions::default()
        };
        let mut bytes = BytesMut::new();
        FORMAT
            .encode(&publication, &options, &mut bytes)
            .expect("written");
        FORMAT.encode_release(NonZeroU16::MIN, &mut bytes);
        for cut in 0..bytes.len() - 12 {
            assert!(
                take_frame(&mut BytesMut::from(&bytes[..cut]))
                    .expect("a part")
                    .is_none()
            );
        }
        let Ok(Some(SinkFrame::Delivery(delivery))) = take_frame(&mut bytes) else {
            panic!("a delivery");
        };
        assert_eq!(delivery.id, publication.id);
        assert_eq!(&delivery.payload[..], b"smoke");
        assert_eq!(delivery.properties.user_property("priority"), Some("5"));
        assert_eq!(delivery.properties.expiry_seconds, Some(60));
        assert_eq!(delivery.seconds_left(), Some(60));
        assert!(!delivery.has_expired());
        assert!(matches!(
            take_frame(&mut bytes),
            Ok(Some(SinkFrame::Release(_)))
        ));
        assert!(bytes.is_empty());
        assert!(take_frame(&mut BytesMut::from(&[0_u8; 20][..])).is_err());
    }
}
