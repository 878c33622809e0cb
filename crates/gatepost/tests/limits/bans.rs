//! Bans: offences in any protocol add up, all listeners enforce them, and no client can have
//! another one banned.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Output;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::support::authority::Authority;
use crate::support::{Gateway, await_some, run, send_raw_greeted, text_of, to_the_end};
use crate::{connect, connect_from, converse, holds, start};

/// Listeners behind a proxy on this machine, and a ban after 12 points.
const SETTINGS: &str = "bans.points_max = 12\n\
     listeners.smtp.domains = [\"localhost\"]\n\
     listeners.smtp.plain_login = true\n\
     listeners.smtp.proxy_protocol = [\"127.0.0.1\"]\n\
     listeners.pop3.plain_login = true\n\
     listeners.pop3.proxy_protocol = [\"127.0.0.1\"]\n\
     listeners.mqtt.proxy_protocol = [\"127.0.0.1\"]\n\
     listeners.spamd.proxy_protocol = [\"127.0.0.1\"]\n\
     listeners.http.trusted_proxies = [\"127.0.0.1\"]\n";

/// The commands are an administrator's of this name, whose password is in this file.
const ADMIN: &str = "root";
const PASSWORD: &str = "root's own";

/// The header with which a proxy names its client.
fn proxied(client: &str, port: u16) -> Vec<u8> {
    let (family, server) = if client.contains(':') {
        ("TCP6", "::1")
    } else {
        ("TCP4", "127.0.0.1")
    };
    format!("PROXY {family} {client} {server} 4321 {port}\r\n").into_bytes()
}

/// A connection of `client` to a listener; and the server's first bytes, if it sends any.
fn greeting(gateway: &Gateway, listener: &str, client: &str) -> Vec<u8> {
    let mut stream = connect(gateway.address(listener));
    stream.write_all(&proxied(client, 25)).expect("sent");
    read_line(&mut stream)
}

/// Until the end of a line, or of the connection.
fn read_line(stream: &mut TcpStream) -> Vec<u8> {
    let mut line = Vec::new();
    let mut byte = [0];
    while !line.ends_with(b"\n") && stream.read(&mut byte).is_ok_and(|count| count > 0) {
        line.extend_from_slice(&byte);
    }
    line
}

/// Sends lines to a listener as `client`, each after the answer to the previous one.
fn say(gateway: &Gateway, listener: &str, client: &str, lines: &[&str]) -> Vec<String> {
    let mut stream = connect(gateway.address(listener));
    let greeting = converse(&mut stream, &proxied(client, 25), b"\r\n");
    assert!(!greeting.is_empty());
    let mut answers = Vec::new();
    for line in lines {
        let answer = converse(&mut stream, format!("{line}\r\n").as_bytes(), b"\r\n");
        answers.push(String::from_utf8_lossy(&answer).into_owned());
    }
    answers
}

fn wrong_login() -> String {
    format!("AUTH PLAIN {}", BASE64.encode("\0root\0wrong"))
}

/// Starts with an administrator, whose password is also in a file.
fn start_with_admin(settings: &str) -> Gateway {
    let gateway = start(settings);
    add_admin(&gateway);
    gateway
}

fn add_admin(gateway: &Gateway) {
    let file = gateway.folder.join("password");
    std::fs::write(&file, PASSWORD).expect("a file");
    let data = format!("data={}", gateway.folder.join("gatepost-data").display());
    let file = file.display().to_string();
    let arguments = [
        "user",
        "add",
        ADMIN,
        "--admin",
        "--password-file",
        &file,
        "--set",
        &data,
    ];
    let added = run(env!("CARGO_BIN_EXE_gatepost"), &arguments, b"");
    assert!(added.status.success(), "{}", text_of(&added));
    await_some("the server knows the administrator", || {
        let listed = gatepost(gateway, &["bans", "list"]);
        listed.status.success().then_some(())
    });
    await_some("a login is required", || {
        let answer = run("curl", &["-si", &gateway.url("/admin/bans")], b"");
        text_of(&answer).contains(" 401").then_some(())
    });
}

