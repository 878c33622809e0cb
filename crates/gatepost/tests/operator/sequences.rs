//! Messages that are updated, cleared and deleted: by ntfy's requests and by MQTT, as readers of
//! each protocol receive it.

use serde_json::Value;

use super::support::Client;
use super::support::web_socket::WebSocket;
use super::support::{Gateway, add_user, await_some, run, text_of};
use super::{STATUS, curl, json};

const PLAIN: &str = "rules.paths = []\n";

/// Event, sequence id and text of each message that is remembered.
fn history(gateway: &Gateway, path: &str) -> Vec<(String, String, String)> {
    let reply = curl(gateway, path, &[]);
    let objects = reply.lines().map(|line| {
        let object: Value = serde_json::from_str(line).expect("JSON");
        let text = |name: &str| object[name].as_str().unwrap_or("-").to_owned();
        (text("event"), text("sequence_id"), text("message"))
    });
    objects.filter(|(event, ..)| event != "open").collect()
}

fn owned(all: &[(&str, &str, &str)]) -> Vec<(String, String, String)> {
    let own = |&(event, id, text): &(&str, &str, &str)| {
        (event.to_owned(), id.to_owned(), text.to_owned())
    };
    all.iter().map(own).collect()
}

#[test]
fn updates_and_their_end_reach_readers_of_every_protocol() {
    let gateway = Gateway::start(PLAIN);
    let mut mqtt = Client::subscribe(&gateway, "backups", "%P|%p");
    let url = gateway.url("/backups/sse");
    let mut events = Client::start("curl", &["-sN", &url]);
    events.await_line("event: open");
    let (mut socket, head) = WebSocket::open(&gateway, "/backups/ws", "Host: localhost\r\n");
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    let mut framed = || {
        let (_, text) = socket.receive().expect("a frame");
        let object: Value = serde_json::from_slice(&text).expect("JSON");
        object["event"].as_str().expect("an event").to_owned()
    };
    assert_eq!(framed(), "open");

    let first = json(&gateway, "/backups", &["-d", "10 %"]);
    let id = first["id"].as_str().expect("an id").to_owned();
    assert!(first.get("sequence_id").is_none(), "{first}");
    // ntfy gives a priority only where the publisher did.
    assert!(first.get("priority").is_none(), "{first}");
    let by_path = json(&gateway, &format!("/backups/{id}"), &["-d", "20 %"]);
    assert_eq!(by_path["sequence_id"], id.as_str());
    let field = "X-Sequence-ID: nightly";
    json(&gateway, "/backups", &["-d", "30 %", "-H", field]);
    let object = r#"{"topic":"backups","message":"40 %","sequence_id":"nightly"}"#;
    json(&gateway, "/", &["-d", object]);
    let cleared = json(&gateway, "/backups/nightly/clear", &["-X", "PUT"]);
    assert_eq!(cleared["event"], "message_clear");
    let deleted = json(&gateway, &format!("/backups/{id}"), &["-X", "DELETE"]);
    assert_eq!(
        (&deleted["event"], &deleted["sequence_id"]),
        (&"message_delete".into(), &id.as_str().into())
    );
    assert!(deleted.get("message").is_none(), "{deleted}");
    let publish = "-V 5 -q 1 -t backups -n -D publish user-property event message_delete \
        -D publish user-property sequence_id nightly -p";
    let port = gateway.port("mqtt");
    let arguments: Vec<&str> = publish.split_whitespace().chain([port.as_str()]).collect();
    let published = run("mosquitto_pub", &arguments, b"");
    assert!(published.status.success(), "{}", text_of(&published));

    let of_id = id.as_str();
    let expected = [
        ("message", "-", "10 %"),
        ("message", of_id, "20 %"),
        ("message", "nightly", "30 %"),
        ("message", "nightly", "40 %"),
        ("message_clear", "nightly", "-"),
        ("message_delete", of_id, "-"),
        ("message_delete", "nightly", "-"),
    ];
    let complete = |path: &str| {
        await_some("the history", || {
            let all = history(&gateway, path);
            (all.len() >= expected.len()).then_some(all)
        })
    };
    assert_eq!(complete("/backups/json?poll=1"), owned(&expected));
    // Events pass the filters of readers, because they concern messages that did.
    assert_eq!(
        history(&gateway, "/backups/json?poll=1&priority=max"),
        owned(&expected[4..])
    );
    for (event, ..) in expected {
        assert_eq!(framed(), event);
    }
    events.await_line(r#""event":"message_clear""#);
    mqtt.await_line("event:message_clear sequence_id:nightly|");
    mqtt.await_line(&format!("event:message_delete sequence_id:{id}|"));
    let lines = events.seen().join("\n");
    assert!(!lines.contains("event: message"), "{lines}");
}

#[test]
fn a_deletion_cancels_waiting_messages_and_links_work() {
    let gateway = Gateway::start(PLAIN);
    let later = ["-d", "wake up", "-H", "In: 25m"];
    json(&gateway, "/kitchen/oven", &later);
    let waiting = || json(&gateway, "/admin/delayed", &[])["total"].clone();
    assert_eq!(waiting(), 1);
    // A dead man's switch: the next message replaces the one that waits.
    json(&gateway, "/kitchen/oven", &later);
    assert_eq!(waiting(), 1);
    let deleted = json(&gateway, "/kitchen/oven/delete", &[]);
    assert_eq!(deleted["event"], "message_delete");
    assert_eq!(waiting(), 0);
    let read = json(&gateway, "/kitchen/oven/read", &[]);
    assert_eq!(read["event"], "message_clear");
    let foreign = ["-H", "Sec-Fetch-Site: cross-site"];
    let status = |path: &str, more: &[&str]| curl(&gateway, path, &[&STATUS[..], more].concat());
    assert_eq!(status("/kitchen/oven/delete", &foreign), "403");
    let foreign = ["-X", "DELETE", "-H", "Origin: https://example.net"];
    assert_eq!(status("/kitchen/oven", &foreign), "403");
}

#[test]
fn unsupported_fields_and_paths_are_refused() {
    let gateway = Gateway::start(PLAIN);
    let status = |path: &str, more: &[&str]| curl(&gateway, path, &[&STATUS[..], more].concat());
    for field in [
        "X-Sequence-ID: a b",
        "X-Sequence-ID: 12345678901234567890123456789012345678901234567890123456789012345",
        "X-Call: yes",
        "X-Template: github",
        "Priority: 7",
    ] {
        let reply = curl(&gateway, "/alarms", &["-d", "x", "-H", field]);
        assert!(reply.contains(r#""code":400"#), "{field}: {reply}");
    }
    // The field of HTTP with the same name (RFC 9218) is not ntfy's.
    let sent = json(&gateway, "/alarms", &["-d", "x", "-H", "Priority: u=1, i"]);
    assert!(sent.get("priority").is_none(), "{sent}");
    for path in ["/v1/account", "/v1/account/token", "/v1/tiers"] {
        for method in ["GET", "POST", "PATCH"] {
            let reply = curl(&gateway, path, &["-X", method]);
            assert!(reply.contains("not supported"), "{method} {path}: {reply}");
        }
    }
    for path in ["/alarms/publish", "/alarms/json", "/file/abc", "/a/b/c"] {
        assert!(status(path, &["-d", "x"]).starts_with('4'), "{path}");
    }
    assert_eq!(history(&gateway, "/alarms/json?poll=1").len(), 1);
}

#[test]
fn who_may_not_publish_may_not_change_messages() {
    let gateway = Gateway::start(&format!("{PLAIN}access.default = \"deny\"\n"));
    add_user(&gateway, "root", "secret", &["--admin"]);
    add_user(&gateway, "reader", "others", &[]);
    let status = |path: &str, login: &str, more: &[&str]| {
        let login = ["--user", login];
        curl(&gateway, path, &[&STATUS[..], &login, more].concat())
    };
    await_some("the users are known", || {
        (status("/admin/state", "reader:others", &[]) == "403").then_some(())
    });
    let root = "root:secret";
    assert_eq!(
        status("/alarms/fire", root, &["-d", "smoke", "-H", "In: 25m"]),
        "200"
    );
    for (method, path) in [
        ("DELETE", "/alarms/fire"),
        ("PUT", "/alarms/fire/clear"),
        ("GET", "/alarms/fire/delete"),
        ("POST", "/alarms/fire"),
    ] {
        let refused = status(path, "reader:others", &["-X", method]);
        assert_eq!(refused, "403", "{method} {path}");
    }
    let waiting = json(&gateway, "/admin/delayed", &["--user", root]);
    assert_eq!(waiting["total"], 1, "{waiting}");
    assert_eq!(status("/alarms/fire", root, &["-X", "DELETE"]), "200");
}
