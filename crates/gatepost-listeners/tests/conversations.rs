//! Conversations as data: the client's input and the expected replies.
//!
//! `tests/data/LISTENER/*.txt` hold conversations in this notation:
//!
//! ```text
//! === the name of the conversation
//! set message_max = "1KB"      a setting of the listener
//! C: EHLO me                   the client sends this line with its line end
//! c: half a line               the same without a line end; \r \n \0 \\ \xNN are escapes
//! <half-close>                 the client will send no more
//! S: 250 *                     the server answers this line; a final * stands for any rest
//! S: <...>                     lines that do not matter, up to the next that does
//! S: <closed>                  the server closes
//! P: alarms/fire *             published by the end: topic and payload, \n for line ends
//! ```
//!
//! Lines of the client that follow each other are sent in one piece. Each conversation is held
//! twice: as written, and with every byte of the client sent by itself.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use support::Fixture;

/// Reached only by a defect.
const PATIENCE: Duration = Duration::from_mins(1);

#[derive(Debug, Default)]
struct Conversation {
    name: String,
    settings: String,
    steps: Vec<Step>,
    publications: Vec<String>,
}

#[derive(Debug)]
enum Step {
    Send(Vec<u8>),
    HalfClose,
    Expect(String),
    /// Lines up to the next expected one do not matter.
    Skip,
    Closed,
}

fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        match characters.next() {
            Some('r') => bytes.push(b'\r'),
            Some('n') => bytes.push(b'\n'),
            Some('0') => bytes.push(0),
            Some('\\') => bytes.push(b'\\'),
            Some('x') => {
                let digits: String = characters.by_ref().take(2).collect();
                bytes.push(u8::from_str_radix(&digits, 16).expect("two hexadecimal digits"));
            }
            other => panic!("no escape is \\{other:?}"),
        }
    }
    bytes
}

fn parse(text: &str, line_end: &str) -> Vec<Conversation> {
    let mut conversations: Vec<Conversation> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix("=== ") {
            conversations.push(Conversation {
                name: name.to_owned(),
                ..Conversation::default()
            });
            continue;
        }
        if line.trim().is_empty() {
            continue;
        }
        let current = conversations
            .last_mut()
            .expect("a conversation begins with ===");
        let (kind, rest) = line.split_at(line.len().min(2));
        let rest = rest.strip_prefix(' ').unwrap_or(rest);
        match (kind, rest) {
            ("C:", _) => send(current, &[unescape(rest), line_end.into()].concat()),
            ("c:", _) => send(current, &unescape(rest)),
            ("S:", "<closed>") => current.steps.push(Step::Closed),
            ("S:", "<...>") => current.steps.push(Step::Skip),
            ("S:", _) => current.steps.push(Step::Expect(rest.to_owned())),
            ("P:", _) => current.publications.push(rest.to_owned()),
            _ if line == "<half-close>" => current.steps.push(Step::HalfClose),
            _ => match line.strip_prefix("set ") {
                Some(setting) => current.settings += &[setting, "\n"].concat(),
                None => panic!("{}: no step is '{line}'", current.name),
            },
        }
    }
    conversations
}

fn send(conversation: &mut Conversation, bytes: &[u8]) {
    match conversation.steps.last_mut() {
        Some(Step::Send(before)) => before.extend_from_slice(bytes),
        _ => conversation.steps.push(Step::Send(bytes.to_vec())),
    }
}

fn fits(expected: &str, line: &str) -> bool {
    match (expected.strip_suffix('*'), expected.strip_prefix('*')) {
        (Some(start), _) => line.starts_with(start),
        (None, Some(end)) => line.ends_with(end),
        (None, None) => line == expected,
    }
}

struct Client {
    reader: BufReader<OwnedReadHalf>,
    writer: Option<OwnedWriteHalf>,
    byte_by_byte: bool,
}

impl Client {
    async fn connect(address: std::net::SocketAddr, byte_by_byte: bool) -> Self {
        let stream = TcpStream::connect(address).await.expect("a listener");
        stream.set_nodelay(true).expect("TCP");
        let (reader, writer) = stream.into_split();
        Self {
            reader: BufReader::new(reader),
            writer: Some(writer),
            byte_by_byte,
        }
    }

