//! HTTP/2 frames that no valid client sends: the cases beside this file.

use std::io::Read as _;
use std::net::TcpStream;

use super::*;

const CASES: &str = include_str!("http2-cases.txt");
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Far longer than any answer takes; only a fault waits so long.
const PATIENCE: Duration = Duration::from_mins(1);

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Statuses of HPACK's static table, RFC 7541, appendix A.
const STATUSES: [(u8, &str); 3] = [(0x88, "200"), (0x8c, "400"), (0x8d, "404")];

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// `NAME: VALUE | NAME: VALUE` as literals that are not indexed (RFC 7541, section 6.2.2).
fn block(fields: &str) -> Vec<u8> {
    let mut block = Vec::new();
    for field in fields.split(" | ") {
        let (name, value) = field.trim().rsplit_once(": ").expect("a field");
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).expect("a short text"));
            block.extend(text.as_bytes());
        }
    }
    block
}

fn sent(step: &str) -> Vec<u8> {
    let (what, rest) = step.split_once(' ').expect("a step");
    match what {
        "headers" => frame(HEADERS, END_STREAM | END_HEADERS, 1, &block(rest)),
        "parted" => {
            let (first, second) = rest.split_once(" || ").expect("two parts");
            let mut frames = frame(HEADERS, END_STREAM, 1, &block(first));
            frames.extend(frame(CONTINUATION, END_HEADERS, 1, &block(second)));
            frames
        }
        "frame" => {
            let words: Vec<_> = rest.split(' ').collect();
            let [kind, flags, stream, hex] = words[..] else {
                panic!("a frame: {rest}");
            };
            let digit = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
            let payload: Vec<_> = (0..hex.len()).step_by(2).map(digit).collect();
            let stream = stream.parse().expect("a stream");
            let number = |text: &str| text.parse().expect("a number");
            frame(number(kind), number(flags), stream, &payload)
        }
        _ => panic!("{what} is not a step"),
    }
}

/// The type, the flags and the payload of the next frame.
fn received(stream: &mut TcpStream) -> (u8, u8, Vec<u8>) {
    let mut header = [0; 9];
    stream.read_exact(&mut header).expect("a frame");
    let length = u32::from_be_bytes([0, header[0], header[1], header[2]]);
    let mut payload = vec![0; length as usize];
    stream.read_exact(&mut payload).expect("a payload");
    (header[3], header[4], payload)
}

/// The server's answer to the request or the connection, in the words of the cases. The body of an
/// earlier answer is passed over.
fn answer(stream: &mut TcpStream, is_answered: bool) -> String {
    loop {
        let (kind, _, payload) = received(stream);
        let code = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().expect("four"));
        match kind {
            HEADERS => {
                // A change of the dynamic table's size may come first.
                let mut bytes = payload.iter().skip_while(|byte| **byte & 0xe0 == 0x20);
                let first = bytes.next().expect("a status");
                let known = STATUSES.iter().find(|(index, _)| index == first);
                return known.expect("a known status").1.to_owned();
            }
            RST_STREAM => return format!("reset {}", code(0)),
            GOAWAY => return format!("goaway {}", code(4)),
            DATA => assert!(is_answered, "a body without a head"),
            _ => {}
        }
    }
}

#[test]
fn frames_are_answered_as_the_cases_say() {
    let server = Server::start(|_| {});
    let lines = CASES.lines().filter(|line| !line.starts_with('#'));
    let text: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
    let mut cases = 0;
    for case in text
        .join("\n")
        .split("=== ")
        .filter(|case| !case.is_empty())
    {
        let (name, steps) = case.split_once('\n').expect("steps");
        // Sent at once, and frame by frame.
        for is_parted in [false, true] {
            let mut stream = TcpStream::connect(server.address).expect("a connection");
            stream.set_nodelay(true).expect("set");
            stream.set_read_timeout(Some(PATIENCE)).expect("set");
            let mut pieces = vec![PREFACE.to_vec(), frame(SETTINGS, 0, 0, b"")];
            let mut expected = Vec::new();
            for step in steps.lines() {
                match step.split_at(2) {
                    ("> ", step) => pieces.push(sent(step)),
                    ("< ", answer) => expected.push(answer),
                    _ => panic!("{step} is not a step"),
                }
            }
            if !is_parted {
                pieces = vec![pieces.concat()];
            }
            for piece in pieces {
                stream.write_all(&piece).expect("sent");
            }
            let mut last = String::new();
            for expected in &expected {
                last = answer(&mut stream, false);
                // Frame by frame, the request before the error may be answered.
                if is_parted && last == "200" && *expected != "200" {
                    last = answer(&mut stream, true);
                }
                assert_eq!(last, *expected, "{name}");
            }
            assert!(!last.is_empty(), "{name} expects nothing");
            cases += 1;
        }
    }
    assert!(cases > 40, "{cases}");
}

#[test]
fn a_superfluous_body_is_read_for_a_moment() {
    let server = Server::start(|_| {});
    let mut stream = TcpStream::connect(server.address).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    let fields = ":method: POST | :scheme: http | :path: /a | :authority: localhost | host: other";
    let started = std::time::Instant::now();
    let request = [
        PREFACE.to_vec(),
        frame(SETTINGS, 0, 0, b""),
        frame(HEADERS, END_HEADERS, 1, &block(fields)),
    ];
    stream.write_all(&request.concat()).expect("sent");
    assert_eq!(answer(&mut stream, false), "400");
    // RFC 9113, section 8.1: a reset with NO_ERROR asks the client to stop. curl treats a reset
    // that arrives with the response as a failure, so it is sent later.
    assert_eq!(answer(&mut stream, true), "reset 0");
    assert!(started.elapsed() >= Duration::from_millis(500));
    let request = [
        frame(HEADERS, END_HEADERS, 3, &block(fields)),
        frame(DATA, END_STREAM, 3, b"x"),
        frame(HEADERS, END_HEADERS | END_STREAM, 5, &block(fields)),
    ];
    stream.write_all(&request.concat()).expect("sent");
    assert_eq!(answer(&mut stream, false), "400");
    assert_eq!(
        answer(&mut stream, true),
        "400",
        "stream 5 without a reset of 3"
    );
}

#[test]
fn the_refusal_of_a_malformed_request_has_a_body() {
    let server = Server::start(|_| {});
    let mut stream = TcpStream::connect(server.address).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    let head = ":method: GET | :scheme: http | :path: /a.txt | :authority: user@localhost";
    let head = frame(HEADERS, END_STREAM | END_HEADERS, 1, &block(head));
    let sent = [PREFACE, &frame(SETTINGS, 0, 0, b""), &head].concat();
    std::io::Write::write_all(&mut stream, &sent).expect("sent");
    let mut body = Vec::new();
    loop {
        let (kind, flags, payload) = received(&mut stream);
        match kind {
            HEADERS => assert_eq!(flags & END_STREAM, 0, "a body follows"),
            DATA => body.extend(payload),
            _ => continue,
        }
        if flags & END_STREAM != 0 {
            break;
        }
    }
    assert!(!body.is_empty());
}
