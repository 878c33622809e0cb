//! Every packet that can be encoded decodes to itself; invalid bytes are refused without a panic.

use bytes::BytesMut;
use gatepost_message::Qos;
use gatepost_mqtt::*;
use proptest::prelude::*;

const SIZE_MAX: usize = 1 << 20;

fn any_version() -> impl Strategy<Value = Version> {
    prop_oneof![
        Just(Version::Mqtt31),
        Just(Version::Mqtt311),
        Just(Version::Mqtt5)
    ]
}

fn any_qos() -> impl Strategy<Value = Qos> {
    prop_oneof![
        Just(Qos::AtMostOnce),
        Just(Qos::AtLeastOnce),
        Just(Qos::ExactlyOnce)
    ]
}

fn any_packet_id() -> impl Strategy<Value = PacketId> {
    (1_u16..).prop_map(|id| PacketId::new(id).expect("not zero"))
}

fn any_user_properties() -> impl Strategy<Value = Vec<(String, String)>> {
    prop::collection::vec(("[a-zé]{0,8}", "[a-z ☃]{0,200}"), 0..4)
}

fn buffer(user: &[(String, String)], others: &[Property<'_>]) -> PropertiesBuffer {
    let mut buffer = PropertiesBuffer::new();
    for property in others {
        buffer.push(property).expect("short");
    }
    for (name, value) in user {
        buffer
            .push(&Property::UserProperty((name, value)))
            .expect("short");
    }
    buffer
}

/// Encodes, decodes and compares a packet; also decodes every truncation of it.
fn check(version: Version, packet: &Packet<'_>) -> Result<(), TestCaseError> {
    let mut out = BytesMut::new();
    packet.encode(version, &mut out).expect("it can be written");
    let (read, length) = decode_next(version, &out, SIZE_MAX)
        .expect("what we write is valid")
        .expect("and whole");
    // Compared as text, since the lists in packets tie the lifetimes of both sides together.
    prop_assert_eq!(format!("{read:?}"), format!("{packet:?}"));
    prop_assert_eq!(length, out.len());
    for cut in 0..out.len().min(300) {
        prop_assert_eq!(decode_next(version, &out[..cut], SIZE_MAX), Ok(None));
    }
    Ok(())
}

proptest! {
    #[test]
    fn publish_returns(
        version in any_version(), qos in any_qos(), retain: bool, dup: bool,
        topic in "[a-z/ü]{1,40}", id in any_packet_id(), user in any_user_properties(),
        payload in prop::collection::vec(any::<u8>(), 0..400), expiry: u32, alias in 1_u16..,
    ) {
        let properties = buffer(&user, &[
            Property::MessageExpiryInterval(expiry),
            Property::TopicAlias(alias),
            Property::CorrelationData(&payload),
            Property::SubscriptionIdentifier(1 + expiry % 268_435_455),
            Property::SubscriptionIdentifier(1),
        ]);
        let publish = Publish {
            dup: dup && qos != Qos::AtMostOnce,
            qos,
            retain,
            topic: &topic,
            packet_id: (qos != Qos::AtMostOnce).then_some(id),
            properties: match version {
                Version::Mqtt5 => properties.as_properties(),
                _ => PacketProperties::EMPTY,
            },
            payload: &payload,
        };
        let mut out = BytesMut::new();
        let at = publish.encode(version, &mut out).expect("it can be written");
        prop_assert_eq!(out.len(), publish.encoded_length(version));
        if qos != Qos::AtMostOnce {
            prop_assert_eq!(&out[at..at + 2], &id.get().to_be_bytes());
        }
        check(version, &Packet::Publish(publish))?;
    }

    #[test]
    fn connect_returns(
        version in any_version(), clean_start: bool, keep_alive_seconds: u16,
        client_id in "[a-z0-9]{0,30}", user in any_user_properties(),
        will in prop::option::of(("[a-z/]{1,20}", any_qos(), any::<bool>())),
        login in prop::option::of(("[a-z]{0,9}", prop::option::of("[a-z]{0,9}"))),
    ) {
        let properties = buffer(&user, &[
            Property::SessionExpiryInterval(7),
            Property::ReceiveMaximum(9),
            Property::RequestProblemInformation(false),
        ]);
        let list = [Property::WillDelayInterval(3), Property::ContentType("a/b")];
        let list = buffer(&user, &list);
        let has_properties = version == Version::Mqtt5;
        let will_properties = if has_properties {
            list.as_properties()
        } else {
            PacketProperties::EMPTY
        };
        let connect = Connect {
            version,
            clean_start,
            keep_alive_seconds,
            properties: if has_properties {
                properties.as_properties()
            } else {
                PacketProperties::EMPTY
            },
            client_id: &client_id,
            will: will.as_ref().map(|(topic, qos, retain)| Will {
                topic, payload: b"gone", qos: *qos, retain: *retain,
                properties: will_properties,
            }),
            user_name: login.as_ref().map(|(name, _)| name.as_str()),
            password: login
                .as_ref()
                .and_then(|(_, password)| password.as_deref())
                .map(str::as_bytes),
        };
        check(version, &Packet::Connect(connect))?;
    }

    #[test]
    fn subscribe_and_its_answers_return(
        version in any_version(), packet_id in any_packet_id(), user in any_user_properties(),
        texts in prop::collection::vec("[a-z/+#]{1,30}", 1..9), qos in any_qos(),
        no_local: bool, retain_as_published: bool, retain_handling in 0_u8..3,
    ) {
        let has_properties = version == Version::Mqtt5;
        let list = buffer(&user, &[]);
        let properties = if has_properties {
            list.as_properties()
        } else {
            PacketProperties::EMPTY
        };
        let options = if has_properties {
            SubscriptionOptions { qos, no_local, retain_as_published, retain_handling }
        } else {
            SubscriptionOptions::at(qos)
        };
        let filters = texts.iter().map(|text| Filter { text, options }).collect();
        check(version, &Packet::Subscribe(Subscribe { packet_id, properties, filters }))?;
        let filters = texts.iter().map(String::as_str).collect();
        check(version, &Packet::Unsubscribe(Unsubscribe { packet_id, properties, filters }))?;
        let reasons = texts.iter().map(|_| Reason(qos.level())).collect();
        check(version, &Packet::Suback(Suback { packet_id, properties, reasons }))?;
        let reasons = texts.iter().filter(|_| has_properties).map(|_| Reason::SUCCESS).collect();
        check(version, &Packet::Unsuback(Suback { packet_id, properties, reasons }))?;
    }

    #[test]
    fn answers_return(
        packet_id in any_packet_id(),
        user in any_user_properties(),
        session_present: bool,
    ) {
        let list = buffer(&user, &[Property::ReasonString("why")]);
        let versions = [
            (Version::Mqtt5, list.as_properties()),
            (Version::Mqtt311, PacketProperties::EMPTY),
        ];
        for (version, properties) in versions {
            let v5 = version == Version::Mqtt5;
            let ack = |code: Reason| Ack {
                packet_id,
                properties,
                reason: if v5 { code } else { Reason::SUCCESS },
            };
            check(version, &Packet::Puback(ack(Reason::QUOTA_EXCEEDED)))?;
            check(version, &Packet::Pubrec(ack(Reason::NO_MATCHING_SUBSCRIBERS)))?;
            check(version, &Packet::Pubrel(ack(Reason::PACKET_IDENTIFIER_NOT_FOUND)))?;
            check(version, &Packet::Pubcomp(ack(Reason::SUCCESS)))?;
            let reason = Reason::NOT_AUTHORIZED;
            let connack = Connack { session_present, reason, properties };
            check(version, &Packet::Connack(connack))?;
            let reason = if v5 { Reason::SESSION_TAKEN_OVER } else { Reason::SUCCESS };
            check(version, &Packet::Disconnect(ReasonedPacket { reason, properties }))?;
            check(version, &Packet::Pingreq)?;
            check(version, &Packet::Pingresp)?;
        }
        let reason = Reason::CONTINUE_AUTHENTICATION;
        let packet = ReasonedPacket { reason, properties: list.as_properties() };
        check(Version::Mqtt5, &Packet::Auth(packet))?;
    }

    #[test]
    fn any_bytes_are_read_or_refused(
        version in any_version(),
        bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        if let Ok(Some((packet, length))) = decode_next(version, &bytes, SIZE_MAX) {
            prop_assert!(length <= bytes.len());
            let mut out = BytesMut::new();
            let version = match &packet {
                Packet::Connect(connect) => connect.version,
                _ => version,
            };
            packet.encode(version, &mut out).expect("what was read can be written");
            let decoded = decode_next(version, &out, SIZE_MAX).expect("and read");
            let (again, _) = decoded.expect("whole");
            prop_assert_eq!(format!("{again:?}"), format!("{packet:?}"));
        }
    }
}
