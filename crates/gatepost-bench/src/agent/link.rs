//! The connection of conductor and agents to their broker: MQTT 3.1.1, one topic per direction.
//!
//! Blocking, with a timeout on every read, because it carries only a few messages per second.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use bytes::BytesMut;
use gatepost_message::Qos;
use gatepost_mqtt::{
    Connect, Filter, Packet, PacketId, PacketProperties, Publish, Subscribe, SubscriptionOptions,
    Version, Will, decode_next,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::message::{ORDERS, REPORTS};
use crate::clock::{self, Nanoseconds};
use crate::error::BenchError;
use crate::hosts::BrokerLogin;
use crate::target::{Endpoint, Url};

/// Large enough for a histogram of all latencies, the largest report.
const PACKET_MAX_BYTES: usize = 16 * 1024 * 1024;
/// The time within which the broker must answer.
const ANSWER_SECONDS: u64 = 10;
/// The maximum number of bytes of one read.
const READ_BYTES: usize = 64 * 1024;
const VERSION: Version = Version::Mqtt311;

/// One end of the connection.
pub(super) struct AgentLink {
    stream: TcpStream,
    url: String,
    send_to: &'static str,
    input: Vec<u8>,
}

impl AgentLink {
    /// The conductor's end.
    pub(super) fn of_conductor(url: &str, login: &BrokerLogin) -> Result<Self, BenchError> {
        let name = format!("bench-conductor-{}-{:x}", std::process::id(), clock::now());
        Self::join(url, login, &name, (ORDERS, REPORTS), None)
    }

    /// An agent's end; the broker publishes `will` if the agent disconnects unexpectedly.
    pub(super) fn of_agent(
        url: &str,
        login: &BrokerLogin,
        name: &str,
        will: &[u8],
    ) -> Result<Self, BenchError> {
        let client_id = format!("bench-agent-{name}");
        Self::join(url, login, &client_id, (REPORTS, ORDERS), Some(will))
    }

    fn join(
        url: &str,
        login: &BrokerLogin,
        client_id: &str,
        (send_to, receive_from): (&'static str, &'static str),
        will: Option<&[u8]>,
    ) -> Result<Self, BenchError> {
        let Endpoint::Url(
            address @ Url {
                scheme: "mqtt",
                is_encrypted: false,
                ..
            },
        ) = url.parse()?
        else {
            return Err(BenchError::Settings("--join takes mqtt://HOST:PORT".into()));
        };
        let password = login.password()?;
        let stream = TcpStream::connect(address.address()?)
            .map_err(|error| BenchError::server(&url, error.to_string()))?;
        stream.set_nodelay(true)?;
        let mut link = Self {
            stream,
            url: url.to_owned(),
            send_to,
            input: Vec::new(),
        };
        link.write(&Packet::Connect(Connect {
            version: VERSION,
            clean_start: true,
            keep_alive_seconds: 0,
            properties: PacketProperties::EMPTY,
            client_id,
            will: will.map(|payload| Will {
                qos: Qos::AtMostOnce,
                retain: false,
                properties: PacketProperties::EMPTY,
                topic: send_to,
                payload,
            }),
            user_name: login.join_user.as_deref(),
            password: password.as_deref().map(str::as_bytes),
        }))?;
        link.expect("CONNACK", |packet| match packet {
            Packet::Connack(connack) => Some(!connack.reason.is_error()),
            _ => None,
        })?;
        let filter = Filter {
            text: receive_from,
            options: SubscriptionOptions::at(Qos::AtMostOnce),
        };
        link.write(&Packet::Subscribe(Subscribe {
            packet_id: PacketId::MIN,
            properties: PacketProperties::EMPTY,
            filters: std::iter::once(filter).collect(),
        }))?;
        link.expect("SUBACK", |packet| match packet {
            Packet::Suback(suback) => Some(!suback.reasons.iter().any(|reason| reason.is_error())),
            _ => None,
        })?;
        Ok(link)
    }

    /// Sends a message.
    pub(super) fn send(&mut self, message: &impl Serialize) -> Result<(), BenchError> {
        let payload =
            serde_json::to_vec(message).map_err(|error| self.failed(error.to_string()))?;
        self.write(&Packet::Publish(Publish {
            dup: false,
            qos: Qos::AtMostOnce,
            retain: false,
            topic: self.send_to,
            packet_id: None,
            properties: PacketProperties::EMPTY,
            payload: &payload,
        }))
    }

    /// The next valid message with its time of arrival; `None` at `deadline`.
    pub(super) fn receive<T: DeserializeOwned>(
        &mut self,
        deadline: Nanoseconds,
    ) -> Result<Option<(T, Nanoseconds)>, BenchError> {
        loop {
            // Buffered messages are returned first, then further ones are awaited.
            let heard = self.take(|packet| match packet {
                Packet::Publish(publish) => serde_json::from_slice(publish.payload).ok(),
                _ => None,
            })?;
            let now = clock::now();
            if let Some(heard) = heard {
                return Ok(Some((heard, now)));
            }
            if !self.fill(deadline)? {
                return Ok(None);
            }
        }
    }

    /// Waits for the response to a request.
    fn expect(
        &mut self,
        what: &str,
        accept: impl Fn(&Packet<'_>) -> Option<bool>,
    ) -> Result<(), BenchError> {
        let deadline = clock::now() + ANSWER_SECONDS * clock::SECOND;
        loop {
            match self.take(&accept)? {
                Some(true) => return Ok(()),
                Some(false) => return Err(self.failed(format!("{what} refuses"))),
                None => {}
            }
            if !self.fill(deadline)? {
                return Err(self.failed(format!("no {what}")));
            }
        }
    }

    /// The result of `of` for the first buffered packet for which it returns one.
    fn take<T>(&mut self, of: impl Fn(&Packet<'_>) -> Option<T>) -> Result<Option<T>, BenchError> {
        let mut taken = 0;
        let mut found = None;
        while found.is_none() {
            let next = decode_next(VERSION, &self.input[taken..], PACKET_MAX_BYTES)
                .map_err(|error| self.failed(error.to_string()))?;
            let Some((packet, length)) = next else { break };
            taken += length;
            found = of(&packet);
        }
        self.input.drain(..taken);
        Ok(found)
    }

    /// Reads once; returns whether anything arrived before the deadline.
    fn fill(&mut self, deadline: Nanoseconds) -> Result<bool, BenchError> {
        let left = deadline.saturating_sub(clock::now());
        if left == 0 {
            return Ok(false);
        }
        self.stream
            .set_read_timeout(Some(Duration::from_nanos(left)))?;
        let mut buffer = vec![0; READ_BYTES];
        match self.stream.read(&mut buffer) {
            Ok(0) => Err(self.failed("it closed the connection")),
            Ok(count) => {
                self.input.extend_from_slice(&buffer[..count]);
                Ok(true)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Ok(false)
            }
            // A signal arrived: the waiting thread checks whether to continue.
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(false),
            Err(error) => Err(self.failed(error.to_string())),
        }
    }

    fn write(&mut self, packet: &Packet<'_>) -> Result<(), BenchError> {
        let mut bytes = BytesMut::new();
        packet
            .encode(VERSION, &mut bytes)
            .map_err(|error| self.failed(error.to_string()))?;
        self.stream
            .write_all(&bytes)
            .map_err(|error| self.failed(error.to_string()))
    }

    fn failed(&self, reason: impl Into<String>) -> BenchError {
        BenchError::server(&self.url, reason)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[test]
    fn the_broker_receives_the_login() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("password");
        std::fs::write(&file, "a secret\n").expect("written");
        let login = BrokerLogin {
            join_user: Some("bench".into()),
            join_password_file: Some(file),
        };
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("mqtt://{}", listener.local_addr().expect("an address"));
        let broker = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut input = [0; 1024];
            let count = stream.read(&mut input).expect("CONNECT");
            let (packet, _) = decode_next(VERSION, &input[..count], PACKET_MAX_BYTES)
                .expect("a packet")
                .expect("a whole one");
            let Packet::Connect(connect) = packet else {
                panic!("{packet:?}");
            };
            (
                connect.user_name.map(str::to_owned),
                connect.password.map(<[u8]>::to_vec),
            )
        });
        // The broker closes the connection once it has seen the login.
        assert!(AgentLink::of_conductor(&url, &login).is_err());
        let (user, password) = broker.join().expect("no panic");
        assert_eq!(user.as_deref(), Some("bench"));
        assert_eq!(password.as_deref(), Some(b"a secret".as_slice()));
    }
}
