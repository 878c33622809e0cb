//! Attacks by web pages, by strangers behind proxies, by slow senders and by readers whose rights
//! were revoked.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use gatepost_listeners::in_flight::{InFlight, InFlightSettings};
use gatepost_listeners::mqtt;
use gatepost_message::Listener;
use gatepost_users::{AccessSet, AccessSettings, AnonymousAccess, Effect, ListenerAuth, Users};

use super::*;

/// Far longer than any expected event takes; only a defect waits so long.
const PATIENCE: Duration = Duration::from_mins(1);

/// A server with users, and the runtime that changes them.
struct Guarded {
    server: Server,
    users: Users,
    runtime: tokio::runtime::Runtime,
}

impl Guarded {
    /// With these users, whose password is `secret`; the first is an administrator.
    fn start(names: &[&str], change: impl FnOnce(&mut HttpSettings)) -> Self {
        let fixture = Fixture::new();
        let access = AccessSettings::default();
        let users = Users::open(fixture.services.store.clone(), &access).expect("users");
        let auth = ListenerAuth::new(users.clone(), Listener::Http, AnonymousAccess::Auto, true);
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        for (index, name) in names.iter().enumerate() {
            let added = users.add(name, "secret".into(), index == 0);
            runtime.block_on(added).expect("a user");
        }
        runtime.spawn(mqtt::follow_users(
            fixture.services.broker.clone(),
            users.clone(),
        ));
        let server = Server::start_in(fixture, change, |context| context.with_auth(auth));
        Self {
            server,
            users,
            runtime,
        }
    }

    fn allow(&self, name: &str, filter: &str) {
        let rule = self
            .users
            .grant(name, Effect::Allow, AccessSet::ALL, filter);
        self.runtime.block_on(rule).expect("a rule");
    }
}

/// The status of a request with these fields; a body is sent where there is one.
fn status(server: &Server, line: &str, fields: &str, body: &str) -> u16 {
    let mut client = server.connect();
    let length = body.len();
    client.send(
        format!("{line} HTTP/1.1\r\n{fields}Content-Length: {length}\r\n\r\n{body}").as_bytes(),
    );
    client.answer(false).expect("an answer").status
}

pub(super) fn handshake(path: &str, fields: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\n{fields}Connection: Upgrade\r\nUpgrade: websocket\r\n\
        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
        Sec-WebSocket-Protocol: mqtt\r\n\r\n"
    )
}

/// The requests that only a client on this machine may make while no user exists.
const PRIVILEGED: [(&str, &str); 5] = [
    ("POST /topics/a", "x"),
    ("POST /call/firstword", "x"),
    ("GET /metrics", ""),
    ("GET /admin/state", ""),
    ("GET /topics/$SYS/%2B/journal", ""),
];

#[test]
fn a_page_whose_dns_name_resolves_to_this_host_has_no_rights() {
    let Guarded { server, .. } = &Guarded::start(&[], |_| {});
    for (line, body) in PRIVILEGED {
        for host in ["localhost:8080", "127.0.0.1", "[::1]:1", "mill"] {
            let fields = format!("Host: {host}\r\n");
            assert_eq!(status(server, line, &fields, body), 200, "{line} {host}");
        }
        let fields = "Host: evil.example\r\n";
        assert_eq!(status(server, line, fields, body), 403, "{line}");
    }
    // Public pages remain public.
    let fields = "Host: evil.example\r\n";
    assert_eq!(status(server, "GET /a.txt", fields, ""), 200);
    for (host, is_local) in [("evil.example", false), ("localhost", true)] {
        let mut client = server.connect();
        client.send(handshake("/mqtt", &format!("Host: {host}\r\n")).as_bytes());
        let answer = client.answer(false).expect("an answer");
        let expected = format!("local: {is_local},");
        assert!(answer.text().contains(&expected), "{answer:?}");
    }
}