    /// Sends; a server that has closed already reads no more, and its answer is checked anyway.
    async fn send(&mut self, bytes: &[u8]) {
        let Some(writer) = &mut self.writer else {
            panic!("the client has closed its side")
        };
        let pieces = if self.byte_by_byte { 1 } else { bytes.len() };
        for piece in bytes.chunks(pieces.max(1)) {
            if writer.write_all(piece).await.is_err() {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    /// The next line without its end; `None` at the end of the stream.
    async fn line(&mut self, conversation: &str, seen: &[String]) -> Option<String> {
        let mut line = Vec::new();
        let read = self.reader.read_until(b'\n', &mut line);
        let Ok(read) = tokio::time::timeout(PATIENCE, read).await else {
            panic!("{conversation}: no answer after {seen:#?}")
        };
        match read {
            Ok(0) | Err(_) => None,
            Ok(_) => {
                let text = String::from_utf8_lossy(&line).into_owned();
                Some(text.trim_end_matches(['\r', '\n']).to_owned())
            }
        }
    }
}

async fn hold(fixture: &Fixture, listener: &str, conversation: &Conversation, byte_by_byte: bool) {
    let address = fixture.listen(listener, &conversation.settings);
    let mut client = Client::connect(address, byte_by_byte).await;
    if matches!(listener, "smtp" | "lmtp") {
        // The server speaks first, and a client that does not wait is refused.
        let greeted = client.reader.fill_buf();
        let greeted = tokio::time::timeout(PATIENCE, greeted).await;
        assert!(greeted.is_ok_and(|bytes| bytes.is_ok()), "no greeting");
    }
    let name = &conversation.name;
    let mut seen = Vec::new();
    let mut skipping = false;
    for step in &conversation.steps {
        match step {
            Step::Send(bytes) => client.send(bytes).await,
            Step::HalfClose => client.writer = None,
            Step::Skip => skipping = true,
            Step::Expect(expected) => loop {
                let line = client.line(name, &seen).await;
                let line = line.unwrap_or_else(|| {
                    panic!("{name}: closed before '{expected}', after {seen:#?}")
                });
                seen.push(line.clone());
                if fits(expected, &line) {
                    skipping = false;
                    break;
                }
                assert!(
                    skipping,
                    "{name}: '{line}' instead of '{expected}', after {seen:#?}"
                );
            },
            Step::Closed => {
                let line = client.line(name, &seen).await;
                assert_eq!(line, None, "{name}: should have closed, after {seen:#?}");
            }
        }
    }
    let publications = fixture.notes.take();
    let published: Vec<String> = publications
        .iter()
        .map(|one| {
            let payload = String::from_utf8_lossy(&one.payload).replace("\r\n", "\n");
            format!("{} {}", one.topic, payload.trim_end().replace('\n', "\\n"))
        })
        .collect();
    let all_fit = published.len() == conversation.publications.len()
        && conversation
            .publications
            .iter()
            .zip(&published)
            .all(|(expected, one)| fits(expected, one));
    assert!(
        all_fit,
        "{name}: {published:#?} was published, not {:#?}",
        conversation.publications
    );
}

fn files(listener: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(listener);
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .expect("a folder of conversations")
        .map(|entry| entry.expect("a file").path())
        .collect();
    files.sort();
    files
}

async fn hold_all(listener: &str, line_end: &str) {
    let mut held = 0;
    for file in files(listener) {
        let text = fs::read_to_string(&file).expect("text");
        for conversation in parse(&text, line_end) {
            for byte_by_byte in [false, true] {
                hold(&Fixture::new(), listener, &conversation, byte_by_byte).await;
            }
            held += 1;
        }
    }
    assert!(held >= 5, "only {held} conversations of {listener}");
}

#[tokio::test]
async fn smtp() {
    hold_all("smtp", "\r\n").await;
}

#[tokio::test]
async fn lmtp() {
    hold_all("lmtp", "\r\n").await;
}

#[tokio::test]
async fn spamd() {
    hold_all("spamd", "\r\n").await;
}

#[tokio::test]
async fn call() {
    hold_all("call", "\n").await;
}
