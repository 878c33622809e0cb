//! Clients that send requests endlessly and read no answer: the bytes that wait for them stay
//! bounded.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::start;
use super::support::web_socket::WebSocket;
use super::support::{Gateway, PATIENCE};

/// The most bytes that a client sends. The server's answers are as long.
const FLOOD_BYTES: usize = 96 << 20;
/// The memory that the process may take for it, besides the buffers of the kernel.
const GROWTH_KB_MAX: u64 = 30_000;
/// A Ping with the longest payload, masked with zeros.
const PING_PAYLOAD: usize = 125;

const CONNECT: &[u8] = b"\x10\x0d\0\x04MQTT\x05\x02\0\0\0\0\0";
const PINGREQ: &[u8] = &[0xC0, 0];

fn ping() -> Vec<u8> {
    let mut frame = vec![0x89, 0x80 | PING_PAYLOAD as u8, 0, 0, 0, 0];
    frame.resize(frame.len() + PING_PAYLOAD, b'x');
    frame
}

/// Sends Pings until the server reads no more; the part of the last one that is still to be sent.
fn flood(stream: &mut TcpStream) -> Vec<u8> {
    let several = ping().repeat(500);
    stream
        .set_write_timeout(Some(Duration::from_secs(2)))
        .expect("a timeout");
    let mut sent = 0;
    while sent < FLOOD_BYTES {
        let begun = sent % several.len();
        match stream.write(&several[begun..]) {
            Ok(count) => sent += count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                break;
            }
            Err(error) => panic!("{error}"),
        }
    }
    let frame = ping();
    let begun = sent % frame.len();
    if begun == 0 {
        Vec::new()
    } else {
        frame[begun..].to_vec()
    }
}

/// Sends requests without reading; returns the connection, and the bytes that are left to send.
fn flooded(gateway: &Gateway, socket: WebSocket) -> (TcpStream, Vec<u8>) {
    let before = gateway.peak_kb();
    let mut stream = socket.into_stream();
    let rest = flood(&mut stream);
    let growth = gateway.peak_kb().saturating_sub(before);
    assert!(growth < GROWTH_KB_MAX, "it grew by {growth} kB");
    (stream, rest)
}

#[test]
fn a_client_of_mqtt_that_reads_no_answer_is_not_read_either() {
    let gateway = start("");
    let fields = "Host: localhost\r\nSec-WebSocket-Protocol: mqtt\r\n";
    let (mut socket, head) = WebSocket::open(&gateway, "/mqtt", fields);
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    socket.send(2, CONNECT);
    let (_, connack) = socket.receive().expect("a frame");
    assert!(connack.starts_with(&[0x20]), "{connack:?}");
    let (mut stream, rest) = flooded(&gateway, socket);

    // Once it reads, everything is answered.
    let mut writing = stream.try_clone().expect("a second handle");
    writing
        .set_write_timeout(Some(PATIENCE))
        .expect("a timeout");
    let writer = std::thread::spawn(move || {
        let last = [&[0x82, 0x80 | PINGREQ.len() as u8, 0, 0, 0, 0], PINGREQ].concat();
        writing
            .write_all(&[&rest[..], &last].concat())
            .expect("read again");
    });
    let pingresp = [0x82, 2, 0xD0, 0];
    let mut last_bytes = Vec::new();
    let mut buffer = vec![0; 1 << 20];
    while !last_bytes.ends_with(&pingresp) {
        let count = stream.read(&mut buffer).expect("answers");
        assert!(count > 0, "the server has ended the connection");
        last_bytes.extend_from_slice(&buffer[..count]);
        last_bytes.drain(..last_bytes.len().saturating_sub(pingresp.len()));
    }
    writer.join().expect("all was sent");
}

#[test]
fn a_reader_of_events_that_reads_no_pong_gets_few() {
    let gateway = start("");
    let fields = "Host: localhost\r\n";
    let (socket, head) = WebSocket::open(&gateway, "/alarms/ws", fields);
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    flooded(&gateway, socket);
}
