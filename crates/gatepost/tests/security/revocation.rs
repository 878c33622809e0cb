//! The sessions and requests of a removed user end with the user.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::support::web_socket::WebSocket;
use crate::support::{Client, Gateway, add_user, await_some, run, text_of};

const ROOT: &str = "root:secret of root";
const ANNA: &str = "anna:secret of anna";

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

#[test]
fn every_stream_of_a_removed_user_ends() {
    const SSE: [&str; 2] = ["-H", "Accept: text/event-stream"];
    let gateway = Gateway::start("rules.paths = []\naccess.default = \"allow\"\n");
    let added = add_user(&gateway, "root", "secret of root", &["--admin"]);
    assert!(added.status.success(), "{}", text_of(&added));
    let added = add_user(&gateway, "anna", "secret of anna", &[]);
    assert!(added.status.success(), "{}", text_of(&added));
    await_some("the server knows anna", || {
        // Until it knows a user, it serves every client on this machine.
        let answer = curl(&gateway, ROOT, "/admin/users/anna", &["-i"]);
        answer.contains(" 200 ").then_some(())
    });
    let http2 = [&["--http2-prior-knowledge"], &SSE[..]].concat();
    let port = gateway.port("mqtt");
    let mqtt = [
        "-p",
        &port,
        "-t",
        "home",
        "-u",
        "anna",
        "-P",
        "secret of anna",
    ];
    let mut streams = [
        ("SSE", read(&gateway, "/topics/home", &SSE)),
        ("/json", read(&gateway, "/home/json", &[])),
        ("HTTP/2", read(&gateway, "/topics/home", &http2)),
        ("HTTP/2 /json", read(&gateway, "/home/json", &http2[..1])),
        ("MQTT", Client::start("mosquitto_sub", &mqtt)),
    ];
    let login = BASE64.encode(ANNA);
    let fields = format!("Host: localhost\r\nAuthorization: Basic {login}\r\n");
    let (websocket, head) = WebSocket::open(&gateway, "/home/ws", &fields);
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    for (name, stream) in &mut streams {
        await_some(name, || {
            curl(&gateway, ROOT, "/topics/home", &["-d", "before"]);
            let has = |line: &String| line.contains("before");
            stream.seen().iter().any(has).then_some(())
        });
    }
    let removed = curl(&gateway, ROOT, "/admin/users/anna", &["-iX", "DELETE"]);
    assert!(removed.contains(" 204 "), "{removed}");
    let later = curl(&gateway, ROOT, "/topics/home", &["-d", "published later"]);
    for (name, stream) in streams {
        let lines = stream.into_lines();
        let has = |line: &String| line.contains("published later");
        assert!(!lines.iter().any(has), "{name}: {lines:?} {later}");
    }
    let rest = String::from_utf8_lossy(&websocket.rest()).into_owned();
    assert!(rest.contains("before"), "it was open: {rest}");
    assert!(!rest.contains("published later"), "{rest}");
}
