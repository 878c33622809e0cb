//! Packets that are sent to a broker.

use std::io::Write as _;
use std::net::SocketAddr;

use gatepost_message::Qos;
use gatepost_mqtt::PacketId;

use super::{Dialect, PacketReader, mqtt, nats, websocket};
use crate::error::BenchError;
use crate::target::Url;

/// One protocol and address of one server.
#[derive(Debug, Clone)]
pub struct Broker {
    dialect: Dialect,
    /// Its address.
    pub address: SocketAddr,
    /// Name and port, for `Host:`.
    authority: String,
    /// Path and query; `{topic}` stands for the topic, `{flat_topic}` for it with dashes.
    path: String,
}

impl Broker {
    /// The broker at a URL; `None` if the scheme is not one of a broker.
    pub fn of(url: &Url) -> Result<Option<Self>, BenchError> {
        let Some(dialect) = Dialect::of(url) else {
            return Ok(None);
        };
        Ok(Some(Self {
            dialect,
            address: url.address()?,
            authority: format!("{}:{}", url.host, url.port),
            path: if url.path.is_empty() {
                "/".to_owned()
            } else {
                url.path.clone()
            },
        }))
    }

    /// A reader for a new connection.
    pub fn reader(&self) -> PacketReader {
        self.dialect.reader()
    }

    /// Whether publications are acknowledged whatever their quality of service.
    pub fn acknowledges_all(&self) -> bool {
        self.dialect == Dialect::Post
    }

    /// Whether a new connection can publish at once, without a login.
    pub fn needs_no_login(&self) -> bool {
        self.dialect == Dialect::Post
    }

    /// Appends the client's first message, if the client speaks first. A stream of events is
    /// requested with its topic.
    pub fn open(&self, client_id: &str, topic: &str, out: &mut Vec<u8>) {
        match self.dialect {
            Dialect::Mqtt(version) => mqtt::login(version, client_id, out),
            Dialect::WebSocket(_) => {
                websocket::upgrade(&self.authority, &self.path, Some("mqtt"), out);
            }
            Dialect::Messages => {
                websocket::upgrade(&self.authority, &self.path_of(topic), None, out);
            }
            Dialect::Events => {
                let (path, host) = (self.path_of(topic), &self.authority);
                // Writing to a Vec cannot fail.
                let _ = write!(
                    out,
                    "GET {path} HTTP/1.1\r\nHost: {host}\r\nAccept: text/event-stream\r\n\r\n"
                );
            }
            Dialect::Nats | Dialect::Post => {}
        }
    }

    /// Appends the reply to a greeting.
    pub fn login(&self, client_id: &str, out: &mut Vec<u8>) {
        match self.dialect {
            Dialect::Mqtt(_) | Dialect::Events | Dialect::Messages | Dialect::Post => {}
            Dialect::WebSocket(version) => {
                framed(out, |packet| mqtt::login(version, client_id, packet));
            }
            Dialect::Nats => nats::login(client_id, out),
        }
    }

    /// Appends a subscription; each is confirmed separately.
    pub fn subscribe(&self, topic: &str, number: PacketId, qos: Qos, out: &mut Vec<u8>) {
        match self.dialect {
            Dialect::Mqtt(version) => mqtt::subscribe(version, topic, number, qos, out),
            Dialect::WebSocket(version) => framed(out, |packet| {
                mqtt::subscribe(version, topic, number, qos, packet);
            }),
            Dialect::Nats => nats::subscribe(topic, number, out),
            Dialect::Events | Dialect::Messages | Dialect::Post => {}
        }
    }

    /// Appends a publication.
    pub fn publish(
        &self,
        topic: &str,
        payload: &[u8],
        packet_id: Option<PacketId>,
        out: &mut Vec<u8>,
    ) {
        match self.dialect {
            Dialect::Mqtt(version) => mqtt::publish(version, topic, payload, packet_id, out),
            Dialect::WebSocket(version) => framed(out, |packet| {
                mqtt::publish(version, topic, payload, packet_id, packet);
            }),
            Dialect::Nats => nats::publish(topic, payload, out),
            Dialect::Post => {
                let (path, host) = (self.path_of(topic), &self.authority);
                let length = payload.len();
                let _ = write!(
                    out,
                    "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n\r\n"
                );
                out.extend_from_slice(payload);
            }
            Dialect::Events | Dialect::Messages => {}
        }
    }

    /// Appends the acknowledgement of a received publication.
    pub fn acknowledge(&self, packet_id: PacketId, out: &mut Vec<u8>) {
        match self.dialect {
            Dialect::Mqtt(_) => mqtt::acknowledge(packet_id, out),
            Dialect::WebSocket(_) => framed(out, |packet| mqtt::acknowledge(packet_id, packet)),
            _ => {}
        }
    }

    /// Appends the answer to a ping.
    pub fn pong(&self, out: &mut Vec<u8>) {
        match self.dialect {
            Dialect::Nats => out.extend_from_slice(b"PONG\r\n"),
            Dialect::WebSocket(_) | Dialect::Messages => websocket::pong(out),
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
