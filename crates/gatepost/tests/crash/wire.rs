//! MQTT 3.1.1 and 5 by hand, as far as this test needs them: a client that we control to the byte.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The longest wait of a read before the client checks whether to stop.
const READ_TIMEOUT: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Packet {
    Connack {
        is_accepted: bool,
        session_present: bool,
    },
    Publish(Publish),
    Puback(u16),
    Pubrec(u16),
    Pubrel(u16),
    Pubcomp(u16),
    Suback,
    /// PUBACK, PUBREC or PUBCOMP with a reason that is an error, or DISCONNECT: MQTT 5 only.
    Refused,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    Mqtt311,
    Mqtt5,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Publish {
    pub(crate) topic: String,
    pub(crate) payload: String,
    pub(crate) qos: u8,
    pub(crate) dup: bool,
    pub(crate) packet_id: u16,
}

pub(crate) struct Connection {
    version: Version,
    stream: TcpStream,
    received: Vec<u8>,
    out: Vec<u8>,
}

impl Connection {
    /// Connects with a session that outlives the connection.
    pub(crate) fn open(
        address: SocketAddr,
        version: Version,
        client_id: &str,
    ) -> io::Result<(Self, bool)> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        stream.set_nodelay(true)?;
        let mut connection = Self {
            version,
            stream,
            received: Vec::new(),
            out: Vec::new(),
        };
        let mut body = match version {
            Version::Mqtt311 => b"\0\x04MQTT\x04\0\0\0".to_vec(),
            // The session never expires (section 3.1.2.11.2).
            Version::Mqtt5 => b"\0\x04MQTT\x05\0\0\0\x05\x11\xff\xff\xff\xff".to_vec(),
        };
        put_text(&mut body, client_id);
        connection.put(0x10, &body);
        connection.flush()?;
        loop {
            if let Some(packet) = connection.receive()? {
                let Packet::Connack {
                    is_accepted,
                    session_present,
                } = packet
                else {
                    panic!("{packet:?} before CONNACK");
                };
                if !is_accepted {
                    return Err(io::ErrorKind::ConnectionRefused.into());
                }
                return Ok((connection, session_present));
            }
        }
    }

    pub(crate) fn put_publish(&mut self, publish: &Publish) {
        let mut body = Vec::new();
        put_text(&mut body, &publish.topic);
        body.extend(publish.packet_id.to_be_bytes());
        if self.version == Version::Mqtt5 {
            body.push(0); // no properties
        }
        body.extend(publish.payload.as_bytes());
        self.put(0x30 | publish.qos << 1 | u8::from(publish.dup) << 3, &body);
    }

    pub(crate) fn put_subscribe(&mut self, filter: &str) {
        let mut body = vec![0, 1];
        put_text(&mut body, filter);
        body.push(2);
        self.put(0x82, &body);
    }

    /// PUBACK 0x40, PUBREC 0x50, PUBREL 0x62, PUBCOMP 0x70.
    pub(crate) fn put_ack(&mut self, first: u8, packet_id: u16) {
        self.put(first, &packet_id.to_be_bytes());
    }

    fn put(&mut self, first: u8, body: &[u8]) {
        self.out.push(first);
        let mut length = body.len();
        loop {
            let byte = (length % 128) as u8;
            length /= 128;
            self.out.push(byte | if length > 0 { 0x80 } else { 0 });
            if length == 0 {
                break;
            }
        }
        self.out.extend(body);
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }

    /// The next packet; `None` if none arrived for a moment.
    pub(crate) fn receive(&mut self) -> io::Result<Option<Packet>> {
        loop {
            if let Some(packet) = self.take_packet() {
                return Ok(Some(packet));
            }
            let mut buffer = [0; 16 * 1024];
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.received.extend(&buffer[..count]),
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                    ) =>
                {
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn take_packet(&mut self) -> Option<Packet> {
        let mut length = 0;
        let mut header = 1;
        loop {
            let byte = *self.received.get(header)?;
            length |= usize::from(byte & 0x7F) << (7 * (header - 1));
            header += 1;
            if byte & 0x80 == 0 {
                break;
            }
        }
        if self.received.len() < header + length {
            return None;
        }
        let packet: Vec<u8> = self.received.drain(..header + length).collect();
        Some(understand(packet[0], &packet[header..]))
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u16).to_be_bytes());
    out.extend(text.as_bytes());
}

fn understand(first: u8, body: &[u8]) -> Packet {
    let number = |at: usize| u16::from_be_bytes([body[at], body[at + 1]]);
    // MQTT 5 section 3.4.2.1: without a reason code it is success.
    let is_error = |at: usize| body.get(at).is_some_and(|&reason| reason >= 0x80);
    match first >> 4 {
        2 => Packet::Connack {
            is_accepted: body[1] == 0,
            session_present: body[0] == 1,
        },
        3 => {
            let qos = first >> 1 & 3;
            let topic_end = 2 + usize::from(number(0));
            let payload = topic_end + if qos > 0 { 2 } else { 0 };
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("our own text");
            Packet::Publish(Publish {
                topic: text(&body[2..topic_end]),
                payload: text(&body[payload..]),
                qos,
                dup: first & 8 != 0,
                packet_id: if qos > 0 { number(topic_end) } else { 0 },
            })
        }
        4 | 5 if is_error(2) => Packet::Refused,
        // "Packet identifier not found" ends what an earlier PUBREL had released.
        7 if is_error(2) && body[2] != 0x92 => Packet::Refused,
        14 => Packet::Refused,
        4 => Packet::Puback(number(0)),
        5 => Packet::Pubrec(number(0)),
        6 => Packet::Pubrel(number(0)),
        7 => Packet::Pubcomp(number(0)),
        9 => {
            assert!(body[2..].iter().all(|&code| code <= 2), "subscribed");
            Packet::Suback
        }
        other => panic!("packet type {other}"),
    }
}
