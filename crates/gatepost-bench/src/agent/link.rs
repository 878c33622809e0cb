//! The connection of conductor and agents to their broker: MQTT 3.1.1, one topic per direction.
//!
//! Blocking, with a timeout on every read, because it carries only a few messages per second.

use std::io::ErrorKind;
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
use super::transport::BrokerStream;
use crate::clock::{self, Nanoseconds};
use crate::error::BenchError;
use crate::hosts::BrokerLogin;
use crate::target::{Endpoint, Url};

/// Large enough for a histogram of all latencies, the largest report.
const PACKET_MAX_BYTES: usize = 16 * 1024 * 1024;
/// The time within which the broker must answer.
const ANSWER_SECONDS: u64 = 10;
/// The time after which the broker ends a silent connection, one and a half times this.
const KEEP_ALIVE_SECONDS: u16 = 60;
/// The silence in one direction after which a ping is sent.
const PING_AFTER: Nanoseconds = 20 * clock::SECOND;
/// The maximum number of bytes of one read.
const READ_BYTES: usize = 64 * 1024;
const VERSION: Version = Version::Mqtt311;

/// One end of the connection.
pub(super) struct AgentLink {
    stream: BrokerStream,
    url: String,
    send_to: &'static str,
    input: Vec<u8>,
    last: LastTimes,
}

/// The times that show whether the connection still exists: a broker whose host was switched off
/// does not close it.
#[derive(Debug, Clone, Copy)]
struct LastTimes {
    sent: Nanoseconds,
    received: Nanoseconds,
    /// The time of a ping after which nothing was received.
    ping: Option<Nanoseconds>,
}

impl LastTimes {
    const fn begin(now: Nanoseconds) -> Self {
        Self {
            sent: now,
            received: now,
            ping: None,
        }
    }

    fn needs_ping(&self, now: Nanoseconds) -> bool {
        self.ping.is_none() && now.saturating_sub(self.sent.min(self.received)) >= PING_AFTER
    }

    /// Whether a ping got no answer, if nothing can be read now.
    fn is_lost(&self, now: Nanoseconds) -> bool {
        let patience = ANSWER_SECONDS * clock::SECOND;
        self.ping
            .is_some_and(|ping| now.saturating_sub(ping) >= patience)
    }
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
        let address = broker_address(url)?;
        if login.join_cafile.is_some() && !address.is_encrypted {
            let reason = "--join-cafile needs --join mqtts://, which is encrypted";
            return Err(BenchError::Settings(reason.into()));
        }
        let password = login.password()?;
        let stream = BrokerStream::open(&address, login.join_cafile.as_deref())?;
        let mut link = Self {
            stream,
            url: url.to_owned(),
            send_to,
            input: Vec::new(),
            last: LastTimes::begin(clock::now()),
        };
        link.write(&Packet::Connect(Connect {
            version: VERSION,
            clean_start: true,
            keep_alive_seconds: KEEP_ALIVE_SECONDS,
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
        let now = clock::now();
        if self.last.needs_ping(now) {
            self.write(&Packet::Pingreq)?;
            self.last.ping = Some(now);
        }
        let left = deadline.saturating_sub(now);
        if left == 0 {
            return Ok(false);
        }
        self.stream.wait_at_most(Duration::from_nanos(left))?;
        let mut buffer = vec![0; READ_BYTES];
        match self.stream.read(&mut buffer) {
            Ok(0) => Err(self.failed("it closed the connection")),
            Ok(count) => {
                self.input.extend_from_slice(&buffer[..count]);
                (self.last.received, self.last.ping) = (clock::now(), None);
                Ok(true)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                if self.last.is_lost(clock::now()) {
                    return Err(self.failed("it does not answer"));
                }
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
        self.last.sent = clock::now();
        self.stream
            .write(&bytes)
            .map_err(|error| self.failed(error.to_string()))
    }

    fn failed(&self, reason: impl Into<String>) -> BenchError {
        BenchError::server(&self.url, reason)
    }
}

/// The address of `--join`.
fn broker_address(url: &str) -> Result<Url, BenchError> {
    // A login in the URL would be seen in the list of processes and in stored results.
    match url.parse() {
        Ok(Endpoint::Url(address)) if address.scheme == "mqtt" && !url.contains('@') => Ok(address),
        _ => Err(BenchError::Settings(
            "--join takes mqtt://HOST:PORT or mqtts://HOST:PORT; --join-user and \
             --join-password-file name the login"
                .into(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
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
            join_cafile: None,
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

    #[test]
    fn a_broker_that_is_silent_after_a_ping_is_lost() {
        let begun = 7 * clock::SECOND;
        let mut last = LastTimes::begin(begun);
        assert!(!last.needs_ping(begun + PING_AFTER - 1) && !last.is_lost(begun + PING_AFTER));
        // A conductor receives messages all the time, and sends none while they measure.
        last.received = begun + PING_AFTER;
        assert!(last.needs_ping(begun + PING_AFTER));
        last.ping = Some(begun + PING_AFTER);
        let answered_by = begun + PING_AFTER + ANSWER_SECONDS * clock::SECOND;
        assert!(!last.needs_ping(answered_by));
        assert!(!last.is_lost(answered_by - 1) && last.is_lost(answered_by));
    }

    #[test]
    fn authorities_are_for_an_encrypted_broker_only() {
        let login = BrokerLogin {
            join_cafile: Some("ca.pem".into()),
            ..BrokerLogin::default()
        };
        let refused = AgentLink::of_agent("mqtt://127.0.0.1:1", &login, "a", b"");
        assert!(refused.is_err_and(|error| error.to_string().contains("--join-cafile needs")));
    }

    #[test]
    fn only_addresses_of_mqtt_without_a_login_are_joined() {
        for (url, host) in [
            ("mqtt://control", Some("control")),
            ("mqtts://control:8884", Some("control")),
            ("mqtt5://control", None),
            ("nats://control", None),
            ("mqtt://bench:secret@control", None),
            ("cat", None),
        ] {
            match broker_address(url) {
                Ok(address) => assert_eq!(Some(address.host.as_str()), host, "{url}"),
                Err(error) => {
                    assert_eq!(host, None, "{url}");
                    assert!(!error.to_string().contains("secret"), "{error}");
                }
            }
        }
    }
}
