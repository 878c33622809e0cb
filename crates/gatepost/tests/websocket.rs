//! MQTT in WebSocket frames as they travel (section 6 of both standards).

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;

use support::Gateway;

const CONNECT: &[u8] = b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x3c\x00\x01w";
const CONNACK: &[u8] = &[0x20, 2, 0, 0];
const PINGREQ: &[u8] = &[0xC0, 0];
const PINGRESP: &[u8] = &[0xD0, 0];

struct WebSocket(TcpStream);

impl WebSocket {
    /// Asks for the subprotocol; gives the head of the answer too.
    fn open(gateway: &Gateway, subprotocol: &str) -> (Self, String) {
        let mut stream = TcpStream::connect(gateway.address("http")).expect("a connection");
        stream
            .set_read_timeout(Some(support::PATIENCE))
            .expect("a timeout");
        write!(
            stream,
            "GET /mqtt HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\
             {subprotocol}\r\n"
        )
        .expect("written");
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|count| count == 1) {
            head.push(byte[0]);
        }
        (Self(stream), String::from_utf8_lossy(&head).into_owned())
    }

    fn send(&mut self, opcode: u8, payload: &[u8]) {
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

    /// The next frame: its opcode and its payload; `None` at the end.
    fn receive(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut head = [0; 2];
        self.0.read_exact(&mut head).ok()?;
        assert!(head[1] < 126, "a short frame, and not masked");
        let mut payload = vec![0; head[1].into()];
        self.0.read_exact(&mut payload).ok()?;
        Some((head[0] & 0x0F, payload))
    }

    /// Bytes of MQTT from as many binary frames as they take.
    fn expect(&mut self, expected: &[u8]) {
        let mut got = Vec::new();
        while got.len() < expected.len() {
            let (opcode, payload) = self.receive().expect("a frame");
            assert_eq!(opcode, 2, "a binary frame");
            got.extend(payload);
        }
        assert_eq!(got, expected);
    }
}

fn gateway() -> Gateway {
    Gateway::start("rules.paths = []\n")
}

const MQTT: &str = "Sec-WebSocket-Protocol: mqtt\r\n";

#[test]
fn mqtt_6_0_0_1_text_frames_end_the_connection() {
    let gateway = gateway();
    let (mut socket, _) = WebSocket::open(&gateway, MQTT);
    socket.send(2, CONNECT);
    socket.expect(CONNACK);
    socket.send(1, PINGREQ);
    let (opcode, _) = socket.receive().expect("a frame that says why");
    assert_eq!(opcode, 8, "Close");
    assert_eq!(socket.receive(), None);
}

#[test]
fn mqtt_6_0_0_2_packets_and_frames_need_not_agree() {
    let gateway = gateway();
    let (mut socket, _) = WebSocket::open(&gateway, MQTT);
    for byte in CONNECT {
        socket.send(2, &[*byte]);
    }
    socket.expect(CONNACK);
    socket.send(2, &[PINGREQ, PINGREQ, &PINGREQ[..1]].concat());
    socket.send(2, &PINGREQ[1..]);
    socket.expect(&PINGRESP.repeat(3));
}

#[test]
fn mqtt_6_0_0_3_a_client_that_does_not_name_mqtt_is_refused() {
    let gateway = gateway();
    let (_, head) = WebSocket::open(&gateway, "Sec-WebSocket-Protocol: soap\r\n");
    assert!(head.starts_with("HTTP/1.1 4"), "{head}");
}

#[test]
fn mqtt_6_0_0_4_the_server_chooses_the_subprotocol_mqtt() {
    let gateway = gateway();
    let (_, head) = WebSocket::open(&gateway, "Sec-WebSocket-Protocol: soap, mqtt\r\n");
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    let chosen = head.to_ascii_lowercase();
    assert!(
        chosen.contains("sec-websocket-protocol: mqtt\r\n"),
        "{head}"
    );
}