/// A command that asks the server, as the administrator.
fn gatepost(gateway: &Gateway, arguments: &[&str]) -> Output {
    let url = gateway.url("");
    let file = gateway.folder.join("password").display().to_string();
    let server = ["--url", &url, "-u", ADMIN, "--pw-file", &file];
    run(
        env!("CARGO_BIN_EXE_gatepost"),
        &[arguments, &server].concat(),
        b"",
    )
}

/// The status of a request of `client` through the trusted proxy.
fn status_of(gateway: &Gateway, client: &str) -> String {
    let field = format!("X-Forwarded-For: {client}");
    let url = gateway.url("/healthz");
    let arguments = [
        "-s",
        "-o",
        "/dev/null",
        "-w",
        "%{http_code}",
        "-H",
        &field,
        &url,
    ];
    String::from_utf8_lossy(&run("curl", &arguments, b"").stdout).into_owned()
}

/// Whether the commands list a ban of this network.
fn is_listed(gateway: &Gateway, network: &str) -> bool {
    let listed = gatepost(gateway, &["bans", "list"]);
    assert!(listed.status.success(), "{}", text_of(&listed));
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    text.lines()
        .any(|line| line.split(' ').next() == Some(network))
}

#[test]
fn offences_in_all_protocols_add_up_to_a_ban_by_all_listeners() {
    const CLIENT: &str = "203.0.113.9";
    let folder = tempfile::tempdir().expect("a folder");
    let settings = format!("rules.paths = []\n{SETTINGS}");
    let gateway = Gateway::start_in(folder.path(), &settings);
    add_admin(&gateway);

    let login = wrong_login();
    let smtp = say(&gateway, "smtp", CLIENT, &["HELO x", &login]);
    assert!(smtp[1].starts_with("535"), "{smtp:?}");
    let pop3 = say(&gateway, "pop3", CLIENT, &["USER root", "PASS wrong"]);
    assert!(pop3[1].starts_with("-ERR [AUTH]"), "{pop3:?}");
    // With the recipients there are ten points: the client is served as yet.
    let mail = [
        "HELO x",
        "MAIL FROM:<a@example.org>",
        "RCPT TO:<b@example.org>",
    ];
    for _ in 0..2 {
        let answers = say(&gateway, "smtp", CLIENT, &mail);
        assert!(answers[2].starts_with("550"), "{answers:?}");
    }
    assert!(holds(&greeting(&gateway, "pop3", CLIENT), b"+OK"));
    assert_eq!(status_of(&gateway, CLIENT), "200");
    // A protocol fault is the last straw.
    let http = say(&gateway, "smtp", CLIENT, &["GET / HTTP/1.1"]);
    assert!(http[0].starts_with("421"), "{http:?}");

    let is_refused_everywhere = |gateway: &Gateway| {
        for listener in ["smtp", "pop3"] {
            let said = greeting(gateway, listener, CLIENT);
            assert!(said.is_empty(), "{listener}: {said:?}");
        }
        for (listener, hello) in [
            ("mqtt", &b"\x10\x0d\0\x04MQTT\x05\x02\0\0\0\0\0"[..]),
            ("spamd", b"PING SPAMC/1.5\r\n\r\n"),
        ] {
            let preface = proxied(CLIENT, 1);
            let said = send_raw_greeted(gateway, listener, &preface, hello);
            assert!(said.is_empty(), "{listener}: {said:?}");
        }
        assert_eq!(status_of(gateway, CLIENT), "403");
        // Its neighbours and this machine are served.
        assert!(holds(&greeting(gateway, "smtp", "203.0.113.8"), b"220 "));
        assert_eq!(status_of(gateway, "203.0.113.8"), "200");
        assert!(is_listed(gateway, CLIENT));
    };
    is_refused_everywhere(&gateway);
    let log = gateway.log();
    let lines: Vec<&str> = log
        .lines()
        .filter(|line| line.contains(" bans: "))
        .collect();
    assert_eq!(lines.len(), 1, "{log}");
    assert!(
        lines[0].contains("network=203.0.113.9")
            && lines[0].contains("failed logins: 2, unknown recipients: 2, protocol faults: 1"),
        "{log}"
    );

    gateway.terminate();
    let gateway = Gateway::start_in(folder.path(), &settings);
    is_refused_everywhere(&gateway);
    let lifted = gatepost(&gateway, &["bans", "remove", CLIENT]);
    assert!(lifted.status.success(), "{}", text_of(&lifted));
    assert!(holds(&greeting(&gateway, "smtp", CLIENT), b"220 "));
    assert!(!is_listed(&gateway, CLIENT));
}

