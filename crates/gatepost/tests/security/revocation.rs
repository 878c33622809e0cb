//! The subscriptions of a user end with the right to them, in every protocol: when the user is
//! removed or switched off, and when the rule that granted the right is revoked; with and without
//! a prefix for the user's topics.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::support::web_socket::WebSocket;
use crate::support::{Client, Gateway, add_user, await_some, run, text_of};

const ROOT: &str = "root:secret of root";
const ANNA: &str = "anna:secret of anna";
const SSE: [&str; 2] = ["-H", "Accept: text/event-stream"];
const HTTP2: &str = "--http2-prior-knowledge";

/// MQTT 3.1.1: a CONNECT of anna's, and a SUBSCRIBE to `home` and `other`.
const CONNECT: &[u8] = b"\x10\x23\0\x04MQTT\x04\xC2\0\x3C\0\x01w\0\x04anna\0\x0Esecret of anna";
const SUBSCRIBE: &[u8] = b"\x82\x11\0\x07\0\x04home\0\0\x05other\0";

/// The ways in which anna loses the right to `home`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Revocation {
    UserRemoved,
    UserSwitchedOff,
    RuleRevoked,
}

fn curl(gateway: &Gateway, login: &str, path: &str, more: &[&str]) -> String {
    let url = gateway.url(path);
    let output = run("curl", &[&["-s", "-u", login], more, &[&url]].concat(), b"");
    text_of(&output)
}

fn read(gateway: &Gateway, path: &str, more: &[&str]) -> Client {
    let url = gateway.url(path);
    let arguments = [&["-sN", "-u", ANNA], more, &[url.as_str()]].concat();
    Client::start("curl", &arguments)
}

