//! One connection to a broker, from its CONNECT on.

use std::io;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use gatepost_message::Qos;
use gatepost_mqtt::{
    Connack, Connect, Frame, Packet, PropertiesBuffer, Property, Reason, ReasonedPacket, Version,
    Will,
};

use super::transport::BrokerTransport;
use super::{ClientError, ClientOptions, CommandLineProperties, PropertyPacket};

const CONNACK_TIMEOUT: Duration = Duration::from_secs(30);
const READ_BYTES: usize = 64 * 1024;

/// The options of a connection in addition to the user's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionOptions {
    /// Whether an earlier session is discarded.
    pub(crate) clean_start: bool,
    /// The expiry of the session, if the user did not specify it.
    pub(crate) expiry_seconds: u32,
}

/// A connection that the broker has accepted.
pub(crate) struct BrokerConnection {
    transport: BrokerTransport,
    version: Version,
    buffer: Vec<u8>,
    keep_alive: Duration,
    sent: Instant,
    heard: Instant,
    /// Whether the broker kept the session.
    pub(crate) session_present: bool,
    /// The number of publications that it accepts at once.
    pub(crate) receive_max: u16,
}

impl BrokerConnection {
    pub(crate) fn open(
        options: &ClientOptions,
        carried: &CommandLineProperties,
        session: SessionOptions,
    ) -> Result<Self, ClientError> {
        let address = options.address()?;
        let transport = BrokerTransport::open(&address, &options.certificates)?;
        let now = Instant::now();
        let mut link = Self {
            transport,
            version: options.version,
            buffer: Vec::new(),
            keep_alive: Duration::from_secs(options.keepalive.into()),
            sent: now,
            heard: now,
            session_present: false,
            receive_max: u16::MAX,
        };
        let properties = connect_properties(options, carried, session)?;
        let will_properties = carried.of(PropertyPacket::Will)?;
        let will = options.will_topic.as_deref().map(|topic| Will {
            topic,
            payload: options
                .will_payload
                .as_deref()
                .unwrap_or_default()
                .as_bytes(),
            qos: Qos::from_level(options.will_qos).unwrap_or_default(),
            retain: options.will_retain,
            properties: will_properties.as_properties(),
        });
        let client_id = options.client_id();
        link.send(&Packet::Connect(Connect {
            version: options.version,
            clean_start: session.clean_start,
            keep_alive_seconds: options.keepalive,
            properties: properties.as_properties(),
            client_id: &client_id,
            will,
            user_name: address.user.as_deref(),
            password: address.password.as_deref().map(str::as_bytes),
        }))?;
        link.await_connack()?;
        options.print_verbose(format_args!("connected to {}", address.host));
        Ok(link)
    }

    fn await_connack(&mut self) -> Result<(), ClientError> {
        let until = Instant::now() + CONNACK_TIMEOUT;
        let timeout = || ClientError::Lost(io::ErrorKind::TimedOut.into());
        let bytes = self.receive(until)?.ok_or_else(timeout)?;
        match self.understand(&bytes)? {
            Packet::Connack(connack) if connack.reason == Reason::SUCCESS => {
                self.welcomed(&connack);
                Ok(())
            }
            Packet::Connack(connack) => Err(ClientError::Refused {
                did: "refused the connection",
                reason: connack.reason,
                text: connack
                    .properties
                    .reason_string()
                    .unwrap_or_default()
                    .to_owned(),
            }),
            _ => Err(ClientError::Lost(io::ErrorKind::InvalidData.into())),
        }
    }

    fn welcomed(&mut self, connack: &Connack<'_>) {
        self.session_present = connack.session_present;
        for property in connack.properties.iter() {
            match property {
                Property::ReceiveMaximum(max) => self.receive_max = max,
                Property::ServerKeepAlive(seconds) => {
                    self.keep_alive = Duration::from_secs(seconds.into()); // [MQTT-3.1.2-21]
                }
                _ => {}
            }
        }
    }

    pub(crate) fn send(&mut self, packet: &Packet<'_>) -> Result<(), ClientError> {
        let mut out = BytesMut::new();
        packet.encode(self.version, &mut out)?;
        self.transport.write(&out).map_err(ClientError::Lost)?;
        self.sent = Instant::now();
        Ok(())
    }

