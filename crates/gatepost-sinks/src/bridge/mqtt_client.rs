//! The connection to the other broker: its handshake, and packets in both directions.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use gatepost_message::Qos;
use gatepost_mqtt::{
    Connack, Connect, Frame, Packet, PacketProperties, PropertiesBuffer, Property, Publish, Reason,
    Version, Will,
};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};

use super::Bridge;
use super::error::BridgeError;
use crate::connecting::connect_to_any;

/// The largest packet that the other broker may send.
const PACKET_BYTES_MAX: u32 = 16 << 20;
/// Publications of the other broker that may be unacknowledged.
pub(super) const RECEIVE_MAX: u16 = 1_000;
/// Before MQTT 5 a broker cannot announce how many publications it accepts at once. mosquitto
/// closes connections with more than 20, and counts those from before a restart twice.
const RECEIVE_MAX_BEFORE_5: u16 = 10;
/// The bit of the protocol level by which mosquitto knows a bridge before MQTT 5: it then sends
/// nothing back, and keeps the retain flag.
const BRIDGE_BIT: u8 = 0x80;
/// The offset of the protocol level after the fixed header: after the name `MQTT`.
const LEVEL_AT: usize = 6;
const READ_BYTES: usize = 64 * 1024;

/// The largest packet that is accepted. Before MQTT 5 a bridge cannot announce its maximum, and the
/// other broker would send a message that is refused again and again.
pub(super) const fn packet_bytes_max(version: Version) -> usize {
    if version.has_properties() {
        PACKET_BYTES_MAX as usize
    } else {
        usize::MAX
    }
}

/// A socket, with TLS or without.
trait BridgeSocket: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> BridgeSocket for S {}

/// The properties of the other broker's CONNACK.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConnackProperties {
    pub(super) session_present: bool,
    /// The number of publications that the other broker accepts at once.
    pub(super) receive_max: u16,
    pub(super) packet_bytes_max: usize,
    pub(super) keep_alive: Duration,
    /// The highest QoS that the other broker accepts.
    pub(super) qos_max: Qos,
    pub(super) takes_retained: bool,
}

pub(super) struct MqttClient {
    pub(super) version: Version,
    pub(super) properties: ConnackProperties,
    reader: ReadHalf<Box<dyn BridgeSocket>>,
    writer: WriteHalf<Box<dyn BridgeSocket>>,
    pub(super) received: BytesMut,
    pub(super) out: BytesMut,
}

impl MqttClient {
    /// Connects and sends CONNECT. `has_bridge_bit` is for the versions before MQTT 5.
    pub(super) async fn open(bridge: &Bridge, has_bridge_bit: bool) -> Result<Self, BridgeError> {
        let opening = Self::handshake(bridge, has_bridge_bit);
        let opened = tokio::time::timeout(bridge.connect_timeout, opening).await;
        opened.map_err(|_| BridgeError::Silent)?
    }

    async fn handshake(bridge: &Bridge, has_bridge_bit: bool) -> Result<Self, BridgeError> {
        let (host, port) = (bridge.address.host.as_str(), bridge.address.port);
        let addresses: Vec<SocketAddr> = tokio::net::lookup_host((host, port)).await?.collect();
        let stream = connect_to_any(&addresses, bridge.connect_timeout).await?;
        stream.set_nodelay(true)?;
        let stream: Box<dyn BridgeSocket> = match &bridge.tls {
            None => Box::new(stream),
            Some(connector) => {
                let name = ServerName::try_from(bridge.address.host.clone())
                    .map_err(|error| BridgeError::Tls(error.to_string()))?;
                Box::new(connector.connect(name, stream).await?)
            }
        };
        let (reader, writer) = tokio::io::split(stream);
        let mut client = Self {
            version: bridge.version,
            properties: ConnackProperties {
                session_present: false,
                receive_max: if bridge.version.has_properties() {
                    u16::MAX
                } else {
                    RECEIVE_MAX_BEFORE_5
                },
                packet_bytes_max: usize::MAX,
                keep_alive: bridge.keep_alive,
                qos_max: Qos::ExactlyOnce,
                takes_retained: true,
            },
            reader,
            writer,
            received: BytesMut::new(),
            out: BytesMut::new(),
        };
        client.greet(bridge, has_bridge_bit)?;
        while !client.out.is_empty() {
            client.write().await?;
        }
        while client.take_connack()?.is_none() {
            client.read().await?;
        }
        Ok(client)
    }

