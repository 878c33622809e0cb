//! Guesses of a password by SCRAM that were all begun before the first failure: a server that
//! counts only when an exchange begins would compare every one of them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::scram::ScramClient;
use super::support::{Gateway, PATIENCE, add_user, await_some, run, text_of};

const GUESSES: usize = 40;
/// The guess that has the right password: among the wrong ones it is not better than they are.
const RIGHT: usize = 20;
/// Guesses that are compared: at three points each, they reach fifteen points.
const TRIED: usize = 5;
const SETTINGS: &str = "rules.paths = []\n\
    listeners.smtp.proxy_protocol = [\"127.0.0.1\"]\nlisteners.smtp.plain_login = true\n\
    listeners.pop3.proxy_protocol = [\"127.0.0.1\"]\nlisteners.pop3.plain_login = true\n\
    listeners.mqtt.proxy_protocol = [\"127.0.0.1\"]\n\
    bans.points_max = 15\naccess.scram_iterations = 4096\n";

/// The server's answer to a guess.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    LoggedIn,
    /// The proof was compared.
    Wrong,
    /// It was not compared.
    Limited,
}

/// An exchange that waits for the client's proof.
struct Exchange {
    protocol: &'static str,
    stream: BufReader<TcpStream>,
    challenge: Vec<u8>,
}

/// A server with a user that it knows by now.
fn start() -> Gateway {
    let gateway = Gateway::start(SETTINGS);
    let added = add_user(&gateway, "anna", "secret", &[]);
    assert!(added.status.success(), "{}", text_of(&added));
    let url = gateway.url("/alarms/json?poll=1");
    let login = ["-s", "-o", "/dev/null", "-w", "%{http_code}", &url, "-u"];
    await_some("the user is known", || {
        let statuses = ["anna:secret", "otto:secret"]
            .map(|user| text_of(&run("curl", &[&login[..], &[user]].concat(), b"")));
        (statuses == ["200", "401"]).then_some(())
    });
    gateway
}

/// Connects as a client of another machine and begins an exchange.
fn begin(gateway: &Gateway, protocol: &'static str, number: usize) -> Exchange {
    let stream = TcpStream::connect(gateway.address(protocol)).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut stream = BufReader::new(stream);
    send(&mut stream, b"PROXY TCP4 203.0.113.9 127.0.0.1 4321 25\r\n");
    let first = ScramClient::new("anna", "").first();
    let challenge = if protocol == "mqtt" {
        send(&mut stream, &connect_packet(number, first.as_bytes()));
        let (kind, body) = packet(&mut stream);
        assert_eq!(kind, 0xf0, "AUTH: {body:02x?}");
        authentication_data(&body[1..])
    } else {
        let mut greeting = reply(&mut stream);
        if protocol == "smtp" {
            assert!(greeting.starts_with("220"), "{greeting}");
            send(&mut stream, b"EHLO client.example\r\n");
            greeting = reply(&mut stream);
            assert!(greeting.contains("SCRAM-SHA-256"), "{greeting}");
        }
        let command = format!("AUTH SCRAM-SHA-256 {}\r\n", BASE64.encode(first));
        send(&mut stream, command.as_bytes());
        let challenge = reply(&mut stream);
        let challenge = challenge.split_once(' ').expect("a challenge").1.trim();
        BASE64.decode(challenge).expect("base64")
    };
    Exchange {
        protocol,
        stream,
        challenge,
    }
}

impl Exchange {
    /// Sends the proof that follows from this password.
    fn finish(&mut self, password: &'static str) -> Outcome {
        let last = ScramClient::new("anna", password).last(&self.challenge);
        if self.protocol == "mqtt" {
            let body = [&[0x18][..], &properties(last.as_bytes())].concat();
            send(&mut self.stream, &with_header(0xf0, &body));
            let (kind, body) = packet(&mut self.stream);
            assert_eq!(kind, 0x20, "CONNACK: {body:02x?}");
            return match body[1] {
                0 => Outcome::LoggedIn,
                // Bad user name or password, not authorized (MQTT 5.0 section 3.2.2.2).
                0x86 | 0x87 => Outcome::Wrong,
                _ => Outcome::Limited,
            };
        }
        send(
            &mut self.stream,
            format!("{}\r\n", BASE64.encode(last)).as_bytes(),
        );
        let reply = reply(&mut self.stream);
        match reply.split([' ', '-']).find(|word| !word.is_empty()) {
            Some("535") => Outcome::Wrong,
            Some("ERR") if reply.contains("[AUTH]") => Outcome::Wrong,
            Some("454" | "ERR") => Outcome::Limited,
            _ => Outcome::LoggedIn,
        }
    }
}

