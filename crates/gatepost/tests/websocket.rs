//! MQTT in WebSocket frames on the wire (section 6 of both standards).

mod support;

use support::Gateway;
use support::web_socket::WebSocket;

const CONNECT: &[u8] = b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x3c\x00\x01w";
const CONNACK: &[u8] = &[0x20, 2, 0, 0];
const PINGREQ: &[u8] = &[0xC0, 0];
const PINGRESP: &[u8] = &[0xD0, 0];

fn gateway() -> Gateway {
    Gateway::start("rules.paths = []\n")
}

const MQTT: &str = "Host: localhost\r\nSec-WebSocket-Protocol: mqtt\r\n";

#[test]
fn mqtt_6_0_0_1_text_frames_end_the_connection() {
    let gateway = gateway();
    let (mut socket, _) = WebSocket::open(&gateway, "/mqtt", MQTT);
    socket.send(2, CONNECT);
    socket.expect(CONNACK);
    socket.send(1, PINGREQ);
    let (opcode, _) = socket.receive().expect("a frame that says why");
    assert_eq!(opcode, 8, "Close");
    assert_eq!(socket.receive(), None);
}

#[test]
fn mqtt_6_0_0_2_packets_may_span_frames() {
    let gateway = gateway();
    let (mut socket, _) = WebSocket::open(&gateway, "/mqtt", MQTT);
    for byte in CONNECT {
        socket.send(2, &[*byte]);
    }
    socket.expect(CONNACK);
    socket.send(2, &[PINGREQ, PINGREQ, &PINGREQ[..1]].concat());
    socket.send(2, &PINGREQ[1..]);
    socket.expect(&PINGRESP.repeat(3));
}

#[test]
fn mqtt_6_0_0_3_a_client_without_the_subprotocol_mqtt_is_refused() {
    let gateway = gateway();
    let (_, head) = WebSocket::open(
        &gateway,
        "/mqtt",
        "Host: localhost\r\nSec-WebSocket-Protocol: soap\r\n",
    );
    assert!(head.starts_with("HTTP/1.1 4"), "{head}");
}

#[test]
fn mqtt_6_0_0_4_the_server_chooses_the_subprotocol_mqtt() {
    let gateway = gateway();
    let (_, head) = WebSocket::open(
        &gateway,
        "/mqtt",
        "Host: localhost\r\nSec-WebSocket-Protocol: soap, mqtt\r\n",
    );
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    let chosen = head.to_ascii_lowercase();
    assert!(
        chosen.contains("sec-websocket-protocol: mqtt\r\n"),
        "{head}"
    );
}
