//! The HTTP listener over real sockets: the cases beside this file, each in two splits, and tests
//! with several connections.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gatepost_listeners::acceptor::Acceptor;
use gatepost_listeners::http::{self, HttpContext, HttpSettings};
use gatepost_listeners::workers::{Workers, WorkersSettings};
use gatepost_pages::{AccessLogSettings, PagesSettings};
use gatepost_settings::{Bind, ByteSize, Period};
use tokio::sync::watch;

#[path = "http/attacks.rs"]
mod attacks;
#[allow(unreachable_pub)]
#[path = "http/case.rs"]
mod case;
#[allow(unreachable_pub)]
#[path = "http/client.rs"]
mod client;
#[path = "http/files.rs"]
mod files;
#[allow(unreachable_pub)]
#[path = "http/fixture.rs"]
mod fixture;
#[path = "http/floods.rs"]
mod floods;
#[path = "http/guards.rs"]
mod guards;
#[path = "http/http2.rs"]
mod http2;
#[path = "http/versions.rs"]
mod versions;
#[path = "http/websocket.rs"]
mod websocket;

use case::{Case, Expected, Step};
use client::{Answer, Client};
use fixture::Fixture;

/// A running listener with its folder and its fixture.
struct Server {
    address: SocketAddr,
    fixture: Fixture,
    context: Arc<HttpContext>,
    shutdown: watch::Sender<bool>,
    served: Option<std::thread::JoinHandle<()>>,
    folder: tempfile::TempDir,
}

impl Server {
    fn start(change: impl FnOnce(&mut HttpSettings)) -> Self {
        Self::start_in(Fixture::new(), change, |context| context)
    }

    /// Before this fixture, with a context as `complete` makes it.
    fn start_in(
        fixture: Fixture,
        change: impl FnOnce(&mut HttpSettings),
        complete: impl FnOnce(HttpContext) -> HttpContext,
    ) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        write_pages(folder.path());
        let mut settings = HttpSettings {
            body_max: ByteSize::mebibytes(1),
            ..HttpSettings::default()
        };
        change(&mut settings);
        let pages = PagesSettings {
            path: folder.path().join("pages"),
            cached_file_max: ByteSize::kibibytes(64),
            ..PagesSettings::default()
        };
        let access_log = AccessLogSettings {
            path: folder.path().join("access.log"),
            ..AccessLogSettings::default()
        };
        fixture.publish_text("t", "<21>");
        let context = HttpContext::new(
            settings,
            &pages,
            &access_log,
            fixture.services.clone(),
            &fixture.shared_limits,
        );
        // Echoes its input, as a substitute for MQTT.
        let websocket: http::WebSocketHandler = Arc::new(|mut upgraded| {
            Box::pin(async move {
                use tokio::io::AsyncWriteExt;
                let (peer, is_local) = (upgraded.peer.ip(), upgraded.is_local);
                let peer = peer.map(|ip| ip.to_string()).unwrap_or_default();
                let text = format!("from {peer}, local: {is_local}, handed: ");
                let text = [text.as_bytes(), &upgraded.received[..]].concat();
                let _ = upgraded.stream.write_all(&text).await;
            })
        });
        let context = context.expect("a context").with_websocket(websocket);
        let context = Arc::new(complete(context));
        let (shutdown, down) = watch::channel(false);
        let (sender, address) = std::sync::mpsc::channel();
        let serving = Arc::clone(&context);
        let served = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                let bind = Bind::Tcp(([127, 0, 0, 1], 0).into());
                let acceptor = Acceptor::bind(&bind).expect("a free port");
                let Bind::Tcp(address) = acceptor.local().clone() else {
                    unreachable!("bound to TCP");
                };
                sender.send(address).expect("the test waits");
                let workers = Workers::start(&WorkersSettings::default()).expect("threads");
                http::serve(acceptor, serving, workers, down).await;
            });
        });
        Self {
            address: address.recv().expect("an address"),
            fixture,
            context,
            shutdown,
            served: Some(served),
            folder,
        }
    }

    fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    fn get(&self, target: &str) -> Answer {
        let mut client = self.connect();
        client.send(
            format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes(),
        );
        client.answer(false).expect("an answer")
    }

    /// Ends the server; returns when every connection has ended.
    fn end(mut self) -> tempfile::TempDir {
        self.shutdown.send_replace(true);
        self.served.take().expect("once").join().expect("no panic");
        self.folder
    }
}