#[test]
fn clients_of_an_unknown_proxy_are_not_local() {
    let Guarded { server, .. } = &Guarded::start(&[], |_| {});
    for field in [
        "X-Forwarded-For: 203.0.113.9",
        "Forwarded: for=203.0.113.9",
        "X-Real-IP: 203.0.113.9",
        "Via: 1.1 proxy",
    ] {
        let fields = format!("Host: localhost\r\n{field}\r\n");
        for (line, body) in PRIVILEGED {
            assert_eq!(status(server, line, &fields, body), 403, "{line} {field}");
        }
    }
    let mut client = server.connect();
    client.send(b"GET /admin/state HTTP/1.0\r\nHost: localhost\r\n\r\n");
    let answer = client.answer(false).expect("an answer");
    assert_eq!(answer.status, 403, "a proxy's version");
}

#[test]
fn every_websocket_is_for_pages_of_this_origin() {
    let server = Server::start(|_| {});
    for path in ["/mqtt", "/alarms/ws"] {
        for (origin, expected) in [
            ("http://x", 101),
            ("http://evil.example", 403),
            ("https://x", 403),
            ("null", 403),
        ] {
            let fields = format!("Host: x\r\nOrigin: {origin}\r\n");
            let mut client = server.connect();
            client.send(handshake(path, &fields).as_bytes());
            let answer = client.head().expect("an answer");
            assert_eq!(answer.status, expected, "{path} {origin}");
        }
    }
}

#[test]
fn a_websocket_behind_a_trusted_proxy_is_its_clients() {
    let trusted = "127.0.0.1".parse().expect("an address");
    let server = Server::start(|settings| settings.trusted_proxies = vec![trusted]);
    let mut client = server.connect();
    let fields = "Host: localhost\r\nX-Forwarded-For: 203.0.113.9\r\n";
    client.send(handshake("/mqtt", fields).as_bytes());
    let text = client.answer(false).expect("an answer").text();
    assert!(text.starts_with("from 203.0.113.9, local: false"), "{text}");
}

#[test]
fn a_link_of_another_site_publishes_nothing() {
    let server = Server::start(|_| {});
    let ask = |fields: &str| status(&server, "GET /alarms/publish?message=x", fields, "");
    assert_eq!(ask("Host: x\r\n"), 200);
    assert_eq!(ask("Host: x\r\nReferer: http://x/page\r\n"), 200);
    assert_eq!(ask("Host: x\r\nReferer: http://evil.example/\r\n"), 403);
    assert_eq!(ask("Host: x\r\nSec-Fetch-Site: cross-site\r\n"), 403);
    assert_eq!(ask("Host: x\r\nSec-Fetch-Site: same-site\r\n"), 403);
}

/// Anna's credentials.
const ANNA: &str = "Host: x\r\nAuthorization: Basic YW5uYTpzZWNyZXQ=\r\n";

#[test]
fn calls_and_metrics_need_their_rights() {
    let guarded = Guarded::start(&["root", "anna"], |_| {});
    let server = &guarded.server;
    guarded.allow("anna", "home/#");
    assert_eq!(status(server, "POST /topics/home/door", ANNA, "x"), 200);
    assert_eq!(status(server, "POST /call/firstword", ANNA, "x"), 403);
    assert_eq!(status(server, "GET /metrics", ANNA, ""), 403);
    guarded.allow("anna", "$call/firstword");
    assert_eq!(status(server, "POST /call/firstword", ANNA, "x"), 200);
}

#[test]
fn a_body_is_read_only_for_who_may_send_one() {
    let Guarded { server, .. } = &Guarded::start(&["root"], |_| {});
    for path in ["/topics/a", "/call/firstword", "/", "/alarms", "/page"] {
        let mut client = server.connect();
        // The body is never sent, so a server that waits for it does not answer.
        let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n");
        client.send(head.as_bytes());
        assert_eq!(
            client.answer(false).expect("an answer").status,
            401,
            "{path}"
        );
        assert!(client.is_closed(), "{path}");
    }
}

