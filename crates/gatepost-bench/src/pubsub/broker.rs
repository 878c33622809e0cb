//! Packets that are sent to a broker.

use std::io::Write as _;
use std::net::SocketAddr;

use gatepost_message::Qos;
use gatepost_mqtt::PacketId;

use super::login::ClientCredentials;
use super::{
    AckPacket, BrokerProtocol, ClientName, LoginArguments, PacketReader, mqtt, nats, redis,
    websocket,
};
use crate::error::BenchError;
use crate::load::Dialer;
use crate::target::Url;

/// One protocol and address of one server.
#[derive(Clone)]
pub struct BrokerEndpoint {
    protocol: BrokerProtocol,
    credentials: Option<ClientCredentials>,
    /// Its address.
    pub address: SocketAddr,
    is_encrypted: bool,
    /// Name and port, for `Host:`.
    authority: String,
    /// Path and query; `{topic}` stands for the topic, `{flat_topic}` for it with dashes.
    path: String,
}

impl BrokerEndpoint {
    /// The broker at a URL; `None` if the scheme is not one of a broker.
    pub fn of(url: &Url) -> Result<Option<Self>, BenchError> {
        let Some(protocol) = BrokerProtocol::of(url) else {
            return Ok(None);
        };
        Ok(Some(Self {
            protocol,
            credentials: None,
            address: url.address()?,
            is_encrypted: url.is_encrypted,
            authority: format!("{}:{}", url.host, url.port),
            path: if url.path.is_empty() {
                "/".to_owned()
            } else {
                url.path.clone()
            },
        }))
    }

    /// The same with a login of its clients; an error if the protocol has none here.
    pub fn with_login(mut self, login: &LoginArguments) -> Result<Self, BenchError> {
        self.credentials = login.credentials()?;
        let has_login = self.has_qos() || self.protocol == BrokerProtocol::Nats;
        if self.credentials.is_some() && !has_login {
            let reason = "--user is possible with MQTT and NATS only";
            return Err(BenchError::Settings(reason.into()));
        }
        Ok(self)
    }

    /// A dialer for its address.
    pub const fn dialer(&self) -> Dialer {
        Dialer::new(self.address, self.is_encrypted)
    }

    /// A reader for a new connection.
    pub fn reader(&self) -> PacketReader {
        self.protocol.reader()
    }

    /// Whether the protocol has a quality of service.
    pub const fn has_qos(&self) -> bool {
        matches!(
            self.protocol,
            BrokerProtocol::Mqtt(_) | BrokerProtocol::WebSocket(_)
        )
    }

    /// Whether publications are acknowledged whatever their quality of service.
    pub fn acknowledges_all(&self) -> bool {
        matches!(self.protocol, BrokerProtocol::Post | BrokerProtocol::Redis)
    }

    /// Whether a new connection can publish immediately, without a login.
    pub fn needs_no_login(&self) -> bool {
        self.protocol == BrokerProtocol::Post
    }

    /// Appends the client's first message, if the client speaks first. A stream of events is
    /// requested with its topic.
    pub fn open(&self, client: &ClientName, topic: &str, out: &mut Vec<u8>) {
        match self.protocol {
            BrokerProtocol::Mqtt(_) => self.login_packet(client, out),
            BrokerProtocol::WebSocket(_) => {
                websocket::upgrade(&self.authority, &self.path, Some("mqtt"), out);
            }
            BrokerProtocol::Messages => {
                websocket::upgrade(&self.authority, &self.path_of(topic), None, out);
            }
            BrokerProtocol::Events => {
                let (path, host) = (self.path_of(topic), &self.authority);
                // Writing to a Vec cannot fail.
                let _ = write!(
                    out,
                    "GET {path} HTTP/1.1\r\nHost: {host}\r\nAccept: text/event-stream\r\n\r\n"
                );
            }
            BrokerProtocol::Redis => redis::open(out),
            BrokerProtocol::Nats | BrokerProtocol::Post => {}
        }
    }

