//! Bridges to a broker of the test's own, which answers as the test wants.

use std::sync::Arc;

use bytes::{Buf, BytesMut};
use gatepost_broker::{Broker, BrokerSettings};
use gatepost_message::{Publication, Qos};
use gatepost_mqtt::{
    Ack, Connack, Frame, Packet, PacketId, PacketProperties, PropertiesBuffer, Property, Publish,
    Reason,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::*;
use crate::session::client_id;
use crate::settings::SinkSettings;
use crate::status::{SinkProgress, SinkStatus};

const VERSION: Version = Version::Mqtt5;

/// A running bridge and the port that it connects to.
struct BridgeTest {
    broker: Broker,
    progress: Arc<SinkProgress>,
    listener: TcpListener,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl BridgeTest {
    async fn start(change: impl FnOnce(&mut BridgeSettings)) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let mut bridge = BridgeSettings {
            address: format!("mqtt://127.0.0.1:{port}"),
            ..BridgeSettings::default()
        };
        change(&mut bridge);
        let mut settings = SinkSettings {
            name: "plant".to_owned(),
            bridge: Some(bridge.clone()),
            ..SinkSettings::default()
        };
        settings.retry.first = "1ms".parse().expect("a period");
        let broker = Broker::new(BrokerSettings::default());
        let progress: Arc<SinkProgress> = Arc::default();
        let (stop, stopped) = watch::channel(false);
        let running = RunningBridge {
            broker: broker.clone(),
            bridge: Bridge::new("plant", &bridge)
                .map_err(|mistake| mistake.reason)
                .expect("valid"),
            settings,
            progress: Arc::clone(&progress),
            dead_letter: None,
            stop: stopped,
        };
        let task = tokio::spawn(running.run());
        progress.until_opened().await;
        Self {
            broker,
            progress,
            listener,
            stop,
            task,
        }
    }

    /// The bridge's next connection, which was answered with these properties.
    async fn accept(&self, properties: &[Property<'_>]) -> OtherBroker {
        let (stream, _) = self.listener.accept().await.expect("a connection");
        let mut other = OtherBroker {
            stream,
            input: BytesMut::new(),
            bytes_max: None,
        };
        other.bytes_max =
            other
                .next(|packet| match packet {
                    Packet::Connect(connect) => Some(connect.properties.iter().find_map(
                        |property| match property {
                            Property::MaximumPacketSize(bytes) => Some(bytes),
                            _ => None,
                        },
                    )),
                    _ => None,
                })
                .await;
        let mut buffer = PropertiesBuffer::new();
        for property in properties {
            buffer.push(property).expect("written");
        }
        let connack = Connack {
            session_present: false,
            reason: Reason::SUCCESS,
            properties: buffer.as_properties(),
        };
        other.send(&Packet::Connack(connack)).await;
        other
    }

    async fn publish(&self, topic: &str, payload: &'static str, qos: Qos) {
        let topic = Topic::new(topic).expect("a topic");
        let mut publication = Publication::new(topic, payload);
        publication.qos = qos;
        self.broker.publish(publication).await.expect("published");
    }

    /// Stops the bridge.
    async fn end(self) {
        self.stop.send_replace(true);
        self.task.await.expect("ended");
    }

    fn status(&self) -> SinkStatus {
        let mut status = SinkStatus::default();
        self.progress.describe(&mut status);
        status.count_queue(&self.broker, &client_id("plant"));
        status
    }
}

/// Waits until the condition holds.
async fn until(what: &str, condition: impl Fn() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(30), waiting).await;
    waited.unwrap_or_else(|_| panic!("{what}"));
}

/// The other broker's end of a connection.
struct OtherBroker {
    stream: TcpStream,
    input: BytesMut,
    /// The Maximum Packet Size of the CONNECT.
    bytes_max: Option<u32>,
}

impl OtherBroker {
    async fn send(&mut self, packet: &Packet<'_>) {
        let mut out = BytesMut::new();
        packet.encode(VERSION, &mut out).expect("written");
        self.stream.write_all(&out).await.expect("sent");
    }

    /// The first packet from now on of which `pick` returns something.
    async fn next<T>(&mut self, pick: impl Fn(&Packet<'_>) -> Option<T>) -> T {
        loop {
            while let Some(frame) = Frame::split(&self.input, usize::MAX).expect("a frame") {
                let length = frame.length;
                let packet = Packet::decode(VERSION, frame).expect("a packet");
                let picked = pick(&packet);
                drop(packet);
                self.input.advance(length);
                if let Some(picked) = picked {
                    return picked;
                }
            }
            let count = self.stream.read_buf(&mut self.input).await.expect("bytes");
            assert_ne!(count, 0, "the bridge has closed the connection");
        }
    }

    /// Waits for a message, and returns its payload, QoS and identifier.
    async fn message(&mut self, topic: &str) -> (String, Qos, Option<PacketId>) {
        self.next(|packet| match packet {
            Packet::Publish(publish) if publish.topic == topic => Some((
                String::from_utf8_lossy(publish.payload).into_owned(),
                publish.qos,
                publish.packet_id,
            )),
            _ => None,
        })
        .await
    }

    /// Sends a message at QoS 2, and waits until the bridge has received it.
    async fn deliver_exactly_once(&mut self, packet_id: PacketId, payload: &[u8]) {
        self.send(&Packet::Publish(Publish {
            dup: false,
            qos: Qos::ExactlyOnce,
            retain: false,
            topic: "in/a",
            packet_id: Some(packet_id),
            properties: PacketProperties::EMPTY,
            payload,
        }))
        .await;
        self.next(|packet| match packet {
            Packet::Pubrec(ack) if ack.packet_id == packet_id => Some(()),
            _ => None,
        })
        .await;
    }
}

#[tokio::test]
async fn a_message_leaves_at_the_highest_qos_that_the_other_broker_accepts() {
    for (has_one, expected) in [(true, Qos::AtLeastOnce), (false, Qos::AtMostOnce)] {
        let test = BridgeTest::start(|bridge| bridge.topics = vec!["# out 2".to_owned()]).await;
        let mut other = test.accept(&[Property::MaximumQos(has_one)]).await;
        for payload in ["one", "two"] {
            test.publish("out/a", payload, Qos::ExactlyOnce).await;
            let (arrived, qos, packet_id) = other.message("out/a").await;
            assert_eq!((arrived.as_str(), qos), (payload, expected));
            assert_eq!(packet_id.is_some(), has_one);
            if let Some(packet_id) = packet_id {
                other.send(&Packet::Puback(Ack::success(packet_id))).await;
            }
        }
        let is_over = || test.status().delivered == 2 && test.status().queued == 0;
        until("both are delivered", is_over).await;
        assert_eq!((test.status().given_up, test.status().dropped), (0, 0));
        test.end().await;
    }
}

#[tokio::test]
async fn a_bridge_that_is_stopped_says_that_it_is_not_connected() {
    let test = BridgeTest::start(|bridge| {
        bridge.topics = vec!["# out 1".to_owned()];
        bridge.notification_topic = "bridges/plant".to_owned();
    })
    .await;
    let mut other = test.accept(&[]).await;
    assert_eq!(other.message("bridges/plant").await.0, "1");
    test.stop.send_replace(true);
    assert_eq!(other.message("bridges/plant").await.0, "0");
    test.end().await;
}

#[tokio::test]
async fn an_identifier_of_a_lost_session_is_that_of_another_message() {
    let test = BridgeTest::start(|bridge| bridge.topics = vec!["in/# in 2".to_owned()]).await;
    let mut other = test.accept(&[]).await;
    assert!(
        other.bytes_max.is_some(),
        "no message is refused again and again"
    );
    other.deliver_exactly_once(PacketId::MIN, b"one").await;
    drop(other);
    let mut other = test.accept(&[]).await;
    other.deliver_exactly_once(PacketId::MIN, b"two").await;
    assert_eq!(test.status().received, 2);
    test.end().await;
}

#[test]
fn addresses_have_the_ports_of_their_protocol() {
    for (url, expected) in [
        (
            "mqtt://broker.example",
            Some((false, "broker.example", 1883)),
        ),
        (
            "mqtts://broker.example/",
            Some((true, "broker.example", 8883)),
        ),
        ("mqtt://[::1]:1884", Some((false, "::1", 1884))),
        ("mqtt://", None),
        ("mqtt://user@broker.example", None),
        ("mqtt://broker.example:x", None),
        ("https://broker.example", None),
        ("broker.example", None),
    ] {
        let address = BridgeAddress::new(url);
        let found = address
            .as_ref()
            .map(|at| (at.is_tls, at.host.as_str(), at.port));
        assert_eq!(found, expected, "{url}");
    }
}