/// A host may use every address of its /64, and the operator counts neighbours of a /24 together.
#[test]
fn addresses_of_one_network_are_counted_and_banned_together() {
    let gateway = start_with_admin(&format!("bans.ipv4_bits = 24\n{SETTINGS}"));
    for (offenders, neighbour, other, network) in [
        (
            ["2001:db8::1", "2001:db8::2"],
            "2001:db8::3",
            "2001:db8:0:1::1",
            "2001:db8::/64",
        ),
        (
            ["203.0.113.8", "203.0.113.9"],
            "203.0.113.10",
            "203.0.114.8",
            "203.0.113.0/24",
        ),
    ] {
        // Six protocol faults of two points each, three by each address.
        for offender in offenders.into_iter().cycle().take(6) {
            assert!(holds(&greeting(&gateway, "smtp", neighbour), b"220 "));
            let fault = say(&gateway, "smtp", offender, &["GET / HTTP/1.1"]);
            assert!(fault[0].starts_with("421"), "{fault:?}");
        }
        for address in [offenders[0], offenders[1], neighbour] {
            assert_eq!(status_of(&gateway, address), "403", "{address}");
            let said = greeting(&gateway, "pop3", address);
            assert!(said.is_empty(), "{address}: {said:?}");
        }
        assert_eq!(status_of(&gateway, other), "200", "{other}");
        assert!(is_listed(&gateway, network), "{network}");
    }
}

/// Spam of a client without a login counts, whatever becomes of the mail.
#[test]
fn a_sender_of_spam_is_banned() {
    const CLIENT: &str = "203.0.113.9";
    const GTUBE: &str = "XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X";
    let settings = "bans.points_max = 2\nlisteners.smtp.proxy_protocol = [\"127.0.0.1\"]\n";
    let gateway = start(settings);
    let mail = format!("Subject: hello\r\n\r\n{GTUBE}\r\n.");
    let session = [
        "HELO x",
        "MAIL FROM:<a@example.org>",
        "RCPT TO:<alarms@localhost>",
        "DATA",
        &mail,
    ];
    for _ in 0..2 {
        let answers = say(&gateway, "smtp", CLIENT, &session);
        assert!(answers[4].starts_with("550"), "{answers:?}");
    }
    await_some("the client is banned", || {
        greeting(&gateway, "smtp", CLIENT).is_empty().then_some(())
    });
    assert!(
        gateway.log().contains("reason=\"spam messages: 2\""),
        "{}",
        gateway.log()
    );
}

/// Before the handshake: not a byte of TLS is read or written.
#[test]
fn a_banned_client_is_refused_before_tls() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |file: &str| folder.path().join(file).display().to_string();
    Authority::new(folder.path(), "authority").sign("mx", "mx.example", &["mx.example"]);
    let settings = format!(
        "rules.paths = []\nbans.exempt_local = false\nlisteners.mqtt.tls.bind = [\"127.0.0.1:0\"]\n\
         listeners.mqtt.tls.cert = '{}'\nlisteners.mqtt.tls.key = '{}'\n",
        path("mx.pem"),
        path("mx.key")
    );
    let gateway = Gateway::start_in(folder.path(), &settings);
    // A handshake record that no server accepts: it is answered with an alert.
    let hello = b"\x16\x03\x01\x00\x04\x01\x00\x00\x00";
    let answer = |client: &str| {
        let mut stream = connect_from(client, gateway.address("mqtt/tls"));
        let _ = stream.write_all(hello);
        to_the_end(&mut stream)
    };
    assert!(answer("127.0.0.2").starts_with(b"\x15\x03"), "an alert");
    let url = gateway.url("");
    let ban = ["bans", "add", "127.0.0.2", "--url", &url];
    let added = run(env!("CARGO_BIN_EXE_gatepost"), &ban, b"");
    assert!(added.status.success(), "{}", text_of(&added));
    assert_eq!(answer("127.0.0.2"), b"");
    assert!(answer("127.0.0.3").starts_with(b"\x15\x03"), "an alert");
}

