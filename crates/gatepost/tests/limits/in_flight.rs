//! Bytes of what clients have begun to send: one budget over all listeners.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::{connect, connect_packet, converse, holds, start};

/// A PUBLISH of QoS 1 to `a`, as long as 900 KB.
fn large_publish() -> Vec<u8> {
    const PAYLOAD_BYTES: usize = 900_000;
    let mut rest = b"\0\x01a\0\x07\0".to_vec();
    rest.resize(rest.len() + PAYLOAD_BYTES, b'x');
    let mut packet = vec![0x32];
    let mut length = rest.len();
    while length > 127 {
        packet.push(length as u8 & 0x7f | 0x80);
        length >>= 7;
    }
    packet.push(length as u8);
    packet.extend(rest);
    packet
}

#[test]
fn unfinished_packets_of_mqtt_leave_room_for_others() {
    let gateway = start("in_flight.bytes_max = \"4MiB\"\n");
    let packet = large_publish();
    let (begin, end) = packet.split_at(packet.len() - 10);
    let enter = |client: &str| {
        let mut stream = connect(gateway.address("mqtt"));
        let connect = connect_packet(&[], client, 0);
        converse(&mut stream, &connect, b"\x20");
        stream
    };
    // Half of the budget is this address's: two packets, and no third.
    let mut begun: Vec<TcpStream> = (0..6).map(|number| enter(&number.to_string())).collect();
    for stream in &mut begun {
        // Requests beyond the budget are ended while they are sent.
        let _ = stream.write_all(begin);
    }
    let mut refused = 0;
    for stream in &mut begun {
        let _ = stream.write_all(end);
        let said = to_the_end_or(stream, b"\x40");
        if holds(&said, b"too many bytes are in flight") || said.is_empty() {
            refused += 1;
        }
    }
    assert!((1..6).contains(&refused), "{refused} of 6");
    let mut later = enter("later");
    // The budget is given back.
    converse(&mut later, &packet, b"\x40");
}

/// Reads until the answer holds `part`, or the end.
fn to_the_end_or(stream: &mut TcpStream, part: &[u8]) -> Vec<u8> {
    let mut said = Vec::new();
    let mut buffer = [0; 4096];
    while !said.starts_with(part) {
        match stream.read(&mut buffer) {
            Ok(count) if count > 0 => said.extend_from_slice(&buffer[..count]),
            _ => break,
        }
    }
    said
}