    /// The bytes of the next packet, or `None` if none arrives until then. Keeps the connection
    /// alive meanwhile; a DISCONNECT is an error.
    pub(crate) fn receive(&mut self, until: Instant) -> Result<Option<Vec<u8>>, ClientError> {
        loop {
            if let Some(frame) = Frame::split(&self.buffer, usize::MAX)? {
                let rest = self.buffer.split_off(frame.length);
                let packet = std::mem::replace(&mut self.buffer, rest);
                if let Packet::Disconnect(outcome) = self.understand(&packet)? {
                    return Err(ended(&outcome));
                }
                return Ok(Some(packet));
            }
            let now = Instant::now();
            if now >= until {
                return Ok(None);
            }
            let duty = self.stay_alive(now)?;
            let wait = until.min(duty).saturating_duration_since(now);
            self.read(wait)?;
        }
    }

    /// The content of a packet from [`receive`](Self::receive).
    pub(crate) fn understand<'a>(&self, bytes: &'a [u8]) -> Result<Packet<'a>, ClientError> {
        let frame = Frame::split(bytes, usize::MAX)?
            .ok_or_else(|| ClientError::Lost(io::ErrorKind::UnexpectedEof.into()))?;
        Ok(Packet::decode(self.version, frame)?)
    }

    /// Sends a PINGREQ when it is due, and returns when the next one is due.
    fn stay_alive(&mut self, now: Instant) -> Result<Instant, ClientError> {
        if self.keep_alive.is_zero() {
            return Ok(now + Duration::from_hours(1));
        }
        if now.duration_since(self.heard) > self.keep_alive * 2 {
            return Err(ClientError::Lost(io::ErrorKind::TimedOut.into()));
        }
        if now.duration_since(self.sent) >= self.keep_alive {
            self.send(&Packet::Pingreq)?;
        }
        Ok(self.sent + self.keep_alive)
    }

    fn read(&mut self, wait: Duration) -> Result<(), ClientError> {
        self.transport
            .wait_at_most(wait)
            .map_err(ClientError::Lost)?;
        let begun = self.buffer.len();
        self.buffer.resize(begun + READ_BYTES, 0);
        let read = self
            .transport
            .read(self.buffer.get_mut(begun..).unwrap_or_default());
        self.buffer.truncate(begun + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => Err(ClientError::Lost(io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => {
                self.heard = Instant::now();
                Ok(())
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock
                | io::ErrorKind::TimedOut
                | io::ErrorKind::Interrupted => Ok(()),
                _ => Err(ClientError::Lost(error)),
            },
        }
    }

    /// Sends DISCONNECT. The session continues as agreed.
    pub(crate) fn close(mut self) {
        // A peer that is gone needs no DISCONNECT.
        let _ = self.send(&Packet::Disconnect(ReasonedPacket::default()));
    }

    /// Sends DISCONNECT, which ends the session too.
    pub(crate) fn end_session(mut self) {
        let mut properties = PropertiesBuffer::new();
        if self.version.has_properties() {
            let _ = properties.push(&Property::SessionExpiryInterval(0));
        }
        let outcome = ReasonedPacket::new(Reason::SUCCESS, properties.as_properties());
        let _ = self.send(&Packet::Disconnect(outcome));
    }
}

fn ended(outcome: &ReasonedPacket<'_>) -> ClientError {
    ClientError::Refused {
        did: "ended the connection",
        reason: outcome.reason,
        text: outcome
            .properties
            .reason_string()
            .unwrap_or_default()
            .to_owned(),
    }
}

fn connect_properties(
    options: &ClientOptions,
    carried: &CommandLineProperties,
    session: SessionOptions,
) -> Result<PropertiesBuffer, ClientError> {
    let mut properties = carried.of(PropertyPacket::Connect)?;
    let is_given = properties
        .as_properties()
        .find(|property| matches!(property, Property::SessionExpiryInterval(_)).then_some(()))
        .is_some();
    let expiry = match options.session_expiry_interval {
        Some(-1) => u32::MAX,
        Some(seconds) => u32::try_from(seconds).map_err(|_| {
            ClientError::Usage("-x takes a number of seconds, or -1 for no expiry".to_owned())
        })?,
        None => session.expiry_seconds,
    };
    if options.version.has_properties() && expiry > 0 && !is_given {
        properties.push(&Property::SessionExpiryInterval(expiry))?;
    }
    Ok(properties)
}
