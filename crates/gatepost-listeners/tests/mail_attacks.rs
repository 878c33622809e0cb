//! Attacks on the line-based listeners over real sockets.

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use gatepost_listeners::in_flight::{InFlight, InFlightSettings};
use gatepost_listeners::listener_context::SharedLimits;
use gatepost_listeners::pop3::{Pop3Context, Pop3Settings};
use gatepost_listeners::smtp::{SmtpContext, SmtpSettings};
use gatepost_message::Listener;
use gatepost_settings::ByteSize;
use gatepost_users::{
    ANONYMOUS, Access, AccessSet, AccessSettings, AnonymousAccess, DefaultPolicy, Effect,
    ListenerAuth, Secret, Users,
};

use support::Fixture;

/// Reached only by a defect.
const PATIENCE: Duration = Duration::from_mins(1);

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("a listener");
    stream.set_read_timeout(Some(PATIENCE)).expect("TCP");
    stream
}

/// All that the server sends until it closes.
fn to_the_end(mut stream: TcpStream) -> String {
    let mut said = Vec::new();
    // A reset after the reply is a way of closing.
    let _ = stream.read_to_end(&mut said);
    String::from_utf8_lossy(&said).into_owned()
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let work = tokio::task::spawn_blocking(work).await;
    work.expect("no panic")
}

async fn users(fixture: &Fixture, default: DefaultPolicy) -> Users {
    let settings = AccessSettings {
        default,
        scram_iterations: 4_096,
        ..AccessSettings::default()
    };
    let users = Users::open(fixture.store.clone(), &settings).expect("users");
    let added = users.add("anna", Secret::from("secret"), false).await;
    added.expect("anna");
    users
}

fn pop3(fixture: &Fixture, users: &Users, settings: Pop3Settings) -> SocketAddr {
    let auth = ListenerAuth::new(users.clone(), Listener::Pop3, AnonymousAccess::No, true);
    let context = Pop3Context::new(
        settings,
        fixture.store.clone(),
        auth,
        None,
        &SharedLimits::default(),
    );
    fixture.serve_pop3(context)
}

const PAGE: &[u8] = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/plain\r\n\r\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_web_page_executes_nothing_in_any_listener_of_lines() {
    let fixture = Fixture::new();
    let users = users(&fixture, DefaultPolicy::Auto).await;
    let listeners = [
        (
            "pop3",
            pop3(&fixture, &users, Pop3Settings::default()),
            "USER anna\r\n",
        ),
        (
            "lmtp",
            fixture.listen("lmtp", ""),
            "LHLO page\r\nMAIL FROM:<a@b.example>\r\nRCPT TO:<alarms@localhost>\r\n",
        ),
        (
            "spamd",
            fixture.listen("spamd", ""),
            "PING SPAMC/1.5\r\n\r\n",
        ),
        (
            "call",
            fixture.listen("call", ""),
            "CALL/1 /sizecheck\nsize: 5\n\n",
        ),
    ];
    for (name, address, body) in listeners {
        let said = blocking(move || {
            let mut stream = connect(address);
            if matches!(name, "pop3" | "lmtp") {
                // The server speaks first, and the page's request comes after it.
                let mut greeting = [0; 3];
                stream.read_exact(&mut greeting).expect("a greeting");
            }
            let request = [PAGE, body.as_bytes()].concat();
            stream.write_all(&request).expect("sent");
            to_the_end(stream)
        })
        .await;
        for executed in ["+OK\r\n", "250", "PONG", "DONE"] {
            assert!(!said.contains(executed), "{name}: {said}");
        }
    }
}