    fn greet(&mut self, bridge: &Bridge, has_bridge_bit: bool) -> Result<(), BridgeError> {
        let mut properties = PropertiesBuffer::new();
        if self.version.has_properties() {
            properties.push(&Property::SessionExpiryInterval(
                bridge.session_expiry_seconds,
            ))?;
            properties.push(&Property::ReceiveMaximum(RECEIVE_MAX))?;
            properties.push(&Property::MaximumPacketSize(PACKET_BYTES_MAX))?;
        }
        let will = bridge.notification_topic.as_deref().map(|topic| Will {
            topic,
            payload: b"0",
            qos: Qos::AtLeastOnce,
            retain: true,
            properties: PacketProperties::EMPTY,
        });
        let connect = Connect {
            version: self.version,
            clean_start: false,
            keep_alive_seconds: bridge.keep_alive.as_secs() as u16,
            properties: properties.as_properties(),
            client_id: &bridge.client_id,
            will,
            user_name: bridge.user.as_deref(),
            password: bridge.password.as_deref().map(str::as_bytes),
        };
        connect.encode(&mut self.out)?;
        if has_bridge_bit && let Ok(Some(frame)) = Frame::split(&self.out, usize::MAX) {
            let header = frame.length - frame.body.len();
            self.out[header + LEVEL_AT] |= BRIDGE_BIT;
        }
        Ok(())
    }

    /// Reads the CONNACK if it is complete.
    fn take_connack(&mut self) -> Result<Option<()>, BridgeError> {
        let Some(frame) = Frame::split(&self.received, READ_BYTES)? else {
            return Ok(None);
        };
        let length = frame.length;
        let Packet::Connack(connack) = Packet::decode(self.version, frame)? else {
            return Err(BridgeError::Unexpected("a packet other than CONNACK"));
        };
        if connack.reason != Reason::SUCCESS {
            let said = connack.properties.reason_string().unwrap_or_default();
            return Err(BridgeError::Refused(connack.reason, said.to_owned()));
        }
        self.properties = properties(self.properties, &connack);
        self.received.advance(length);
        Ok(Some(()))
    }

    /// Reads the available bytes. Cancel-safe.
    pub(super) async fn read(&mut self) -> Result<(), BridgeError> {
        read(&mut self.reader, &mut self.received).await
    }

    /// Writes a part of the waiting bytes. Cancel-safe.
    pub(super) async fn write(&mut self) -> Result<(), BridgeError> {
        self.writer.write_buf(&mut self.out).await?;
        Ok(())
    }

    /// Reads or writes, whichever is possible first. Cancel-safe.
    pub(super) async fn exchange(
        &mut self,
        may_read: bool,
    ) -> Result<MqttClientProgress, BridgeError> {
        tokio::select! {
            written = self.writer.write_buf(&mut self.out), if !self.out.is_empty() => {
                written?;
                Ok(MqttClientProgress::Written)
            }
            outcome = read(&mut self.reader, &mut self.received), if may_read => {
                outcome?;
                Ok(MqttClientProgress::Read)
            }
            else => std::future::pending().await,
        }
    }

    pub(super) fn put(&mut self, packet: &Packet<'_>) -> Result<(), BridgeError> {
        packet.encode(self.version, &mut self.out)?;
        Ok(())
    }

    pub(super) fn publish(&mut self, publish: &Publish<'_>) -> Result<(), BridgeError> {
        publish.encode(self.version, &mut self.out)?;
        Ok(())
    }

    /// Publishes on this topic whether the bridge is connected.
    pub(super) fn announce(&mut self, topic: &str, is_connected: bool) -> Result<(), BridgeError> {
        self.publish(&Publish {
            dup: false,
            qos: Qos::AtMostOnce,
            retain: true,
            topic,
            packet_id: None,
            properties: PacketProperties::EMPTY,
            payload: if is_connected { b"1" } else { b"0" },
        })
    }

    /// Sends DISCONNECT, and waits a moment until it is written. The other broker then publishes no
    /// will, so the bridge itself publishes on this topic that it is not connected.
    pub(super) async fn close(mut self, notification_topic: Option<&str>) {
        if let Some(topic) = notification_topic {
            let _ = self.announce(topic, false);
        }
        let _ = self.put(&Packet::Disconnect(gatepost_mqtt::ReasonedPacket::default()));
        let writing = async {
            while !self.out.is_empty() && self.write().await.is_ok() {}
            let _ = self.writer.shutdown().await;
        };
        let _ = tokio::time::timeout(Duration::from_secs(1), writing).await;
    }
}

/// The outcome of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MqttClientProgress {
    Read,
    Written,
}

async fn read(
    reader: &mut ReadHalf<Box<dyn BridgeSocket>>,
    received: &mut BytesMut,
) -> Result<(), BridgeError> {
    received.reserve(READ_BYTES);
    match reader.read_buf(received).await? {
        0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
        _ => Ok(()),
    }
}

fn properties(mut properties: ConnackProperties, connack: &Connack<'_>) -> ConnackProperties {
    properties.session_present = connack.session_present;
    for property in connack.properties.iter() {
        match property {
            Property::ReceiveMaximum(max) => properties.receive_max = max,
            Property::MaximumPacketSize(bytes) => properties.packet_bytes_max = bytes as usize,
            Property::ServerKeepAlive(seconds) => {
                properties.keep_alive = Duration::from_secs(seconds.into());
            }
            Property::MaximumQos(has_one) => {
                properties.qos_max = if has_one {
                    Qos::AtLeastOnce
                } else {
                    Qos::AtMostOnce
                };
            }
            Property::RetainAvailable(is_so) => properties.takes_retained = is_so,
            _ => {}
        }
    }
    properties
}