#[test]
fn operators_ban_networks_and_each_change_is_audited() {
    let gateway = start_with_admin(SETTINGS);
    let added = gatepost(
        &gateway,
        &[
            "bans",
            "add",
            "2001:db8:7::/48",
            "--time",
            "1d",
            "--reason",
            "abuse",
        ],
    );
    assert!(added.status.success(), "{}", text_of(&added));
    assert!(greeting(&gateway, "smtp", "2001:db8:7:1::5").is_empty());
    assert!(holds(&greeting(&gateway, "smtp", "2001:db8:8::5"), b"220 "));
    for refused in ["127.0.0.1", "0.0.0.0/0", "unix", "nonsense"] {
        let refused = gatepost(&gateway, &["bans", "add", refused]);
        assert!(!refused.status.success(), "{}", text_of(&refused));
    }
    let said = text_of(&gatepost(&gateway, &["bans", "remove", "anna"]));
    assert!(said.contains("\"user:anna\""), "{said}");
    let lifted = gatepost(&gateway, &["bans", "remove", "2001:db8:7::/48"]);
    assert!(lifted.status.success(), "{}", text_of(&lifted));
    let again = gatepost(&gateway, &["bans", "remove", "2001:db8:7::/48"]);
    assert_eq!(again.status.code(), Some(65), "{}", text_of(&again));
    let audit = gateway.folder.join("gatepost-data/audit.log");
    let audit = std::fs::read_to_string(audit).expect("the audit log");
    for part in [
        "\"POST /admin/bans\"",
        "\"DELETE /admin/bans/2001:db8:7::/48\"",
        "\"reason\":\"abuse\"",
    ] {
        assert!(audit.contains(part), "{part}: {audit}");
    }
    let stranger = gateway.url("");
    let stranger = ["bans", "list", "--url", &stranger];
    let stranger = run(env!("CARGO_BIN_EXE_gatepost"), &stranger, b"");
    assert_eq!(stranger.status.code(), Some(77), "{}", text_of(&stranger));
}

#[test]
fn no_client_causes_a_ban_of_another_address_by_naming_it() {
    // 6 points: two failed logins.
    let gateway = start_with_admin(
        "bans.points_max = 6\nlisteners.smtp.proxy_protocol = [\"127.0.0.2\"]\n\
         listeners.http.trusted_proxies = [\"127.0.0.2\"]\n",
    );
    let url = gateway.url("/admin/users");
    for _ in 0..3 {
        let arguments = [
            "-s",
            "-u",
            "root:wrong",
            "-H",
            "X-Forwarded-For: 203.0.113.9",
            "-H",
            "Forwarded: for=203.0.113.9",
            &url,
        ];
        run("curl", &arguments, b"");
    }
    let header = proxied("203.0.113.9", 25);
    for _ in 0..3 {
        let mut stream = connect(gateway.address("smtp"));
        converse(&mut stream, b"", b"220 ");
        converse(&mut stream, &header, b"50");
    }
    assert!(!is_listed(&gateway, "203.0.113.9"));
    let listed = gatepost(&gateway, &["bans", "list"]);
    assert!(listed.stdout.is_empty(), "{}", text_of(&listed));
}

#[test]
fn a_client_connects_no_faster_than_its_rate() {
    let gateway = start(
        "bans.connects_per_second = 1\nbans.connects_burst = 5\n\
         listeners.smtp.proxy_protocol = [\"127.0.0.1\"]\n",
    );
    // All at once: the rate allows one more in each second that this takes.
    const CONNECTIONS: usize = 100;
    let mut streams: Vec<TcpStream> = (0..CONNECTIONS)
        .map(|_| {
            let mut stream = connect(gateway.address("smtp"));
            stream.write_all(&proxied("203.0.113.9", 25)).expect("sent");
            stream
        })
        .collect();
    let greetings = streams.iter_mut().map(read_line);
    let served = greetings.filter(|line| holds(line, b"220 ")).count();
    assert!((5..CONNECTIONS).contains(&served), "{served}");
    assert!(holds(&greeting(&gateway, "smtp", "203.0.113.8"), b"220 "));
    let local = (0..20).filter(|_| {
        let answer = run("curl", &["-s", &gateway.url("/healthz")], b"");
        answer.status.success()
    });
    assert_eq!(local.count(), 20, "this machine is exempt");
}
