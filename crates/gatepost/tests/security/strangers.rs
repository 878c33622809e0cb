//! Strangers whose connection comes from this machine: a page of another name, and the client of a
//! proxy.

use std::net::SocketAddr;

use crate::support::Gateway;
use crate::support::web_socket::WebSocket;

const CONNECT: &[u8] = b"\x10\x0d\0\x04MQTT\x04\x02\0\x3c\0\x01w";
const SUBSCRIBE_ALL: &[u8] = b"\x82\x06\0\x01\0\x01#\0";
const SUBACK: &[u8] = &[0x90, 3, 0, 1, 0];

/// The code of CONNACK for a client of MQTT over WebSocket; where it is accepted, it has
/// subscribed to everything.
pub(crate) fn knock(address: SocketAddr, fields: &str) -> u8 {
    let fields = format!("{fields}Sec-WebSocket-Protocol: mqtt\r\n");
    let (mut socket, head) = WebSocket::open_at(address, "/mqtt", &fields);
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    socket.send(2, CONNECT);
    let (_, connack) = socket.receive().expect("a frame");
    let [0x20, 2, _, code] = connack[..] else {
        panic!("{connack:x?}");
    };
    if code == 0 {
        socket.send(2, SUBSCRIBE_ALL);
        socket.expect(SUBACK);
    }
    code
}

/// MQTT 3.1.1 section 3.2.2.3.
pub(crate) const NOT_AUTHORIZED: u8 = 5;

#[test]
fn an_unauthenticated_client_subscribes_to_nothing_by_websocket() {
    let gateway = Gateway::start("rules.paths = []\n");
    assert_eq!(knock(gateway.address("http"), "Host: localhost\r\n"), 0);
    let page = "Host: evil.example\r\nOrigin: http://evil.example\r\n";
    assert_eq!(knock(gateway.address("http"), page), NOT_AUTHORIZED);
    let forwarded = "Host: localhost\r\nX-Forwarded-For: 203.0.113.9\r\n";
    assert_eq!(
        knock(gateway.address("http"), forwarded),
        NOT_AUTHORIZED,
        "unknown proxy"
    );
    let trusting = "rules.paths = []\nlisteners.http.trusted_proxies = [\"127.0.0.1\"]\n";
    let gateway = Gateway::start(trusting);
    assert_eq!(
        knock(gateway.address("http"), forwarded),
        NOT_AUTHORIZED,
        "trusted proxy"
    );
}