fn write_pages(folder: &Path) {
    let pages = folder.join("pages");
    std::fs::create_dir_all(pages.join("sub")).expect("a folder");
    for (name, text) in [
        ("secret.txt", "outside"),
        ("pages/a.txt", "0123456789"),
        ("pages/page.html", "<p>{{ latest(\"t\") }}</p>"),
        (
            "pages/coded.html",
            "<p>{{ call(\"/greeting\", name=\"you\") }} {{ latest(\"t\") }}</p>",
        ),
        ("pages/teapot.html", "<b>{{ call(\"/teapot\") }}</b>"),
        (
            "pages/slow.html",
            "[{{ request.query.name|default('nobody') }}]",
        ),
        ("pages/broken.html", "{% if %}"),
        ("pages/sub/index.html", "sub"),
        ("pages/_part.html", "part"),
        ("pages/404.html", "not here"),
        ("pages/live.html", "<body>{{ live('hall') }}</body>"),
    ] {
        std::fs::write(folder.join(name), text).expect("a file");
    }
    // Grows faster than the engine checks its memory: its worker is given up.
    let growing = "{% set x = 'a' %}".to_owned() + &"{% set x = x ~ x %}".repeat(60);
    std::fs::write(pages.join("growing.html"), growing).expect("a file");
    std::fs::write(pages.join("large.bin"), vec![b'x'; 3_000_000]).expect("a file");
    std::os::unix::fs::symlink("../secret.txt", pages.join("link.txt")).expect("a link");
}

fn check(name: &str, expected: &Expected, answer: &Answer) {
    assert_eq!(answer.status, expected.status, "{name}: {answer:?}");
    for (field, value) in &expected.fields {
        let found = answer.field(field);
        assert!(found.is_some(), "{name}: no field {field}: {answer:?}");
        if let Some(value) = value {
            assert_eq!(found, Some(value.as_str()), "{name}");
        }
    }
    for field in &expected.absent {
        assert_eq!(answer.field(field), None, "{name}");
    }
    if let Some(body) = &expected.body {
        assert_eq!(&answer.text(), body, "{name}");
    }
    for part in &expected.has {
        assert!(
            answer.text().contains(part),
            "{name}: no {part:?} in {}",
            answer.text()
        );
    }
}

fn run(server: &Server, case: &Case, bytewise: bool) {
    let name = &case.name;
    let mut client = server.connect();
    for step in &case.steps {
        match step {
            Step::Send(bytes) if bytewise => bytes.iter().for_each(|byte| client.send(&[*byte])),
            Step::Send(bytes) => client.send(bytes),
            Step::Response(expected) => {
                let answer = client.answer(expected.bodiless);
                let answer = answer.unwrap_or_else(|| panic!("{name}: no answer"));
                check(name, expected, &answer);
            }
            Step::Closed => assert!(client.is_closed(), "{name}: still open"),
            Step::Open => {
                client.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
                let answer = client.answer(false);
                assert_eq!(answer.map(|answer| answer.status), Some(200), "{name}");
            }
        }
    }
}

#[test]
fn the_cases_hold_in_any_split() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/http/cases");
    let cases = case::load(&folder);
    assert!(cases.len() > 50, "{} cases", cases.len());
    for bytewise in [false, true] {
        // A server for each round: the cases expect topics without publications.
        let server = Server::start(|_| {});
        for case in &cases {
            run(&server, case, bytewise);
        }
    }
}

