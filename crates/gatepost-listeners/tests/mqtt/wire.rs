//! A client that sends and reads bare packets.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bytes::BytesMut;
use gatepost_message::Qos;
use gatepost_mqtt::{Connect, Frame, Packet, PacketProperties, Version};

/// A generous limit for packets that must arrive; a correct server never reaches it.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) struct Wire {
    stream: TcpStream,
    pub(crate) version: Version,
    buffer: Vec<u8>,
}

/// A CONNECT to begin with.
pub(crate) fn plain_connect(version: Version, client_id: &str) -> Connect<'_> {
    Connect {
        version,
        clean_start: true,
        keep_alive_seconds: 60,
        properties: PacketProperties::EMPTY,
        client_id,
        will: None,
        user_name: None,
        password: None,
    }
}

impl Wire {
    pub(crate) fn open(address: SocketAddr, version: Version) -> Self {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream.set_nodelay(true).expect("a socket");
        Self {
            stream,
            version,
            buffer: Vec::new(),
        }
    }

    /// Connects as `client_id`, and takes the CONNACK.
    pub(crate) fn connected(address: SocketAddr, version: Version, client_id: &str) -> Self {
        let mut wire = Self::open(address, version);
        wire.send(&Packet::Connect(plain_connect(version, client_id)));
        let connack = wire.receive().expect("a CONNACK");
        assert_eq!((connack[0], connack[3]), (0x20, 0), "refused: {connack:x?}");
        wire
    }

    pub(crate) fn send(&mut self, packet: &Packet<'_>) {
        let mut out = BytesMut::new();
        packet
            .encode(self.version, &mut out)
            .expect("it can be written");
        self.send_bytes(&out);
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        // The server may have ended the connection already; the test will see that.
        let _ = self.stream.write_all(bytes);
    }

    /// The bytes of the next packet; `None` at the end of the connection.
    pub(crate) fn receive(&mut self) -> Option<Vec<u8>> {
        self.try_receive().expect("a packet or the end, in time")
    }

    /// As [`Wire::receive`], or `None` if nothing arrives in time.
    #[allow(clippy::option_option)] // a packet, the end, or nothing: three cases
    pub(crate) fn try_receive(&mut self) -> Option<Option<Vec<u8>>> {
        loop {
            if let Some(frame) = Frame::split(&self.buffer, usize::MAX).expect("valid frames") {
                let rest = self.buffer.split_off(frame.length);
                return Some(Some(std::mem::replace(&mut self.buffer, rest)));
            }
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes) {
                Ok(0) => return Some(None),
                Ok(count) => self.buffer.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Some(None),
                Err(_) => return None,
            }
        }
    }

    /// The next packet, passed to `look`.
    pub(crate) fn expect<T>(&mut self, look: impl FnOnce(Packet<'_>) -> T) -> T {
        let bytes = self.receive().expect("a packet, not the end");
        let frame = Frame::split(&bytes, usize::MAX)
            .expect("valid")
            .expect("whole");
        look(Packet::decode(self.version, frame).expect("a valid packet"))
    }

    /// Whether the server closes the connection; packets before the end are skipped.
    pub(crate) fn is_closed(&mut self) -> bool {
        while self.receive().is_some() {}
        true
    }

    /// Whether the server answers a PINGREQ next.
    pub(crate) fn is_alive(&mut self) -> bool {
        self.send(&Packet::Pingreq);
        self.receive().as_deref() == Some(&[0xD0, 0])
    }

    /// Subscribes to one filter and takes the SUBACK.
    pub(crate) fn subscribe(&mut self, filter: &str, qos: Qos) {
        let options = gatepost_mqtt::SubscriptionOptions::at(qos);
        self.subscribe_with(filter, options, PacketProperties::EMPTY);
    }

    pub(crate) fn subscribe_with(
        &mut self,
        text: &str,
        options: gatepost_mqtt::SubscriptionOptions,
        properties: PacketProperties<'_>,
    ) {
        let packet_id = gatepost_mqtt::PacketId::new(77).expect("not zero");
        self.send(&Packet::Subscribe(gatepost_mqtt::Subscribe {
            packet_id,
            properties,
            filters: [gatepost_mqtt::Filter { text, options }]
                .into_iter()
                .collect(),
        }));
        self.expect(|packet| match packet {
            Packet::Suback(suback) => {
                assert_eq!(suback.packet_id, packet_id);
                assert!(!suback.reasons[0].is_error(), "{}", suback.reasons[0]);
            }
            other => panic!("not a SUBACK: {other:?}"),
        });
    }

    pub(crate) fn publish(&mut self, topic: &str, payload: &[u8], qos: Qos, retain: bool) {
        self.publish_as(false, topic, payload, qos, retain);
    }

    /// The same publication again.
    pub(crate) fn publish_again(&mut self, topic: &str, payload: &[u8], qos: Qos, retain: bool) {
        self.publish_as(true, topic, payload, qos, retain);
    }

    fn publish_as(&mut self, dup: bool, topic: &str, payload: &[u8], qos: Qos, retain: bool) {
        self.send(&Packet::Publish(gatepost_mqtt::Publish {
            dup,
            qos,
            retain,
            topic,
            packet_id: (qos != Qos::AtMostOnce)
                .then(|| gatepost_mqtt::PacketId::new(88).expect("not zero")),
            properties: PacketProperties::EMPTY,
            payload,
        }));
    }
}