/// A server with root and anna, who may read `home` and `other` of her own topics.
fn gateway(prefix: &str) -> Gateway {
    let mount = if prefix.is_empty() { "" } else { "%u/" };
    let gateway = Gateway::start(&format!(
        "rules.paths = []\naccess.default = \"deny\"\naccess.mount = \"{mount}\"\n"
    ));
    for (name, more) in [("root", &["--admin"][..]), ("anna", &[])] {
        let added = add_user(&gateway, name, &format!("secret of {name}"), more);
        assert!(added.status.success(), "{}", text_of(&added));
    }
    await_some("the server knows anna", || {
        // Until it knows a user, it serves every client on this machine.
        let answer = curl(&gateway, ROOT, "/admin/users/anna", &["-i"]);
        answer.contains(" 200 ").then_some(())
    });
    for topic in ["home", "other"] {
        let rule = format!(r#"{{"access":["subscribe"],"filter":"{prefix}{topic}"}}"#);
        let granted = ["-i", "-H", "Content-Type: application/json", "-d", &rule];
        let answer = curl(&gateway, ROOT, "/admin/users/anna/rules", &granted);
        assert!(answer.contains(" 200 "), "{answer}");
    }
    gateway
}

/// Reads what the server sends until that contains `part` or ends.
fn await_bytes(socket: &mut WebSocket, part: &str, got: &mut String) {
    while !got.contains(part) {
        let Some((_, payload)) = socket.receive() else {
            return;
        };
        got.push_str(&String::from_utf8_lossy(&payload));
    }
}

fn revoke(gateway: &Gateway, revocation: Revocation, prefix: &str) {
    let user = "/admin/users/anna";
    let rule = format!("{user}/rules?access=subscribe&filter={prefix}home");
    let json = "Content-Type: application/json";
    let answer = match revocation {
        Revocation::UserRemoved => curl(gateway, ROOT, user, &["-iX", "DELETE"]),
        Revocation::UserSwitchedOff => {
            let change = ["-iX", "PATCH", "-H", json, "-d", r#"{"enabled":false}"#];
            curl(gateway, ROOT, user, &change)
        }
        Revocation::RuleRevoked => curl(gateway, ROOT, &rule, &["-iX", "DELETE"]),
    };
    assert!(answer.contains(" 20"), "{revocation:?}: {answer}");
}

fn streams_end(revocation: Revocation, prefix: &str) {
    let gateway = gateway(prefix);
    let port = gateway.port("mqtt");
    let login = ["-u", "anna", "-P", "secret of anna"];
    let mqtt = [&["-p", &port, "-t", "home", "-t", "other"], &login[..]].concat();
    let mut streams = [
        ("SSE", read(&gateway, "/topics/home", &SSE)),
        ("/json", read(&gateway, "/home/json", &[])),
        (
            "HTTP/2",
            read(&gateway, "/topics/home", &[&[HTTP2], &SSE[..]].concat()),
        ),
        ("HTTP/2 /json", read(&gateway, "/home/json", &[HTTP2])),
        ("MQTT", Client::start("mosquitto_sub", &mqtt)),
    ];
    let login = BASE64.encode(ANNA);
    let fields = format!("Host: localhost\r\nAuthorization: Basic {login}\r\n");
    let (websocket, head) = WebSocket::open(&gateway, "/home/ws", &fields);
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    let fields = "Host: localhost\r\nSec-WebSocket-Protocol: mqtt\r\n";
    let (mut mqtt, head) = WebSocket::open(&gateway, "/mqtt", fields);
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    mqtt.send(2, CONNECT);
    mqtt.expect(&[0x20, 2, 0, 0]);
    mqtt.send(2, SUBSCRIBE);
    mqtt.expect(&[0x90, 4, 0, 7, 0, 0]);

    let publish = |topic: &str, payload: &str| {
        let path = format!("/topics/{prefix}{topic}");
        let answer = curl(&gateway, ROOT, &path, &["-i", "-d", payload]);
        assert!(answer.contains(" 200 "), "{answer}");
    };
    for (name, stream) in &mut streams {
        await_some(name, || {
            publish("home", "before");
            let has = |line: &String| line.contains("before");
            stream.seen().iter().any(has).then_some(())
        });
    }
    let mut got = String::new();
    await_bytes(&mut mqtt, "before", &mut got);
    revoke(&gateway, revocation, prefix);
    publish("home", "published later");
    publish("other", "at the end");

    // A connection of MQTT does not end with one of its subscriptions.
    let is_connected = revocation == Revocation::RuleRevoked;
    for (name, mut stream) in streams {
        let lines = if is_connected && name == "MQTT" {
            stream.await_line("at the end");
            stream.seen().to_vec()
        } else {
            stream.into_lines()
        };
        let has = |line: &String| line.contains("published later");
        assert!(!lines.iter().any(has), "{revocation:?} {name}: {lines:?}");
    }
    let rest = String::from_utf8_lossy(&websocket.rest()).into_owned();
    assert!(rest.contains("before"), "it was open: {rest}");
    assert!(!rest.contains("published later"), "{revocation:?}: {rest}");
    await_bytes(&mut mqtt, "at the end", &mut got);
    assert_eq!(
        got.contains("at the end"),
        is_connected,
        "{revocation:?}: {got}"
    );
    assert!(!got.contains("published later"), "{revocation:?}: {got}");
}

#[test]
fn every_stream_of_a_removed_user_ends() {
    streams_end(Revocation::UserRemoved, "");
}

#[test]
fn every_stream_of_a_user_who_is_switched_off_ends() {
    streams_end(Revocation::UserSwitchedOff, "");
}

#[test]
fn every_stream_ends_with_the_rule_that_granted_it() {
    streams_end(Revocation::RuleRevoked, "");
}

#[test]
fn every_stream_of_a_user_with_a_prefix_ends_in_the_same_way() {
    streams_end(Revocation::UserRemoved, "anna/");
    streams_end(Revocation::UserSwitchedOff, "anna/");
    streams_end(Revocation::RuleRevoked, "anna/");
}
