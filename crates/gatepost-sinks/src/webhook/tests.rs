//! Requests as a peer of the test's own receives them, and the effect of its answers.

use std::time::{Duration, Instant};

use gatepost_message::{Properties, Qos};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::*;

fn delivery() -> SinkDelivery {
    let user = [
        ("title", "Fire \"now\""),
        ("priority", "5"),
        ("tags", "fire, room4"),
    ];
    SinkDelivery {
        id: "065jyk1000000".parse().expect("an id"),
        topic: "alarms/fire".to_owned(),
        payload: Bytes::from_static("<b>smoke</b> & \"quotes\"\n\u{1f525} in {room} 4".as_bytes()),
        properties: Properties {
            user: user
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .to_vec(),
            ..Properties::default()
        },
        qos: Qos::AtLeastOnce,
        retain: false,
        dup: false,
        packet_id: None,
        expires: None,
    }
}

/// A webhook to a peer that answers the connections one after the other with these bytes; and the
/// requests that it received.
async fn webhook(
    answers: Vec<&'static str>,
    change: impl FnOnce(&mut WebhookSettings),
) -> (Webhook, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (sender, received) = mpsc::channel(16);
    tokio::spawn(async move {
        for answer in answers {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let sender = sender.clone();
            tokio::spawn(async move {
                while let Some(request) = request(&mut stream).await {
                    let _ = sender.send(request).await;
                    if answer.is_empty() {
                        return;
                    }
                    let (first, again) = answer.split_once('|').unwrap_or((answer, ""));
                    let mut sent = stream.write_all(first.as_bytes()).await;
                    while sent.is_ok() && !again.is_empty() {
                        sent = stream.write_all(again.as_bytes()).await;
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                }
            });
        }
    });
    let mut settings = WebhookSettings {
        url: format!("http://127.0.0.1:{port}/hook/{{id}}"),
        allow_private: true,
        timeout: "2s".parse().expect("a period"),
        ..WebhookSettings::default()
    };
    change(&mut settings);
    let webhook = Webhook::new("chat", &settings).map_err(|mistake| mistake.reason);
    (webhook.expect("no mistake"), received)
}

/// A whole request, where one comes.
async fn request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.expect("a length").parse().expect("a number") {
                return Some(text);
            }
        }
    }
}

#[tokio::test]
async fn a_request_has_the_message_and_its_id_and_connections_are_kept() {
    let ok = "HTTP/1.1 204 No Content\r\n\r\n";
    let (webhook, mut received) = webhook(vec![ok], |settings| {
        settings
            .headers
            .insert("X-Key".to_owned(), "secret".to_owned());
    })
    .await;
    for _ in 0..3 {
        // The peer accepts one connection only.
        assert_eq!(webhook.send(&delivery()).await, Ok(()));
        let request = received.recv().await.expect("a request");
        let (head, body) = request.split_once("\r\n\r\n").expect("a head");
        assert!(
            head.starts_with("POST /hook/065jyk1000000 HTTP/1.1\r\n"),
            "{head}"
        );
        for field in [
            "webhook-id: 065jyk1000000",
            "x-key: secret",
            "webhook-timestamp: ",
        ] {
            assert!(head.contains(field), "{field}: {head}");
        }
        assert!(!head.contains("webhook-signature"), "{head}");
        let body: Value = serde_json::from_str(body).expect("JSON");
        assert_eq!(body["topic"], "alarms/fire");
        assert_eq!(
            body["payload"].as_str().map(str::as_bytes),
            Some(&delivery().payload[..])
        );
        assert_eq!(body["properties"][1], json!(["priority", "5"]));
    }
}

#[tokio::test]
async fn malformed_responses_are_repeated_or_judged_by_their_status() {
    for (answer, is_taken) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", true),
        // A body without an end.
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n|4\r\nmore\r\n",
            true,
        ),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n|more",
            true,
        ),
        ("HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n", false),
        ("HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n", false),
        (
            "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
            false,
        ),
        ("HTTP/9.9 200 OK\r\n\r\n", false),
        ("220 mail.example.org ESMTP\r\n", false),
        // A head without an end.
        ("HTTP/1.1 200 OK\r\n|x-more: more\r\n", false),
        (
            "HTTP/1.1 100 Continue\r\n\r\n|HTTP/1.1 100 Continue\r\n\r\n",
            false,
        ),
        // It closes.
        ("", false),
    ] {
        let (webhook, _received) = webhook(vec![answer], |_| {}).await;
        let began = Instant::now();
        let outcome = webhook.send(&delivery()).await;
        assert_eq!(outcome.is_ok(), is_taken, "{answer}: {outcome:?}");
        if !is_taken {
            assert!(
                matches!(outcome, Err(AttemptFailure::Again { .. })),
                "{answer}: {outcome:?}"
            );
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{answer}");
    }
}

