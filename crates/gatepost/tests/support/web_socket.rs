//! WebSocket frames as bytes on the wire.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::{Gateway, PATIENCE, to_the_end};

/// A client that sends and reads bare frames.
pub(crate) struct WebSocket(TcpStream);

impl WebSocket {
    /// Asks with these header fields; gives the head of the answer too.
    pub(crate) fn open(gateway: &Gateway, path: &str, fields: &str) -> (Self, String) {
        Self::open_at(gateway.address("http"), path, fields)
    }

    /// The same at another address: of a proxy in front.
    pub(crate) fn open_at(address: SocketAddr, path: &str, fields: &str) -> (Self, String) {
        let mut stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\
             {fields}\r\n"
        )
        .expect("written");
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|count| count == 1) {
            head.push(byte[0]);
        }
        (Self(stream), String::from_utf8_lossy(&head).into_owned())
    }

    pub(crate) fn send(&mut self, opcode: u8, payload: &[u8]) {
        let mask = [1, 2, 3, 4];
        let mut frame = vec![0x80 | opcode, 0x80 | payload.len() as u8];
        frame.extend(mask);
        frame.extend(
            payload
                .iter()
                .enumerate()
                .map(|(at, byte)| byte ^ mask[at % 4]),
        );
        self.0.write_all(&frame).expect("written");
    }

    /// The connection, between two frames.
    pub(crate) fn into_stream(self) -> TcpStream {
        self.0
    }

    /// The next frame: its opcode and its payload; `None` at the end.
    pub(crate) fn receive(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut head = [0; 2];
        self.0.read_exact(&mut head).ok()?;
        assert!(head[1] < 127, "a frame of less than 64 KiB, and not masked");
        let mut length = usize::from(head[1]);
        if length == 126 {
            let mut bytes = [0; 2];
            self.0.read_exact(&mut bytes).ok()?;
            length = u16::from_be_bytes(bytes).into();
        }
        let mut payload = vec![0; length];
        self.0.read_exact(&mut payload).ok()?;
        Some((head[0] & 0x0F, payload))
    }

    /// Everything until the server ends the connection.
    pub(crate) fn rest(mut self) -> Vec<u8> {
        to_the_end(&mut self.0)
    }

    /// Bytes of MQTT from as many binary frames as they take.
    pub(crate) fn expect(&mut self, expected: &[u8]) {
        let mut got = Vec::new();
        while got.len() < expected.len() {
            let (opcode, payload) = self.receive().expect("a frame");
            assert_eq!(opcode, 2, "a binary frame");
            got.extend(payload);
        }
        assert_eq!(got, expected);
    }
}