// One thread: the server accepts only when the test waits.
#[tokio::test]
async fn commands_before_the_greeting_are_refused() {
    let fixture = Fixture::new();
    let users = users(&fixture, DefaultPolicy::Auto).await;
    let smtp = fixture.listen("smtp", "");
    let pop3 = pop3(&fixture, &users, Pop3Settings::default());
    let mail = "EHLO x\r\nMAIL FROM:<a@b.example>\r\nRCPT TO:<alarms@localhost>\r\nDATA\r\n\
        Subject: early\r\n\r\n.\r\n";
    for (address, early, refusal) in [
        (smtp, mail, "554 5.5.0 commands came before the greeting"),
        (pop3, "CAPA\r\n", "-ERR commands came before the greeting"),
    ] {
        let mut stream = connect(address);
        stream.write_all(early.as_bytes()).expect("sent");
        let said = blocking(move || to_the_end(stream)).await;
        assert!(said.starts_with(refusal), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    assert!(fixture.notes.take().is_empty());
}

/// Sends one byte again and again until the server ends the connection; returns its last reply.
fn drip(mut stream: TcpStream, byte: &[u8]) -> String {
    let until = Instant::now() + PATIENCE;
    stream
        .set_read_timeout(Some(Duration::from_millis(20)))
        .expect("TCP");
    let mut said = Vec::new();
    let mut buffer = [0; 1024];
    while Instant::now() < until {
        match stream.read(&mut buffer) {
            Ok(0) => return String::from_utf8_lossy(&said).into_owned(),
            Ok(count) => said.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {
                return String::from_utf8_lossy(&said).into_owned();
            }
            Err(_) => {
                // The server may have closed meanwhile, which the next read shows.
                let _ = stream.write_all(byte);
            }
        }
    }
    panic!("still open: {}", String::from_utf8_lossy(&said));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drip_holds_no_connection() {
    let fixture = Fixture::new();
    let users = users(&fixture, DefaultPolicy::Auto).await;
    let smtp = fixture.listen("smtp", "data_timeout = \"300ms\"\ndata_rate_min = \"1KB\"");
    let said = blocking(move || {
        let mut stream = connect(smtp);
        let mut greeting = [0; 3];
        stream.read_exact(&mut greeting).expect("a greeting");
        let begun = b"EHLO x\r\nMAIL FROM:<a@b.example>\r\nRCPT TO:<alarms@localhost>\r\nDATA\r\n";
        stream.write_all(begun).expect("sent");
        drip(stream, b"x")
    })
    .await;
    assert!(
        said.contains("\r\n354 ") && said.contains("\r\n421 4.4.2"),
        "{said}"
    );

    let settings = toml::from_str("login_time_max = \"300ms\"").expect("settings");
    let pop3 = pop3(&fixture, &users, settings);
    let said = blocking(move || drip(connect(pop3), b"CAPA\r\n")).await;
    assert!(said.starts_with("+OK"), "{said}");

    let call = fixture.listen("call", "head_time_max = \"300ms\"");
    let said = blocking(move || {
        let mut stream = connect(call);
        stream
            .write_all(b"CALL/1 /sizecheck\nsender: ")
            .expect("sent");
        drip(stream, b"x")
    })
    .await;
    assert_eq!(said, "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mail_without_a_login_may_do_what_anonymous_may() {
    let fixture = Fixture::new();
    let users = users(&fixture, DefaultPolicy::Deny).await;
    let settings: SmtpSettings = toml::from_str(
        "domains = ['boxes.example']\n\
         routes = [{recipients = '*@boxes.example', mailbox = '{user}'}]",
    )
    .expect("settings");
    let anonymous = ListenerAuth::new(users.clone(), Listener::Smtp, AnonymousAccess::Yes, true);
    let context = SmtpContext::new(
        settings,
        "gate.example",
        fixture.gateway.clone(),
        &SharedLimits::default(),
    )
    .with_anonymous(anonymous);
    let address = fixture.serve_smtp(context);
    let ask = move |recipient: &'static str| {
        blocking(move || {
            let mut stream = connect(address);
            let mut greeting = [0; 3];
            stream.read_exact(&mut greeting).expect("a greeting");
            let commands =
                format!("EHLO x\r\nMAIL FROM:<a@b.example>\r\nRCPT TO:<{recipient}>\r\nQUIT\r\n");
            stream.write_all(commands.as_bytes()).expect("sent");
            let said = to_the_end(stream);
            let replies: Vec<&str> = said.lines().collect();
            replies[replies.len() - 2].to_owned()
        })
    };
    let refusal = ask("home+anna+door@localhost").await;
    assert!(
        refusal.starts_with("550 5.7.1 you may not publish"),
        "{refusal}"
    );
    let publish = AccessSet::from(Access::Publish);
    let granted = users.grant(ANONYMOUS, Effect::Allow, publish, "home/anna/#");
    granted.await.expect("a filter");
    assert_eq!(ask("home+anna+door@localhost").await, "250 2.0.0 ok");
    // A mailbox belongs to a user that exists.
    assert_eq!(ask("Anna+lists@boxes.example").await, "250 2.0.0 ok");
    let refusal = ask("nobody@boxes.example").await;
    assert_eq!(refusal, "550 5.1.1 no such user here");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unfinished_mails_of_one_address_leave_room_for_others() {
    const UNFINISHED_BYTES: usize = 400 << 10;
    let fixture = Fixture::new();
    let in_flight = InFlight::new(&InFlightSettings {
        bytes_max: ByteSize::mebibytes(1),
    });
    let context = SmtpContext::new(
        SmtpSettings::default(),
        "gate.example",
        fixture.gateway.clone(),
        &SharedLimits {
            in_flight: in_flight.clone(),
            ..SharedLimits::default()
        },
    );
    let address = fixture.serve_smtp(context);
    let begun = move |bytes: usize| {
        let mut stream = connect(address);
        let mut greeting = [0; 3];
        stream.read_exact(&mut greeting).expect("a greeting");
        let commands =
            "EHLO x\r\nMAIL FROM:<a@b.example>\r\nRCPT TO:<alarms@localhost>\r\nDATA\r\n\r\n";
        stream.write_all(commands.as_bytes()).expect("sent");
        stream.write_all(&b"x\r\n".repeat(bytes / 3)).expect("sent");
        stream
    };
    let ended = |mut stream: TcpStream| {
        stream.write_all(b".\r\nQUIT\r\n").expect("sent");
        to_the_end(stream)
    };
    blocking(move || {
        let first = begun(UNFINISHED_BYTES);
        let until = Instant::now() + PATIENCE;
        // Counted whole, so that it no longer competes for the rest of the address's share.
        while in_flight.bytes() < (UNFINISHED_BYTES / 3 * 3) as u64 {
            let counted = in_flight.bytes();
            assert!(Instant::now() < until, "{counted} bytes of the first mail");
            std::thread::yield_now();
        }
        // The address holds its share already: the second is refused, and a short mail passes.
        let said = ended(begun(UNFINISHED_BYTES));
        assert!(said.contains("\r\n452 4.3.1 "), "{said}");
        let said = ended(begun(300));
        assert!(said.contains(" accepted\r\n"), "{said}");
        let said = ended(first);
        assert!(said.contains(" accepted\r\n"), "{said}");
        let said = ended(begun(UNFINISHED_BYTES));
        assert!(said.contains(" accepted\r\n"), "{said}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recipients_count_against_the_memory_of_unfinished_mails() {
    let fixture = Fixture::new();
    let context = SmtpContext::new(
        SmtpSettings::default(),
        "gate.example",
        fixture.gateway.clone(),
        &SharedLimits {
            in_flight: InFlight::new(&InFlightSettings {
                bytes_max: ByteSize::mebibytes(1),
            }),
            ..SharedLimits::default()
        },
    );
    let address = fixture.serve_smtp(context);
    let (accepted, refusal) = blocking(move || {
        let mut stream = connect(address);
        let mut replies = BufReader::new(stream.try_clone().expect("TCP")).lines();
        let mut reply = move || replies.next().expect("a reply").expect("text");
        assert!(reply().starts_with("220 "));
        stream
            .write_all(b"EHLO x\r\nMAIL FROM:<a@b.example>\r\n")
            .expect("sent");
        while !reply().starts_with("250 2.0.0 ") {}
        let recipient = format!(
            "RCPT TO:<alarms@localhost> ORCPT=rfc822;{}\r\n",
            "x".repeat(400)
        );
        let mut accepted = 0;
        loop {
            stream.write_all(recipient.as_bytes()).expect("sent");
            let said = reply();
            if !said.starts_with("250 ") {
                return (accepted, said);
            }
            accepted += 1;
        }
    })
    .await;
    // Half of the budget, at 800 bytes and more each.
    assert!((100..700).contains(&accepted), "{accepted} recipients");
    assert!(refusal.starts_with("452 4.3.1 "), "{refusal}");
}
