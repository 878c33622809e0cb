//! MQTT 3.1.1 and 5, by the codec.

use bytes::BytesMut;
use gatepost_message::Qos;
use gatepost_mqtt::{
    Ack, Connect, Filter, Frame, Packet, PacketId, PacketProperties, PacketType, Publish,
    Subscribe, SubscriptionOptions, Version, decode_next,
};

use super::{AckPacket, PacketEvent, ReaderStep};

/// Longer than any run, so that no client needs to ping. 0 would disable it, but rumqttd refuses 0.
const KEEP_ALIVE_SECONDS: u16 = u16::MAX;

/// The maximum length of a packet; a longer one is an error of the broker.
const PACKET_MAX_BYTES: usize = 64 * 1024 * 1024;

fn append(packet: &Packet<'_>, version: Version, out: &mut Vec<u8>) {
    let mut bytes = BytesMut::new();
    packet
        .encode(version, &mut bytes)
        .expect("what the generator sends fits the protocol's limits");
    out.extend_from_slice(&bytes);
}

pub(super) fn login(
    version: Version,
    client_id: &str,
    login: Option<(&str, Option<&str>)>,
    out: &mut Vec<u8>,
) {
    let connect = Connect {
        version,
        clean_start: true,
        keep_alive_seconds: KEEP_ALIVE_SECONDS,
        properties: PacketProperties::EMPTY,
        client_id,
        will: None,
        user_name: login.map(|(user, _)| user),
        password: login.and_then(|(_, password)| password).map(str::as_bytes),
    };
    append(&Packet::Connect(connect), version, out);
}

pub(super) fn subscribe(
    version: Version,
    topic: &str,
    number: PacketId,
    qos: Qos,
    out: &mut Vec<u8>,
) {
    let filter = Filter {
        text: topic,
        options: SubscriptionOptions::at(qos),
    };
    let subscribe = Subscribe {
        packet_id: number,
        properties: PacketProperties::EMPTY,
        filters: std::iter::once(filter).collect(),
    };
    append(&Packet::Subscribe(subscribe), version, out);
}

pub(super) fn publish(
    version: Version,
    topic: &str,
    payload: &[u8],
    (qos, packet_id): (Qos, Option<PacketId>),
    out: &mut Vec<u8>,
) {
    let publish = Publish {
        dup: false,
        qos,
        retain: false,
        topic,
        packet_id,
        properties: PacketProperties::EMPTY,
        payload,
    };
    append(&Packet::Publish(publish), version, out);
}

/// An acknowledgement without reason, which both versions write the same way.
pub(super) fn acknowledge(ack: AckPacket, out: &mut Vec<u8>) {
    let [high, low] = ack.packet_id.get().to_be_bytes();
    out.extend_from_slice(&[ack.packet_type.first_byte(), 2, high, low]);
}

#[inline]
pub(super) fn next(version: Version, bytes: &[u8]) -> Result<ReaderStep<'_>, String> {
    match Frame::split(bytes, PACKET_MAX_BYTES) {
        Ok(Some(frame)) => {
            if let Some(publication) = plain_publication(version, &frame) {
                return Ok(ReaderStep::Event(publication, frame.length));
            }
        }
        Ok(None) => return Ok(ReaderStep::More(0)),
        Err(error) => return Err(error.to_string()),
    }
    let decoded =
        decode_next(version, bytes, PACKET_MAX_BYTES).map_err(|error| error.to_string())?;
    let Some((packet, length)) = decoded else {
        return Ok(ReaderStep::More(0));
    };
    let event = match packet {
        Packet::Publish(publish) => PacketEvent::Publication {
            payload: publish.payload,
            answer: publish.packet_id.map(|packet_id| AckPacket {
                packet_type: match publish.qos {
                    Qos::ExactlyOnce => PacketType::Pubrec,
                    Qos::AtMostOnce | Qos::AtLeastOnce => PacketType::Puback,
                },
                packet_id,
            }),
        },
        Packet::Connack(connack) if connack.reason.is_error() => {
            PacketEvent::Refused(format!("CONNACK {:?}", connack.reason))
        }
        Packet::Connack(_) => PacketEvent::Ready,
        Packet::Suback(suback) => PacketEvent::Subscribed {
            granted: !suback.reasons.iter().any(|reason| reason.is_error()),
        },
        Packet::Puback(ack) | Packet::Pubcomp(ack) if !ack.reason.is_error() => {
            let packet_id = Some(ack.packet_id);
            PacketEvent::Acknowledged { packet_id }
        }
        Packet::Pubrec(ack) if !ack.reason.is_error() => answer(PacketType::Pubrel, ack),
        Packet::Pubrel(ack) => answer(PacketType::Pubcomp, ack),
        // A refused publication stays unacknowledged.
        Packet::Disconnect(outcome) => return Err(format!("DISCONNECT {outcome:?}")),
        _ => PacketEvent::Other,
    };
    Ok(ReaderStep::Event(event, length))
}