/// Closed connections are found when the answer is read.
fn send(stream: &mut BufReader<TcpStream>, bytes: &[u8]) {
    let _ = stream.get_mut().write_all(bytes);
}

/// The lines of one reply.
fn reply(stream: &mut BufReader<TcpStream>) -> String {
    let mut reply = String::new();
    loop {
        let start = reply.len();
        stream.read_line(&mut reply).expect("a line");
        if reply.as_bytes().get(start + 3) != Some(&b'-') {
            return reply;
        }
    }
}

/// An MQTT 5 packet: its first byte, and the bytes after its length.
fn packet(stream: &mut BufReader<TcpStream>) -> (u8, Vec<u8>) {
    let mut byte = [0];
    stream.read_exact(&mut byte).expect("a packet");
    let kind = byte[0];
    let (mut length, mut shift) = (0, 0);
    loop {
        stream.read_exact(&mut byte).expect("a length");
        length |= usize::from(byte[0] & 0x7f) << shift;
        shift += 7;
        if byte[0] & 0x80 == 0 {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).expect("a body");
    (kind, body)
}

fn with_length(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut length = bytes.len();
    while length > 127 {
        out.push(length as u8 & 0x7f | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(bytes);
    out
}

fn with_header(kind: u8, body: &[u8]) -> Vec<u8> {
    [vec![kind], with_length(body)].concat()
}

fn text(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).expect("short").to_be_bytes();
    [&length, bytes].concat()
}

/// Authentication Method and Authentication Data.
fn properties(data: &[u8]) -> Vec<u8> {
    with_length(&[&[0x15][..], &text(b"SCRAM-SHA-256"), &[0x16], &text(data)].concat())
}

fn connect_packet(number: usize, data: &[u8]) -> Vec<u8> {
    let client_id = text(format!("guess-{number}").as_bytes());
    let fixed = b"\0\x04MQTT\x05\x02\0\x3c";
    with_header(0x10, &[&fixed[..], &properties(data), &client_id].concat())
}

/// The data of AUTH's properties, which begin with their length.
fn authentication_data(properties: &[u8]) -> Vec<u8> {
    let length_bytes = properties.iter().take_while(|byte| **byte > 127).count() + 1;
    let mut rest = &properties[length_bytes..];
    while let [kind, high, low, after @ ..] = rest {
        let (value, more) = after.split_at(usize::from(u16::from_be_bytes([*high, *low])));
        if *kind == 0x16 {
            return value.to_vec();
        }
        rest = more;
    }
    panic!("no data in {properties:02x?}");
}

fn outcomes(protocols: &[&'static str]) -> Vec<Outcome> {
    let gateway = start();
    let mut begun: Vec<Exchange> = (0..GUESSES)
        .map(|number| begin(&gateway, protocols[number % protocols.len()], number))
        .collect();
    let guess = |(number, exchange): (usize, &mut Exchange)| {
        exchange.finish(if number == RIGHT { "secret" } else { "wrong" })
    };
    begun.iter_mut().enumerate().map(guess).collect()
}

fn assert_limited(protocols: &[&'static str]) {
    let outcomes = outcomes(protocols);
    let count = |expected| outcomes.iter().filter(|one| **one == expected).count();
    let counts = (count(Outcome::Wrong), count(Outcome::Limited));
    assert_eq!(
        counts,
        (TRIED, GUESSES - TRIED),
        "{protocols:?} {outcomes:?}"
    );
}

#[test]
fn parallel_guesses_by_scram_are_limited() {
    for protocol in ["smtp", "pop3", "mqtt"] {
        assert_limited(&[protocol]);
    }
}

#[test]
fn parallel_guesses_count_together_over_all_protocols() {
    assert_limited(&["smtp", "pop3", "mqtt"]);
}