/// The shortest time of some refusals of each user; alternating, so that other work on the machine
/// hardly changes which is longer.
fn shortest_refusals(names: [&str; 2]) -> [Duration; 2] {
    let Guarded { server, .. } = &Guarded::start(&["root"], |_| {});
    let mut shortest = [Duration::MAX; 2];
    for number in 0..6 {
        for (name, shortest) in names.iter().zip(&mut shortest) {
            let login = BASE64.encode(format!("{name}:wrong{number}"));
            let fields = format!("Host: x\r\nAuthorization: Basic {login}\r\n");
            let began = Instant::now();
            assert_eq!(status(server, "GET /admin/state", &fields, ""), 401);
            *shortest = began.elapsed().min(*shortest);
        }
    }
    shortest
}

/// The time that the refusal takes does not say whether there is such a user: a password is checked
/// in both cases. On a busy machine one attempt may mislead; a check that is left out takes a small
/// part of the time in every attempt.
#[test]
fn an_unknown_user_takes_as_long_to_refuse() {
    let mut seen = Vec::new();
    for _ in 0..10 {
        let [known, unknown] = shortest_refusals(["root", "otto"]);
        if unknown > known / 4 && known > unknown / 4 {
            return;
        }
        seen.push((known, unknown));
    }
    panic!("the times for a known and for an unknown user: {seen:?}");
}