#[tokio::test]
async fn silence_ends_with_the_timeout_and_private_addresses_get_no_request() {
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = silent.local_addr().expect("an address").port();
    for (host, allow_private, said) in [
        ("127.0.0.1", true, "no answer within"),
        ("127.0.0.1", false, "127.0.0.1 is not a public address"),
        ("localhost", false, "is not a public address"),
        ("[::ffff:127.0.0.1]", false, "is not a public address"),
    ] {
        let settings = WebhookSettings {
            url: format!("http://{host}:{port}/"),
            allow_private,
            timeout: "200ms".parse().expect("a period"),
            ..WebhookSettings::default()
        };
        let webhook = Webhook::new("chat", &settings).map_err(|mistake| mistake.reason);
        let failure = webhook
            .expect("no mistake")
            .send(&delivery())
            .await
            .expect_err(host);
        assert!(failure.to_string().contains(said), "{host}: {failure}");
    }
}

/// The request that each service expects, as its documentation has it: Slack's and Discord's
/// incoming webhooks, a Teams workflow's adaptive card, Matrix' `m.room.message`, Telegram's
/// `sendMessage`, ntfy's publish as JSON, Gotify's message, PagerDuty's Events API v2,
/// Alertmanager's API v2.
#[test]
fn ready_templates_render_the_requests_of_the_services() {
    let variables = [
        ("chat_id", "123"),
        ("topic", "alarms"),
        ("routing_key", "R0"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    for name in [
        "alertmanager",
        "discord",
        "gotify",
        "matrix",
        "ntfy",
        "pagerduty",
        "slack",
        "teams",
        "telegram",
    ] {
        let template = SinkTemplate::new(ready(name).expect(name), true, 1).expect(name);
        let body = template
            .render("chat", &variables.clone().into(), &delivery())
            .expect(name);
        let made: Value = serde_json::from_slice(&body).expect(name);
        let file = format!(
            "{}/tests/data/templates/{name}.json",
            env!("CARGO_MANIFEST_DIR")
        );
        let text = std::fs::read_to_string(&file).expect(&file);
        let expected: Value = serde_json::from_str(&text).expect(&file);
        assert_eq!(made, expected, "{name}: {made:#}");
    }
}

#[test]
fn a_cleared_alarm_resolves_its_incident() {
    let template = SinkTemplate::new(ready("pagerduty").expect("it is there"), true, 1);
    let template = template.expect("a template");
    for (state, expected) in [("raised", "trigger"), ("cleared", "resolve")] {
        let mut notice = delivery();
        let property = ("state".to_owned(), state.to_owned());
        notice.properties.user.push(property);
        let body = template.render("pager", &BTreeMap::new(), &notice);
        let body: Value = serde_json::from_slice(&body.expect("a body")).expect("JSON");
        assert_eq!(body["event_action"], expected);
        assert_eq!(body["dedup_key"], "alarms/fire");
    }
}

#[test]
fn a_cleared_alarm_ends_its_alert() {
    let template = SinkTemplate::new(ready("alertmanager").expect("it is there"), true, 1);
    let template = template.expect("a template");
    let made = |state: &str, priority: &str| {
        let mut notice = delivery();
        let properties = [
            ("state", state),
            ("priority", priority),
            ("alarm_priority", "5"),
        ];
        let properties = properties.map(|(name, value)| (name.to_owned(), value.to_owned()));
        notice.properties.user = properties.into();
        let body = template.render("alerts", &BTreeMap::new(), &notice);
        let body: Value = serde_json::from_slice(&body.expect("a body")).expect("JSON");
        body[0].clone()
    };
    let (raised, cleared) = (made("raised", "5"), made("cleared", "3"));
    assert_eq!(raised["labels"], cleared["labels"]);
    assert_eq!(raised["labels"]["severity"], "critical");
    assert_eq!(raised["endsAt"], Value::Null);
    assert_eq!(cleared["endsAt"], cleared["startsAt"]);
}

#[test]
fn no_payload_breaks_out_of_a_template_and_errors_are_named() {
    let render = |source: &str, payload: &'static [u8]| {
        let mut delivery = delivery();
        delivery.payload = Bytes::from_static(payload);
        let template = SinkTemplate::new(source, true, 1).map_err(|error| error.to_string())?;
        let body = template.render("chat", &BTreeMap::new(), &delivery);
        let body = body.map_err(|error| error.to_string())?;
        Ok::<_, String>(String::from_utf8(body).expect("text"))
    };
    let text = render(
        r#"{"a": {{ payload }}, "b": {{ json.x.y }}}"#,
        b"\", \"admin\": true \xff",
    );
    let value: Value = serde_json::from_str(&text.expect("a body")).expect("JSON");
    assert_eq!(value["a"], "\", \"admin\": true \u{fffd}");
    assert_eq!(value["b"], Value::Null);
    let number = render("{{ json.celsius + 1 }}", b"{\"celsius\": 20}");
    assert_eq!(number.as_deref(), Ok("21"));
    let cut = render("{{ payload | cut(3) }}", "äöüß".as_bytes());
    assert_eq!(cut.as_deref(), Ok("\"äö…\""));
    for (source, said) in [
        ("{{ payload", "syntax error"),
        ("{{ payload }}{{ payload }}", "is not JSON"),
        (
            "{% for a in range(10000) %}{% for b in range(10000) %}1{% endfor %}{% endfor %}",
            "fuel",
        ),
        ("{{ payload | unknown }}", "unknown"),
    ] {
        let error = render(source, b"x").expect_err(source);
        assert!(error.contains(said), "{source}: {error}");
    }
}