fn subscribe(server: &Server, target: &str, fields: &str) -> Client {
    let mut client = server.connect();
    client.send(format!("GET {target} HTTP/1.1\r\nHost: x\r\n{fields}\r\n").as_bytes());
    let head = client.head().expect("a head");
    assert_eq!(head.status, 200);
    client
}

fn text(client: &mut Client) -> String {
    String::from_utf8(client.chunk().expect("a chunk")).expect("UTF-8")
}

#[test]
fn an_event_stream_carries_ids_and_resumes_after_the_last() {
    let server = Server::start(|_| {});
    let mut reader = subscribe(
        &server,
        "/topics/alarms/%23",
        "Accept: text/event-stream\r\n",
    );
    assert_eq!(text(&mut reader), "retry: 1000\n\n");
    server.fixture.publish_text("alarms/fire", "one");
    let first = text(&mut reader);
    let id = first
        .strip_prefix("id: ")
        .and_then(|rest| rest.split('\n').next());
    let id = id.expect("an id").to_owned();
    assert!(first.contains("\"topic\":\"alarms/fire\"") && first.contains("\"payload\":\"one\""));
    drop(reader);
    server.fixture.publish_text("alarms/fire", "two");
    let fields = format!("Accept: text/event-stream\r\nLast-Event-ID: {id}\r\n");
    let mut reader = subscribe(&server, "/topics/alarms/%23?data=payload", &fields);
    assert_eq!(text(&mut reader), "retry: 1000\n\n");
    assert!(text(&mut reader).ends_with("\ndata: two\n\n"));
}

#[test]
fn a_silent_stream_is_kept_open_by_comments() {
    let server = Server::start(|settings| settings.keepalive = Period::milliseconds(20));
    let mut reader = subscribe(&server, "/topics/a", "Accept: text/event-stream\r\n");
    text(&mut reader);
    assert_eq!(text(&mut reader), ": keepalive\n\n");
    assert_eq!(text(&mut reader), ": keepalive\n\n");
}

#[test]
fn a_page_is_rendered_with_what_its_script_resumes_from() {
    let server = Server::start(|_| {});
    server.fixture.publish_text("hall", "19 °C");
    let page = server.get("/live").text();
    assert!(
        page.contains(">19 °C</span><script src=\"/gatepost/live.js\""),
        "{page}"
    );
    assert_eq!(server.get("/gatepost/live.js").status, 200);
}

#[test]
fn the_consoles_files_are_sent_compressed_and_only_when_they_changed() {
    let server = Server::start(|_| {});
    let get = |path: &str, fields: &str| {
        let mut client = server.connect();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n{fields}\r\n").as_bytes());
        client.answer(false).expect("an answer")
    };
    for path in [
        "/gatepost/dashboard.js",
        "/gatepost/dashboard.css",
        "/openapi.json",
    ] {
        let plain = get(path, "");
        assert_eq!((plain.status, plain.field("content-encoding")), (200, None));
        let packed = get(path, "Accept-Encoding: br, gzip\r\n");
        assert_eq!(packed.field("content-encoding"), Some("gzip"));
        assert_eq!(packed.field("vary"), Some("Accept-Encoding"));
        assert_eq!(packed.field("content-type"), plain.field("content-type"));
        let mut content = Vec::new();
        let mut decoder = flate2::read::GzDecoder::new(&packed.body[..]);
        decoder.read_to_end(&mut content).expect("gzip");
        assert_eq!(content, plain.body);
        let etag = packed.field("etag").expect("a version").to_owned();
        assert_ne!(Some(etag.as_str()), plain.field("etag"));
        let known = format!("Accept-Encoding: gzip\r\nIf-None-Match: \"x\", W/{etag}\r\n");
        let mut client = server.connect();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n{known}\r\n").as_bytes());
        assert_eq!(client.answer(true).expect("an answer").status, 304);
        let other = get(path, &format!("If-None-Match: {etag}\r\n"));
        assert_eq!(
            other.status, 200,
            "the other form is another representation"
        );
    }
    for page in ["dashboard.html", "openapi.json"] {
        assert_eq!(get(&format!("/gatepost/{page}"), "").status, 404, "{page}");
    }
}