#[test]
fn bodies_in_flight_leave_room_for_others() {
    let in_flight = InFlight::new(&InFlightSettings {
        bytes_max: ByteSize::mebibytes(2),
    });
    let mut fixture = Fixture::new();
    fixture.shared_limits.in_flight = in_flight.clone();
    let server = Server::start_in(fixture, |_| {}, |context| context);
    let part = "x".repeat(500_000);
    let begun: Vec<_> = (0..4)
        .map(|_| {
            let mut client = server.connect();
            let head = "POST /topics/a HTTP/1.1\r\nHost: x\r\nContent-Length: 600000\r\n\r\n";
            client.send(format!("{head}{part}").as_bytes());
            client
        })
        .collect();
    // One address holds half of the budget, so some of them are refused; the others continue to
    // wait.
    let mut refused = 0;
    for mut client in begun {
        client.send("x".repeat(100_000).as_bytes());
        match client.answer(false).expect("an answer").status {
            503 => refused += 1,
            status => assert_eq!(status, 200),
        }
    }
    assert!((1..4).contains(&refused), "{refused}");
    let given_back = Instant::now();
    while in_flight.bytes() > 0 {
        assert!(given_back.elapsed() < PATIENCE, "{}", in_flight.bytes());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Sends a byte now and then until the server answers; the answer's status.
fn trickle(server: &Server, start: &str) -> u16 {
    let mut client = server.connect();
    client.send(start.as_bytes());
    let began = Instant::now();
    while began.elapsed() < PATIENCE && !client.has_bytes(Duration::from_millis(20)) {
        client.send(b"x");
    }
    client.answer(false).expect("an answer").status
}

#[test]
fn a_trickle_has_a_deadline() {
    let server = Server::start(|settings| {
        settings.head_timeout = Period::milliseconds(300);
        settings.body_timeout = Period::milliseconds(300);
    });
    assert_eq!(trickle(&server, "GET / HTTP/1.1\r\nA: "), 408);
    let head = "POST /topics/a HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n";
    assert_eq!(trickle(&server, head), 408);
    let head = "POST /topics/a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\n";
    assert_eq!(trickle(&server, head), 408);
}

#[test]
fn a_stream_ends_with_its_readers_rights() {
    let guarded = Guarded::start(&["root", "anna", "otto"], |_| {});
    let Guarded {
        server,
        users,
        runtime,
    } = &guarded;
    guarded.allow("anna", "home/#");
    let sse = "Accept: text/event-stream\r\n";
    let read = |path: &str, fields: &str| {
        let mut client = server.connect();
        client.send(format!("GET {path} HTTP/1.1\r\n{fields}\r\n").as_bytes());
        client
    };
    let mut of_a_rule = read("/topics/home/door", &format!("{ANNA}{sse}"));
    let otto = "Host: x\r\nAuthorization: Basic b3R0bzpzZWNyZXQ=\r\n";
    let mut of_ntfy = read("/home/json", otto);
    let mut websocket = server.connect();
    websocket.send(handshake("/home/ws", otto).as_bytes());
    let mut http2 = curl_stream(server, "otto:secret");
    for client in [&mut of_a_rule, &mut of_ntfy] {
        assert_eq!(client.head().expect("a head").status, 200);
        client.chunk().expect("the opening");
    }
    assert_eq!(websocket.head().expect("a head").status, 101);
    let gone = users.grant("anna", Effect::Deny, AccessSet::ALL, "home/#");
    runtime.block_on(gone).expect("a rule");
    runtime
        .block_on(users.set_standing("otto", Some(true), None))
        .expect("switched off");
    server.fixture.publish_text("home/door", "secret one");
    server.fixture.publish_text("home", "secret two");
    for client in [&mut of_a_rule, &mut of_ntfy, &mut websocket] {
        let rest = String::from_utf8_lossy(&client.rest()).into_owned();
        assert!(!rest.contains("secret"), "{rest}");
    }
    let output = http2.wait_with_output();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!text.contains("secret"), "{text}");
}

/// A reader of `home` by HTTP/2, which has had its first bytes.
struct Http2Reader(std::process::Child);

impl Http2Reader {
    fn wait_with_output(&mut self) -> std::process::Output {
        let mut stdout = Vec::new();
        if let Some(mut pipe) = self.0.stdout.take() {
            std::io::Read::read_to_end(&mut pipe, &mut stdout).expect("what it wrote");
        }
        let status = self.0.wait().expect("it ends");
        std::process::Output {
            status,
            stdout,
            stderr: Vec::new(),
        }
    }
}

fn curl_stream(server: &Server, login: &str) -> Http2Reader {
    let mut child = std::process::Command::new("curl")
        .args(["--silent", "--no-buffer", "--http2-prior-knowledge"])
        .args(["--max-time", "60", "--user", login])
        .arg(format!("http://{}/home/json", server.address))
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("curl is installed (tests/install-peers)");
    let mut first = [0];
    let stdout = child.stdout.as_mut().expect("piped");
    std::io::Read::read_exact(stdout, &mut first).expect("the opening");
    Http2Reader(child)
}

#[test]
fn logins_in_addresses_are_not_logged() {
    let server = Server::start(|_| {});
    for target in ["/a.txt?auth=QmFzaWM&x=1", "/nothing?%61uth=QmFzaWM"] {
        let mut client = server.connect();
        client.send(
            format!(
                "GET {target} HTTP/1.1\r\nHost: x\r\nReferer: http://x{target}\r\n\
                Connection: close\r\n\r\n"
            )
            .as_bytes(),
        );
        client.answer(false).expect("an answer");
    }
    let context = Arc::clone(&server.context);
    let folder = server.end();
    drop(Arc::into_inner(context).expect("the last handle"));
    let path = folder.path().join("access.log");
    let log = std::fs::read_to_string(&path).expect("a log");
    assert!(!log.contains("QmFzaWM"), "{log}");
    assert!(log.contains("/a.txt?auth=***&x=1"), "{log}");
    let mode = std::fs::metadata(&path)
        .expect("a file")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777 & !0o640, 0, "{mode:o}");
}

/// A reader that takes a little of a response now and then is cut off.
#[test]
fn a_slow_reader_has_a_deadline() {
    const BYTES: usize = 64 << 20;
    let server = Server::start(|settings| {
        settings.write_timeout = Period::milliseconds(400);
        settings.write_rate_min = ByteSize::mebibytes(200);
    });
    let large = server.folder.path().join("pages/large.bin");
    std::fs::write(large, vec![b'x'; BYTES]).expect("a file");
    let request = b"GET /large.bin HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let mut client = server.connect();
    client.send(request);
    let began = Instant::now();
    let mut taken = 0;
    // Much less than the rate, and never a pause of `write_timeout`.
    while let Some(count) = client.take_some(64 << 10) {
        taken += count;
        assert!(began.elapsed() < PATIENCE, "{taken} bytes");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(taken < BYTES, "cut off");
}