    /// Appends the reply to a greeting.
    pub fn login(&self, client: &ClientName, out: &mut Vec<u8>) {
        match self.protocol {
            BrokerProtocol::Mqtt(_)
            | BrokerProtocol::Events
            | BrokerProtocol::Messages
            | BrokerProtocol::Redis
            | BrokerProtocol::Post => {}
            BrokerProtocol::WebSocket(_) => {
                framed(out, |packet| self.login_packet(client, packet));
            }
            BrokerProtocol::Nats => self.login_packet(client, out),
        }
    }

    /// Appends the packet with the client's name and login, if the protocol has one.
    fn login_packet(&self, client: &ClientName, out: &mut Vec<u8>) {
        let login = self.credentials.as_ref().map(|all| all.of(client));
        let login = login
            .as_ref()
            .map(|(user, password)| (user.as_str(), password.as_deref()));
        match self.protocol {
            BrokerProtocol::Mqtt(version) | BrokerProtocol::WebSocket(version) => {
                mqtt::login(version, &client.id, login, out);
            }
            BrokerProtocol::Nats => nats::login(&client.id, login, out),
            _ => {}
        }
    }

    /// Appends a subscription; each is confirmed separately.
    pub fn subscribe(&self, topic: &str, number: PacketId, qos: Qos, out: &mut Vec<u8>) {
        match self.protocol {
            BrokerProtocol::Mqtt(version) => mqtt::subscribe(version, topic, number, qos, out),
            BrokerProtocol::WebSocket(version) => framed(out, |packet| {
                mqtt::subscribe(version, topic, number, qos, packet);
            }),
            BrokerProtocol::Nats => nats::subscribe(topic, number, out),
            BrokerProtocol::Redis => redis::subscribe(topic, out),
            BrokerProtocol::Events | BrokerProtocol::Messages | BrokerProtocol::Post => {}
        }
    }

    /// Appends a publication; the quality of service and the identifier are MQTT's.
    pub fn publish(
        &self,
        topic: &str,
        payload: &[u8],
        numbered: (Qos, Option<PacketId>),
        out: &mut Vec<u8>,
    ) {
        match self.protocol {
            BrokerProtocol::Mqtt(version) => mqtt::publish(version, topic, payload, numbered, out),
            BrokerProtocol::WebSocket(version) => framed(out, |packet| {
                mqtt::publish(version, topic, payload, numbered, packet);
            }),
            BrokerProtocol::Nats => nats::publish(topic, payload, out),
            BrokerProtocol::Redis => redis::publish(topic, payload, out),
            BrokerProtocol::Post => {
                let (path, host) = (self.path_of(topic), &self.authority);
                let length = payload.len();
                let _ = write!(
                    out,
                    "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n\r\n"
                );
                out.extend_from_slice(payload);
            }
            BrokerProtocol::Events | BrokerProtocol::Messages => {}
        }
    }

    /// Appends the packet with which an event must be answered.
    pub fn acknowledge(&self, ack: AckPacket, out: &mut Vec<u8>) {
        match self.protocol {
            BrokerProtocol::Mqtt(_) => mqtt::acknowledge(ack, out),
            BrokerProtocol::WebSocket(_) => {
                framed(out, |packet| mqtt::acknowledge(ack, packet));
            }
            _ => {}
        }
    }

    /// Appends the answer to a ping.
    pub fn pong(&self, out: &mut Vec<u8>) {
        match self.protocol {
            BrokerProtocol::Nats => out.extend_from_slice(b"PONG\r\n"),
            BrokerProtocol::WebSocket(_) | BrokerProtocol::Messages => websocket::pong(out),
            _ => {}
        }
    }

    fn path_of(&self, topic: &str) -> String {
        let flat = topic.replace('/', "-");
        self.path
            .replace("{topic}", topic)
            .replace("{flat_topic}", &flat)
    }
}

/// A packet in a separate frame.
fn framed(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let mut packet = Vec::new();
    write(&mut packet);
    websocket::frame(&packet, out);
}