const fn answer(packet_type: PacketType, to: Ack<'_>) -> PacketEvent<'static> {
    PacketEvent::Answer(AckPacket {
        packet_type,
        packet_id: to.packet_id,
    })
}

/// The payload of a publication at QoS 0 without properties, found by lengths alone. The codec's
/// tests check the validity of topics: a generator that checks each delivery again costs more than
/// the servers that it measures.
#[inline]
fn plain_publication<'a>(version: Version, frame: &Frame<'a>) -> Option<PacketEvent<'a>> {
    const QOS: u8 = 0b0110;
    if frame.header.packet_type != PacketType::Publish || frame.header.flags & QOS != 0 {
        return None;
    }
    let (topic_bytes, rest) = frame.body.split_first_chunk()?;
    let rest = rest.get(usize::from(u16::from_be_bytes(*topic_bytes))..)?;
    let payload = if version.has_properties() {
        rest.strip_prefix(&[0])?
    } else {
        rest
    };
    Some(PacketEvent::Publication {
        payload,
        answer: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_publication_is_taken_whole_or_not_at_all() {
        for version in [Version::Mqtt311, Version::Mqtt5] {
            let mut bytes = Vec::new();
            let unnumbered = (Qos::AtMostOnce, None);
            publish(version, "bench/1", b"hello", unnumbered, &mut bytes);
            let length = bytes.len();
            for cut in 0..length {
                assert_eq!(
                    next(version, &bytes[..cut]),
                    Ok(ReaderStep::More(0)),
                    "{cut}"
                );
            }
            bytes.extend_from_slice(b"\xd0\x00");
            let event = PacketEvent::Publication {
                payload: b"hello",
                answer: None,
            };
            assert_eq!(next(version, &bytes), Ok(ReaderStep::Event(event, length)));
        }
        assert!(next(Version::Mqtt311, b"\x30\x03\x00\x09a").is_err());
        assert!(next(Version::Mqtt311, b"\x00\x00").is_err());
    }

    fn one(version: Version, bytes: &[u8]) -> PacketEvent<'_> {
        match next(version, bytes) {
            Ok(ReaderStep::Event(event, length)) if length == bytes.len() => event,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_packet_of_an_exchange_is_answered_with_the_next() {
        let packet_id = PacketId::new(7).expect("not zero");
        for version in [Version::Mqtt311, Version::Mqtt5] {
            for (qos, packet_type) in [
                (Qos::AtLeastOnce, PacketType::Puback),
                (Qos::ExactlyOnce, PacketType::Pubrec),
            ] {
                let mut bytes = Vec::new();
                let numbered = (qos, Some(packet_id));
                publish(version, "bench/1", b"again", numbered, &mut bytes);
                let ack = AckPacket {
                    packet_type,
                    packet_id,
                };
                let event = PacketEvent::Publication {
                    payload: b"again",
                    answer: Some(ack),
                };
                assert_eq!(one(version, &bytes), event);
                let mut exchange = vec![ack];
                let last = loop {
                    let mut bytes = Vec::new();
                    acknowledge(exchange[exchange.len() - 1], &mut bytes);
                    match one(version, &bytes) {
                        PacketEvent::Answer(next) => exchange.push(next),
                        event => break format!("{event:?}"),
                    }
                };
                let acknowledged = PacketEvent::Acknowledged {
                    packet_id: Some(packet_id),
                };
                assert_eq!(last, format!("{acknowledged:?}"));
                assert_eq!(exchange.len(), if qos == Qos::AtLeastOnce { 1 } else { 3 });
            }
        }
        // A refusal is no acknowledgement: PUBACK and PUBREC with "quota exceeded".
        assert_eq!(
            one(Version::Mqtt5, b"\x40\x03\0\x07\x97"),
            PacketEvent::Other
        );
        assert_eq!(
            one(Version::Mqtt5, b"\x50\x03\0\x07\x97"),
            PacketEvent::Other
        );
    }
}
