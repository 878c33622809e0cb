//! Web Push to a push service of the test's own, by a browser of the test's own: the messages are
//! decrypted, and the server's signature is verified, by pywebpush's libraries.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD as BASE64, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::support::{Gateway, add_user, await_some, command, feed, post, root, run, text_of};
use super::web_peer::{WebPeer, WebRequest};
use super::{PLAIN, lines, publish, sinks};

pub(crate) const SETTINGS: &str = "rules.paths = []\n\
     web_push.contact = \"mailto:root@example.org\"\nweb_push.allow_private = true\n";
const CREATED: &str = "201 Created\r\nlocation: https://push.example.net/m/1";

/// A browser: it makes keys, and reads the messages that its push service received.
pub(crate) struct Browser {
    keys: Value,
}

/// Runs Python with pywebpush's libraries.
fn python(script: &str, input: &Value) -> Value {
    let packages = root().join(".peers/pywebpush");
    assert!(
        packages.exists(),
        "{} is missing: run tests/install-peers",
        packages.display()
    );
    let mut python = command("python3");
    python.args(["-c", script]).env("PYTHONPATH", packages);
    let output = feed(&mut python, input.to_string().as_bytes());
    assert!(output.status.success(), "{}", text_of(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

impl Browser {
    pub(crate) fn new() -> Self {
        let script = "import base64, json, os\n\
            from cryptography.hazmat.primitives.asymmetric import ec\n\
            from cryptography.hazmat.primitives import serialization as s\n\
            text = lambda b: base64.urlsafe_b64encode(b).decode().rstrip('=')\n\
            key = ec.generate_private_key(ec.SECP256R1())\n\
            form = s.PublicFormat.UncompressedPoint\n\
            point = key.public_key().public_bytes(s.Encoding.X962, form)\n\
            print(json.dumps({'private': str(key.private_numbers().private_value),\n\
                'p256dh': text(point), 'auth': text(os.urandom(16))}))";
        Self {
            keys: python(script, &Value::Null),
        }
    }

    pub(crate) fn subscription(&self, endpoint: &str, topics: &[&str]) -> Value {
        json!({
            "endpoint": endpoint,
            "expirationTime": null,
            "keys": { "p256dh": self.keys["p256dh"], "auth": self.keys["auth"] },
            "topics": topics,
        })
    }

    /// The notifications in these requests, and the claims of the last one's token.
    pub(crate) fn read(&self, requests: &[WebRequest], server_key: &str) -> (Vec<Value>, Value) {
        let script = "import base64, json, sys, http_ece, py_vapid\n\
            from cryptography.hazmat.primitives.asymmetric import ec\n\
            b = lambda t: base64.urlsafe_b64decode(t + '=' * (-len(t) % 4))\n\
            given = json.load(sys.stdin)\n\
            key = ec.derive_private_key(int(given['keys']['private']), ec.SECP256R1())\n\
            auth = b(given['keys']['auth'])\n\
            def read(r):\n    \
                assert py_vapid.Vapid02.verify(r['authorization']), 'signature'\n    \
                assert r['authorization'].split('k=')[1] == given['server_key'], 'key'\n    \
                body = base64.b64decode(r['body'])\n    \
                return json.loads(http_ece.decrypt(body, private_key=key, auth_secret=auth))\n\
            shown = [read(r) for r in given['requests']]\n\
            token = given['requests'][-1]['authorization'].split('t=')[1].split(',')[0]\n\
            print(json.dumps([shown, json.loads(b(token.split('.')[1]))]))";
        let requests = requests.iter().map(|request| {
            json!({
                "authorization": request.field("authorization").expect("a token"),
                "body": BASE64.encode(&request.bytes),
            })
        });
        let given = json!({
            "keys": self.keys,
            "server_key": server_key,
            "requests": requests.collect::<Vec<_>>(),
        });
        let mut read = python(script, &given);
        let shown = read[0].take();
        (shown.as_array().expect("a list").clone(), read[1].take())
    }
}

/// A request to `/v1/webpush`: the status and the answer.
pub(crate) fn web_push_request(
    gateway: &Gateway,
    user: &str,
    method: &str,
    body: &Value,
) -> (u16, Value) {
    let url = gateway.url("/v1/webpush");
    let mut arguments = vec!["-s", "-X", method, "-w", "\n%{http_code}", &url];
    if !user.is_empty() {
        arguments.extend(["-u", user]);
    }
    let text = body.to_string();
    if !body.is_null() {
        arguments.extend(["-H", "content-type: application/json", "-d", &text]);
    }
    let output = run("curl", &arguments, b"");
    let answer = String::from_utf8_lossy(&output.stdout).into_owned();
    let (body, status) = answer.rsplit_once('\n').expect("a status");
    let body = serde_json::from_str(body).unwrap_or_default();
    (status.parse().expect("a status"), body)
}

pub(crate) fn subscribe(gateway: &Gateway, user: &str, subscription: &Value) {
    let (status, answer) = web_push_request(gateway, user, "POST", subscription);
    assert_eq!(
        (status, &answer["success"]),
        (200, &true.into()),
        "{answer}"
    );
}

pub(crate) fn server_key(gateway: &Gateway, user: &str) -> String {
    let (_, answer) = web_push_request(gateway, user, "GET", &Value::Null);
    answer["public_key"].as_str().expect("a key").to_owned()
}

#[test]
fn a_browser_reads_what_is_published_with_its_attributes() {
    let peer = WebPeer::start(|_, _| CREATED);
    let gateway = Gateway::start(SETTINGS);
    let browser = Browser::new();
    subscribe(
        &gateway,
        "",
        &browser.subscription(&peer.url("/a"), &["alarms", "door/#"]),
    );
    let key = server_key(&gateway, "");
    assert_eq!(URL_SAFE_NO_PAD.decode(&key).expect("base64").len(), 65);
    let url = gateway.url("/alarms");
    let fields = [
        "Title: Hall",
        "Priority: urgent",
        "Tags: fire,hall",
        "Click: https://example.org/",
        "X-Sequence-ID: 7",
    ];
    let mut arguments = vec!["-s", "-d", "smoke ☂", &url];
    arguments.extend(fields.iter().flat_map(|field| ["-H", field]));
    run("curl", &arguments, b"");
    peer.await_requests(1);
    post(&gateway, "door/front", &"long ".repeat(2_000));
    post(&gateway, "elsewhere", "not asked for");
    post(&gateway, "door/back", "closed");
    let requests = peer.await_requests(3);
    let (shown, claims) = browser.read(&requests, &key);
    assert_eq!(shown[0]["message"], "smoke ☂");
    assert_eq!(shown[0]["topic"], "alarms");
    assert_eq!(shown[0]["title"], "Hall");
    assert_eq!(shown[0]["priority"], 5);
    assert_eq!(shown[0]["tags"], json!(["fire", "hall"]));
    assert_eq!(shown[0]["click"], "https://example.org/");
    assert_eq!(shown[1]["truncated"], true);
    assert!(requests[1].bytes.len() <= 4_096);
    assert_eq!(shown[2]["message"], "closed");
    assert_eq!(claims["sub"], "mailto:root@example.org");
    assert_eq!(claims["aud"], peer.url(""));
    let first = &requests[0];
    assert_eq!(first.path, "/a");
    assert_eq!(first.field("urgency"), Some("high"));
    assert_eq!(first.field("content-encoding"), Some("aes128gcm"));
    assert_eq!(first.field("topic").map(str::len), Some(32));
    assert_eq!(requests[2].field("urgency"), Some("normal"));
    assert_eq!(requests[2].field("ttl"), Some("86400"));
    let listed = await_some("all are delivered", || {
        Some(sinks(&gateway)).filter(|listed| listed.contains("delivered 3"))
    });
    assert!(listed.contains("1 subscriptions"), "{listed}");
    let log = gateway.log();
    assert!(
        !listed.contains("/a ") && !log.contains(&peer.url("/a")),
        "{log}"
    );
}

#[test]
fn a_browser_is_sent_the_updates_and_the_end_of_a_sequence() {
    let peer = WebPeer::start(|_, _| CREATED);
    let gateway = Gateway::start(SETTINGS);
    let browser = Browser::new();
    subscribe(
        &gateway,
        "",
        &browser.subscription(&peer.url("/a"), &["backups"]),
    );
    for (method, path, body) in [
        ("POST", "/backups/nightly", "50 %"),
        ("PUT", "/backups/nightly", "100 %"),
        ("PUT", "/backups/nightly/clear", ""),
        ("DELETE", "/backups/nightly", ""),
    ] {
        let url = gateway.url(path);
        run("curl", &["-s", "-X", method, "-d", body, &url], b"");
    }
    let requests = peer.await_requests(4);
    let (sent, _) = browser.read(&requests, &server_key(&gateway, ""));
    let all = sent.iter().map(|one| {
        assert_eq!(one["sequence_id"], "nightly");
        (one["event"].clone(), one["message"].clone())
    });
    let expected = [
        ("message", "50 %"),
        ("message", "100 %"),
        ("message_clear", ""),
        ("message_delete", ""),
    ];
    assert_eq!(
        all.collect::<Vec<_>>(),
        expected.map(|(event, message)| (event.into(), message.into()))
    );
    // A push service replaces what it has not delivered yet.
    let topics = requests.iter().map(|request| request.field("topic"));
    assert!(topics.clone().all(|topic| topic.is_some()));
    assert!(
        topics
            .clone()
            .all(|topic| topic == requests[0].field("topic")),
        "{:?}",
        topics.collect::<Vec<_>>()
    );
}

#[test]
fn answers_of_the_push_service_end_delay_or_drop() {
    let peer = WebPeer::start(|request, before| match (request.path.as_str(), before) {
        ("/later", 0) => "429 Too Many Requests\r\nretry-after: 1",
        ("/later", 1) => "500 Internal Server Error",
        ("/later", 2) => "",
        ("/large", _) => "413 Content Too Large",
        ("/gone", _) => "410 Gone",
        ("/unknown", _) => "404 Not Found",
        _ => CREATED,
    });
    let gateway = Gateway::start(SETTINGS);
    let browser = Browser::new();
    let subscriptions = || {
        let (_, answer) = web_push_request(&gateway, "", "GET", &Value::Null);
        answer["subscriptions"].as_array().expect("a list").clone()
    };
    let endpoint = |path: &str| peer.url(path);
    subscribe(
        &gateway,
        "",
        &browser.subscription(&endpoint("/later"), &["later"]),
    );
    let began = std::time::Instant::now();
    post(&gateway, "later", "wait for me");
    let requests = peer.await_requests(4);
    assert!(began.elapsed().as_millis() >= 900, "Retry-After is kept");
    let (shown, _) = browser.read(&requests[3..], &server_key(&gateway, ""));
    assert_eq!(shown[0]["message"], "wait for me");
    for path in ["/large", "/gone", "/unknown"] {
        subscribe(
            &gateway,
            "",
            &browser.subscription(&endpoint(path), &[&path[1..]]),
        );
        post(&gateway, &path[1..], "for you");
    }
    await_some("two are forgotten", || {
        Some(subscriptions()).filter(|left| left.len() == 2)
    });
    let listed = await_some("one is given up", || {
        Some(sinks(&gateway)).filter(|listed| listed.contains("given up 1"))
    });
    assert!(listed.contains("delivered 1"), "{listed}");
    let later = browser.subscription(&endpoint("/later"), &["later"]);
    assert_eq!(web_push_request(&gateway, "", "DELETE", &later).0, 200);
    assert_eq!(web_push_request(&gateway, "", "DELETE", &later).0, 404);
    let left = subscriptions();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0]["topics"], json!(["large"]));
    assert_eq!(left[0]["given_up"], 1);
}

#[test]
fn killed_at_any_moment_no_notification_is_lost() {
    let peer = WebPeer::start(|_, _| CREATED);
    let folder = tempfile::tempdir().expect("a folder");
    let browser = Browser::new();
    let gateway = Gateway::start_in(folder.path(), SETTINGS);
    subscribe(
        &gateway,
        "",
        &browser.subscription(&peer.url("/a"), &["alarms/#"]),
    );
    let key = server_key(&gateway, "");
    // At once after the acknowledgement: the subscription is on disk.
    gateway.kill();
    let gateway = Gateway::start_in(folder.path(), SETTINGS);
    assert_eq!(server_key(&gateway, ""), key, "the key stays");
    let sent = lines(40);
    publish(&gateway, "alarms/a", "1", &sent);
    gateway.kill();
    let gateway = Gateway::start_in(folder.path(), SETTINGS);
    await_some("nothing waits", || {
        let (_, answer) = web_push_request(&gateway, "", "GET", &Value::Null);
        (answer["subscriptions"][0]["queued"] == 0).then_some(())
    });
    let (shown, _) = browser.read(&peer.requests(), &key);
    for line in &sent {
        assert!(
            shown.iter().any(|one| one["message"] == line.as_str()),
            "{line} is lost"
        );
    }
    gateway.kill();
    // Without Web Push nothing waits for subscriptions.
    let gateway = Gateway::start_in(folder.path(), PLAIN);
    assert_eq!(web_push_request(&gateway, "", "GET", &Value::Null).0, 404);
    assert!(!sinks(&gateway).contains("web push"));
}

#[test]
fn users_are_sent_what_they_may_read_and_nothing_else() {
    let peer = WebPeer::start(|_, _| CREATED);
    let gateway = Gateway::start(&format!(
        "{SETTINGS}web_push.subscriptions_per_user_max = 2\nweb_push.topics_max = 2\n\
         access.default = \"deny\"\n"
    ));
    let (ann, bob, root) = ("ann:secret-ann", "bob:secret-bob", "root:secret-root");
    add_user(&gateway, "root", "secret-root", &["--admin"]);
    for user in ["ann", "bob"] {
        add_user(&gateway, user, &format!("secret-{user}"), &[]);
    }
    let change = |what: &[&str]| {
        let data = format!("data={}", gateway.folder.join("gatepost-data").display());
        let arguments = [&["user"][..], what, &["--set", &data]].concat();
        let output = run(env!("CARGO_BIN_EXE_gatepost"), &arguments, b"");
        assert!(output.status.success(), "{}", text_of(&output));
    };
    change(&["grant", "ann", "subscribe", "alarms/#"]);
    change(&["grant", "bob", "subscribe", "alarms/#"]);
    let browser = Browser::new();
    let request_for = |path: &str, topics: &[&str]| browser.subscription(&peer.url(path), topics);
    // As long as the server knows no user, everyone on this machine is its administrator.
    await_some("the users are known", || {
        (web_push_request(&gateway, "", "GET", &Value::Null).0 == 401).then_some(())
    });
    await_some("the rules are in force", || {
        let (status, _) =
            web_push_request(&gateway, ann, "POST", &request_for("/a", &["alarms/#"]));
        (status == 200).then_some(())
    });
    let status = |user: &str, body: &Value| web_push_request(&gateway, user, "POST", body).0;
    assert_eq!(status("", &request_for("/b", &["alarms/a"])), 401);
    assert_eq!(status(ann, &request_for("/b", &["secret"])), 403);
    assert_eq!(status(ann, &request_for("/b", &["#"])), 403);
    assert_eq!(status(root, &request_for("/b", &["$SYS/gatepost/#"])), 400);
    assert_eq!(
        status(
            ann,
            &request_for("/b", &["alarms/1", "alarms/2", "alarms/3"])
        ),
        400
    );
    assert_eq!(status(ann, &request_for("/b", &["alarms/1"])), 200);
    assert_eq!(
        status(ann, &request_for("/c", &["alarms/1"])),
        409,
        "the third"
    );
    // Bob knows ann's endpoint, but not the secret of her browser.
    let stolen = Browser::new().subscription(&peer.url("/a"), &["alarms/#"]);
    assert_eq!(status(bob, &stolen), 409);
    assert_eq!(web_push_request(&gateway, bob, "DELETE", &stolen).0, 404);
    let (_, of_bob) = web_push_request(&gateway, bob, "GET", &Value::Null);
    assert_eq!(of_bob["subscriptions"], json!([]));
    // Another user of the same browser takes over its subscription.
    assert_eq!(status(bob, &request_for("/b", &["alarms/1"])), 200);
    let publish = |line: &str| {
        let url = gateway.url("/topics/alarms/a");
        run("curl", &["-s", "-u", root, "-d", line, &url], b"");
    };
    publish("first");
    peer.await_requests(1);
    // Rights that are withdrawn count immediately for what is delivered.
    change(&["revoke", "ann", "subscribe", "alarms/#"]);
    await_some("the rule is in force", || {
        (status(ann, &request_for("/a", &["alarms/#"])) == 403).then_some(())
    });
    publish("second");
    change(&["grant", "ann", "subscribe", "alarms/#"]);
    await_some("the rule is in force", || {
        (status(ann, &request_for("/a", &["alarms/#"])) == 200).then_some(())
    });
    publish("third");
    let requests = peer.await_requests(2);
    let (shown, _) = browser.read(&requests, &server_key(&gateway, ann));
    let shown: Vec<_> = shown.iter().map(|one| one["message"].clone()).collect();
    assert_eq!(shown, ["first", "third"]);
    change(&["remove", "ann"]);
    await_some(
        "the subscription of a user who is gone is forgotten",
        || {
            let listed = run(
                "curl",
                &["-s", "-u", root, &gateway.url("/admin/sinks")],
                b"",
            );
            text_of(&listed).contains("1 subscriptions").then_some(())
        },
    );
}

#[test]
fn endpoints_inside_the_network_get_no_request() {
    let peer = WebPeer::start(|_, _| CREATED);
    let settings = SETTINGS.replace("allow_private = true", "topics_max = 5");
    let gateway = Gateway::start(&settings);
    let browser = Browser::new();
    let plain = peer.url("/a");
    let hidden = plain.replace("http://127.0.0.1", "https://localhost");
    let bare = plain.replace("http:", "https:");
    for endpoint in [&plain, &bare] {
        let (status, answer) = web_push_request(
            &gateway,
            "",
            "POST",
            &browser.subscription(endpoint, &["alarms"]),
        );
        assert_eq!(status, 400, "{endpoint}: {answer}");
    }
    // A name is looked up when it is needed.
    subscribe(&gateway, "", &browser.subscription(&hidden, &["alarms"]));
    post(&gateway, "alarms", "come in");
    await_some("it is refused", || {
        let listed = sinks(&gateway);
        listed.contains("is not a public address").then_some(())
    });
    assert!(peer.requests().is_empty());
}