#[test]
fn a_websocket_is_passed_on_with_the_bytes_after_the_handshake() {
    let server = Server::start(|_| {});
    let mut client = server.connect();
    client.send(
        b"GET /mqtt HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
        Sec-WebSocket-Protocol: mqtt\r\n\r\nframes",
    );
    let answer = client.head().expect("an answer");
    assert_eq!(answer.status, 101);
    let accept = answer.field("sec-websocket-accept");
    assert_eq!(accept, Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    assert_eq!(answer.field("sec-websocket-protocol"), Some("mqtt"));
    assert_eq!(
        String::from_utf8_lossy(&client.rest()),
        "from 127.0.0.1, local: true, handed: frames"
    );
}

#[test]
fn slow_and_silent_clients_are_not_waited_for() {
    let server = Server::start(|settings| {
        settings.head_timeout = Period::milliseconds(100);
        settings.idle_timeout = Period::milliseconds(100);
        settings.body_timeout = Period::milliseconds(100);
    });
    let mut silent = server.connect();
    assert!(silent.is_closed());
    let mut half = server.connect();
    half.send(b"GET / HTTP/1.1\r\nHo");
    assert_eq!(half.answer(false).expect("an answer").status, 408);
    assert!(half.is_closed());
    let mut body = server.connect();
    body.send(b"POST /topics/a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhe");
    assert_eq!(body.answer(false).expect("an answer").status, 408);
    assert!(body.is_closed());
}

#[test]
fn ending_lets_requests_finish_and_closes_the_rest() {
    let server = Server::start(|_| {});
    let mut idle = server.connect();
    idle.send(b"GET /a.txt HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(idle.answer(false).expect("an answer").status, 200);
    let mut reader = subscribe(&server, "/topics/a", "Accept: application/x-ndjson\r\n");
    let context = Arc::clone(&server.context);
    assert!(context.connections() >= 2);
    server.end();
    assert!(idle.is_closed());
    // A stream ends in form, with its last chunk (RFC 9112, section 7.1).
    assert!(reader.rest().ends_with(b"0\r\n\r\n"));
    assert_eq!(context.connections(), 0);
}

#[test]
fn every_request_is_in_the_access_log() {
    let server = Server::start(|_| {});
    let mut client = server.connect();
    client.send(b"GET /a.txt HTTP/1.1\r\nHost: x\r\nUser-Agent: one \"two\"\r\n\r\n");
    client.answer(false).expect("an answer");
    assert_eq!(server.get("/nothing").status, 404);
    client.send(b"nonsense\r\n\r\n");
    assert_eq!(client.answer(false).expect("an answer").status, 400);
    let context = Arc::clone(&server.context);
    let folder = server.end();
    drop(client);
    drop(Arc::into_inner(context).expect("the last handle"));
    let log = std::fs::read_to_string(folder.path().join("access.log")).expect("a log");
    let lines: Vec<_> = log.lines().collect();
    assert_eq!(lines.len(), 3, "{log}");
    for part in [
        "\"GET /a.txt HTTP/1.1\" 200 10 \"-\" \"one \\x22two\\x22\"",
        "\"GET /nothing HTTP/1.1\" 404 ",
        "\"- - -\" 400 ",
    ] {
        // Lines of different threads may be in another order within a tenth of a second.
        assert!(lines.iter().any(|line| line.contains(part)), "{log}");
    }
}

#[test]
fn a_reader_that_disconnects_in_the_middle_disturbs_no_other() {
    let server = Server::start(|_| {});
    for _ in 0..20 {
        let mut client = std::net::TcpStream::connect(server.address).expect("a connection");
        client
            .write_all(b"GET /large.bin HTTP/1.1\r\nHost: x\r\n\r\nPOST /topics/a HT")
            .expect("sent");
    }
    assert_eq!(server.get("/a.txt").text(), "0123456789");
    // They end when the server notices; there is no event to wait for.
    while server.context.connections() > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
}
