//! MQTT 3.1.1 by hand, for publications whose acknowledgement is to be awaited or left open.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::state::{PASSWORD, USER};
use super::support::{Gateway, PATIENCE};

pub(crate) struct Publisher {
    stream: TcpStream,
}

impl Publisher {
    /// Connects with a session that outlives the connection.
    pub(crate) fn connect(gateway: &Gateway, client_id: &str) -> Self {
        let stream = TcpStream::connect(gateway.address("mqtt")).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut publisher = Self { stream };
        // User name, password, session kept; no keep alive.
        let mut body = b"\x00\x04MQTT\x04\xc0\x00\x00".to_vec();
        for text in [client_id, USER, PASSWORD] {
            push(&mut body, text);
        }
        publisher.send(0x10, &body);
        assert_eq!(publisher.answer(0x20)[1], 0, "accepted");
        publisher
    }

    /// Publishes at QoS 1 and waits for the acknowledgement.
    pub(crate) fn publish(&mut self, topic: &str, payload: &str) {
        self.send_publish(0x32, topic, 1, payload);
        assert_eq!(self.answer(0x40), [0, 1]);
    }

    /// Publishes at QoS 2 without PUBREL: the packet identifier remains in use.
    pub(crate) fn publish_half(&mut self, topic: &str, payload: &str) {
        self.send_publish(0x34, topic, 7, payload);
        assert_eq!(self.answer(0x50), [0, 7]);
    }

    fn send_publish(&mut self, head: u8, topic: &str, packet_id: u16, payload: &str) {
        let mut body = Vec::new();
        push(&mut body, topic);
        body.extend(packet_id.to_be_bytes());
        body.extend(payload.as_bytes());
        self.send(head, &body);
    }

    fn send(&mut self, head: u8, body: &[u8]) {
        let length = u8::try_from(body.len()).expect("a short packet");
        assert!(length < 0x80, "a length of one byte");
        let packet = [&[head, length], body].concat();
        self.stream.write_all(&packet).expect("written");
    }

    /// The two bytes after the head of an acknowledgement.
    fn answer(&mut self, head: u8) -> [u8; 2] {
        let mut packet = [0; 4];
        self.stream.read_exact(&mut packet).expect("an answer");
        assert_eq!(packet[..2], [head, 2]);
        [packet[2], packet[3]]
    }
}

fn push(body: &mut Vec<u8>, text: &str) {
    let length = u16::try_from(text.len()).expect("a short text");
    body.extend(length.to_be_bytes());
    body.extend(text.as_bytes());
}
