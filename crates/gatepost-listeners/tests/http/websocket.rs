//! WebSocket frames at both of its ends, a reader of events and MQTT: the cases beside this file.

use gatepost_listeners::listener_context::SharedLimits;
use gatepost_listeners::mqtt::{self, MqttContext, MqttSettings, WebSocketStart};

use super::*;

const CASES: &str = include_str!("websocket-cases.txt");
const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

fn bytes_of(hex: &str) -> Vec<u8> {
    let (hex, count) = hex.split_once('*').unwrap_or((hex, "1"));
    let digits: Vec<_> = hex.chars().map(|c| c.to_digit(16).expect("hex")).collect();
    let bytes: Vec<_> = digits
        .chunks(2)
        .map(|pair| (pair[0] << 4 | pair[1]) as u8)
        .collect();
    bytes.repeat(count.parse().expect("a count"))
}

/// A frame, masked where a client sends it.
fn frame(notation: &str, is_masked: bool) -> Vec<u8> {
    if let Some(raw) = notation.strip_prefix("raw=") {
        return bytes_of(raw);
    }
    let (first, payload) = notation.split_once(':').expect("FIRST:PAYLOAD");
    let payload = bytes_of(payload);
    let mut frame = bytes_of(first);
    let bit = if is_masked { 0x80 } else { 0 };
    match payload.len() {
        length @ 0..=125 => frame.push(bit | length as u8),
        length @ 126..=65_535 => {
            frame.push(bit | 0x7e);
            frame.extend((length as u16).to_be_bytes());
        }
        length => {
            frame.push(bit | 127);
            frame.extend((length as u64).to_be_bytes());
        }
    }
    if !is_masked {
        frame.extend(payload);
        return frame;
    }
    frame.extend(MASK);
    let masked = payload.iter().zip(MASK.iter().cycle());
    frame.extend(masked.map(|(byte, mask)| byte ^ mask));
    frame
}

fn frames(notation: &str, is_masked: bool) -> Vec<u8> {
    let words = notation.split_whitespace();
    words.flat_map(|word| frame(word, is_masked)).collect()
}

/// A server whose `/mqtt` is MQTT.
fn start() -> Server {
    let fixture = Fixture::new();
    let broker = fixture.services.broker.clone();
    let mqtt = Arc::new(MqttContext::new(
        MqttSettings::default(),
        broker,
        None,
        &SharedLimits::default(),
    ));
    let handler: http::WebSocketHandler = Arc::new(move |upgraded| {
        let mqtt = Arc::clone(&mqtt);
        Box::pin(async move {
            let start = WebSocketStart {
                is_local: upgraded.is_local,
                identity: upgraded.identity.as_ref(),
                certified: upgraded.certified.as_deref(),
                received: &upgraded.received,
            };
            mqtt::serve_websocket(upgraded.stream, upgraded.peer, start, mqtt).await;
        })
    });
    Server::start_in(fixture, |_| {}, |context| context.with_websocket(handler))
}

fn run_case(server: &Server, path: &str, sent: &str, with_handshake: bool) -> Vec<u8> {
    let mut client = server.connect();
    let handshake = attacks::handshake(path, "Host: x\r\n");
    let sent = frames(sent, true);
    if with_handshake {
        client.send(&[handshake.as_bytes(), &sent].concat());
    } else {
        client.send(handshake.as_bytes());
    }
    assert_eq!(client.head().expect("an answer").status, 101);
    if !with_handshake {
        client.send(&sent);
    }
    let mut rest = client.rest_or_reset();
    if path != "/mqtt" {
        // The event that opens ntfy's streams.
        assert_eq!(rest[0], 0x81);
        rest.drain(..2 + usize::from(rest[1]));
    }
    rest
}

#[test]
fn frames_are_answered_as_in_the_standard_by_server_and_client() {
    let server = start();
    let cases: Vec<_> = CASES
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect();
    assert!(cases.len() > 60, "{}", cases.len());
    for case in cases {
        let columns: Vec<_> = case.split('|').map(str::trim).collect();
        let [name, at, sent, received] = columns[..] else {
            panic!("{case}")
        };
        let paths: &[&str] = match at {
            "reader" => &["/alarms/ws"],
            "mqtt" => &["/mqtt"],
            "both" => &["/alarms/ws", "/mqtt"],
            other => panic!("{other}"),
        };
        let expected = frames(received, false);
        for path in paths {
            for with_handshake in [true, false] {
                let answer = run_case(&server, path, sent, with_handshake);
                assert_eq!(answer, expected, "{name} at {path}");
            }
        }
    }
}
