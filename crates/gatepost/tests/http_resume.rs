//! Readers by HTTP that are cut off and resume: none misses a message or receives one twice, and
//! all see the order of publication. If messages may be missing, a reader gets a gap.

mod support;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use support::{Gateway, PATIENCE};

const PUBLISHERS: usize = 10;
const READERS: usize = 8;
/// Readers that only poll, one for each form.
const POLLING_READERS: usize = FORMS.len();
/// The longest time between two polls of such a reader, in milliseconds.
const POLL_PAUSE_MAX: u64 = 30;

const MESSAGES_EACH: usize = 60;
const TOPICS: u64 = 5;

/// A generator of pseudorandom numbers (xorshift64), the same in every run.
struct XorShift(u64);

impl XorShift {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// The form in which a reader is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    Sse,
    SsePayload,
    JsonLines,
    NtfyJson,
    NtfySse,
}

const FORMS: [Form; 5] = [
    Form::Sse,
    Form::SsePayload,
    Form::JsonLines,
    Form::NtfyJson,
    Form::NtfySse,
];

impl Form {
    /// The request of a reader that has seen everything up to `last`.
    fn request(self, last: Option<&str>, polls: bool) -> String {
        let path = match self {
            Self::Sse | Self::JsonLines => "/topics/%2B?",
            Self::SsePayload => "/topics/%2B?data=payload&",
            Self::NtfyJson => "/t0,t1,t2,t3,t4/json?",
            Self::NtfySse => "/t0,t1,t2,t3,t4/sse?",
        };
        let accept = match self {
            Self::Sse | Self::SsePayload => "text/event-stream",
            _ => "application/x-ndjson",
        };
        let poll = if polls { "poll=1&" } else { "" };
        // A reconnecting browser names the last event in a field, others in the query.
        let (query, field) = match (self, last) {
            (_, None) => ("since=all".to_owned(), String::new()),
            (Self::Sse | Self::SsePayload, Some(last)) if !polls => (
                "since=none".to_owned(),
                format!("Last-Event-ID: {last}\r\n"),
            ),
            (_, Some(last)) => (format!("since={last}"), String::new()),
        };
        format!(
            "GET {path}{poll}{query} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\
             Accept: {accept}\r\n{field}\r\n"
        )
    }
}

/// An event of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Received {
    Message { id: String, payload: String },
    Gap,
}

/// An answer, event by event.
struct Events {
    lines: BufReader<TcpStream>,
    form: Form,
}

impl Events {
    fn begin(address: SocketAddr, form: Form, last: Option<&str>, polls: bool) -> Self {
        let mut stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        let request = form.request(last, polls);
        stream.write_all(request.as_bytes()).expect("sent");
        let mut events = Self {
            lines: BufReader::new(stream),
            form,
        };
        let status = events.line().expect("an answer");
        assert!(status.contains(" 200 "), "{status}: {request}");
        while !events.line().expect("a head").is_empty() {}
        events
    }

    /// A line that is whole; none at the end. The chunked coding adds lines, which are of no form:
    /// every chunk ends with a line.
    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line");
        line.ends_with('\n').then(|| line.trim_end().to_owned())
    }

    /// The next message or gap; none at the end.
    fn next(&mut self) -> Option<Received> {
        let (mut id, mut event) = (None, None);
        loop {
            let line = self.line()?;
            if let Some(text) = line.strip_prefix("id: ") {
                id = Some(text.to_owned());
            } else if let Some(text) = line.strip_prefix("event: ") {
                event = Some(text.to_owned());
            } else if let Some(data) = line.strip_prefix("data: ") {
                let event = event.take();
                if event.as_deref() == Some("gap") {
                    return Some(Received::Gap);
                }
                if self.form == Form::SsePayload {
                    let id = id.expect("an id stands before its data");
                    return Some(Received::Message {
                        id,
                        payload: data.to_owned(),
                    });
                }
                if let Some(received) = received_in(data, id.take()) {
                    return Some(received);
                }
            } else if line.starts_with('{')
                && let Some(received) = received_in(&line, None)
            {
                return Some(received);
            }
        }
    }
}

/// The message of a JSON object; none of ntfy's events about the stream.
fn received_in(text: &str, id: Option<String>) -> Option<Received> {
    let object: Value = serde_json::from_str(text).expect("JSON");
    if object.get("gap").is_some() {
        return Some(Received::Gap);
    }
    let payload = object.get("payload").or_else(|| object.get("message"))?;
    let place = object.get("position").unwrap_or(&object["id"]);
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    Some(Received::Message {
        id: id.unwrap_or_else(|| text(place)),
        payload: text(payload),
    })
}

/// Publishes one message after the other, each when the one before was acknowledged.
fn publish(address: SocketAddr, publisher: usize) {
    let mut random = XorShift(publisher as u64 + 1);
    for number in 0..MESSAGES_EACH {
        let topic = format!("t{}", random.below(TOPICS));
        post(address, &topic, &format!("{publisher} {number}"));
    }
}

fn post(address: SocketAddr, topic: &str, payload: &str) {
    let mut stream = TcpStream::connect(address).expect("a connection");
    let request = format!(
        "POST /topics/{topic} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{payload}",
        payload.len()
    );
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// The payload that is published last.
const END: &str = "end 0";

/// Reads everything with many interruptions, and once more after the end.
fn read_all(address: SocketAddr, reader: usize, only_polls: bool) -> Vec<(String, String)> {
    let mut random = XorShift(1_000 + reader as u64);
    let form = FORMS[reader % FORMS.len()];
    let mut seen: Vec<(String, String)> = Vec::new();
    loop {
        let has_ended = |seen: &[(String, String)]| seen.last().is_some_and(|last| last.1 == END);
        let is_last = has_ended(&seen);
        // A poll ends by itself, if it is not cut too; a stream is cut somewhere.
        let polls = is_last || only_polls || random.below(3) == 0;
        if only_polls {
            thread::sleep(Duration::from_millis(random.below(POLL_PAUSE_MAX)));
        }
        let last = seen.last().map(|(id, _)| id.clone());
        let mut events = Events::begin(address, form, last.as_deref(), polls);
        let ends_by_itself = polls && (is_last || !only_polls || random.below(2) == 0);
        let mut before_cut = if ends_by_itself {
            u64::MAX
        } else {
            random.below(20)
        };
        while before_cut > 0 {
            match events.next() {
                Some(Received::Message { id, payload }) => seen.push((id, payload)),
                Some(Received::Gap) => panic!("{form:?} gets a gap"),
                None => break,
            }
            before_cut -= 1;
            if !polls && has_ended(&seen) {
                break;
            }
        }
        if is_last {
            return seen;
        }
    }
}

/// All stored events after `last`, and whether there was a gap.
fn poll(address: SocketAddr, form: Form, last: Option<&str>) -> (bool, Vec<(String, String)>) {
    let mut events = Events::begin(address, form, last, true);
    let mut has_gap = false;
    let mut seen = Vec::new();
    while let Some(received) = events.next() {
        match received {
            Received::Message { id, payload } => seen.push((id, payload)),
            Received::Gap => has_gap = true,
        }
    }
    (has_gap, seen)
}

const UNEVEN: &str = "return function() for _ = 1, math.random(0, 30000) do end end";

#[test]
fn every_reader_gets_every_message_once_and_in_one_order() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("procedures")).expect("a folder");
    std::fs::write(folder.path().join("procedures/uneven.luau"), UNEVEN).expect("a procedure");
    let settings = "rules.paths = []\nprocedures.judges = 4\nbroker.recent_per_topic = 10000\n\
        [[scope]]\npath = \"/all\"\nrun = [\"/uneven\"]\n";
    let gateway = Gateway::start_in(folder.path(), settings);
    let address = gateway.address("http");
    let readers: Vec<_> = (0..READERS + POLLING_READERS)
        .map(|reader| thread::spawn(move || read_all(address, reader, reader >= READERS)))
        .collect();
    let publishers: Vec<_> = (0..PUBLISHERS)
        .map(|publisher| thread::spawn(move || publish(address, publisher)))
        .collect();
    for publisher in publishers {
        publisher.join().expect("published");
    }
    post(address, "t0", END);
    let seen: Vec<_> = readers
        .into_iter()
        .map(|reader| reader.join().expect("read"))
        .collect();
    let order = &seen[0];
    assert_eq!(
        order.len(),
        PUBLISHERS * MESSAGES_EACH + 1,
        "lost or repeated"
    );
    let mut next: HashMap<&str, usize> = HashMap::new();
    for (_, payload) in order {
        let (publisher, number) = payload.split_once(' ').expect("two numbers");
        let expected = next.entry(publisher).or_default();
        assert_eq!(number.parse(), Ok(*expected), "of publisher {publisher}");
        *expected += 1;
    }
    for (reader, seen) in seen.iter().enumerate() {
        assert_eq!(seen, order, "reader {reader}");
    }

    // The history has the same order, ids included, and readers resume in it with a gap, since
    // events that were not stored are lost.
    assert_eq!(gateway.terminate(), Some(0));
    let gateway = Gateway::start_in(folder.path(), settings);
    let address = gateway.address("http");
    for form in [Form::Sse, Form::JsonLines, Form::NtfyJson] {
        let (has_gap, seen) = poll(address, form, None);
        assert!(!has_gap && &seen == order, "{form:?} after a restart");
        let middle = order.len() / 2;
        let (has_gap, seen) = poll(address, form, Some(&order[middle].0));
        assert_eq!(seen, order[middle + 1..], "{form:?} resumes");
        assert_eq!(has_gap, form != Form::NtfyJson, "{form:?}");
    }
}

#[test]
fn a_reader_gets_a_gap_where_topics_were_evicted() {
    // Room for the server's own topics, which are evicted too.
    let gateway = Gateway::start("rules.paths = []\nbroker.recent_topics_max = 150\n");
    let address = gateway.address("http");
    post(address, "t0", "first");
    let (has_gap, seen) = poll(address, Form::Sse, None);
    assert_eq!((has_gap, seen.len()), (false, 1));
    let first = seen[0].0.clone();
    let (has_gap, seen) = poll(address, Form::Sse, Some(&first));
    assert_eq!((has_gap, seen.len()), (false, 0), "nothing came since");
    for number in 1..300 {
        post(address, &format!("t{number}"), "later");
    }
    for form in [Form::Sse, Form::SsePayload, Form::JsonLines] {
        let (has_gap, seen) = poll(address, form, Some(&first));
        assert!(has_gap, "{form:?}");
        assert!((1..=150).contains(&seen.len()), "{form:?}: {}", seen.len());
    }
}

#[test]
fn a_reader_gets_a_gap_where_a_restart_remembers_fewer_or_lost_what_was_not_stored() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings =
        |remembered: usize| format!("rules.paths = []\nbroker.recent_per_topic = {remembered}\n");
    let gateway = Gateway::start_in(folder.path(), &settings(1000));
    let address = gateway.address("http");
    for number in 0..100 {
        post(address, "t0", &number.to_string());
    }
    let (has_gap, seen) = poll(address, Form::Sse, None);
    assert_eq!((has_gap, seen.len()), (false, 100));
    assert_eq!(gateway.terminate(), Some(0));

    let gateway = Gateway::start_in(folder.path(), &settings(10));
    let address = gateway.address("http");
    let (has_gap, again) = poll(address, Form::Sse, Some(&seen[50].0));
    assert!(has_gap, "fewer are remembered");
    assert_eq!(again, seen[90..]);

    // At QoS 0 nothing is stored.
    let port = gateway.port("mqtt");
    let lost = ["-p", &port, "-t", "t0", "-m", "lost", "-q", "0"];
    let output = support::run("mosquitto_pub", &lost, b"");
    assert!(output.status.success(), "{}", support::text_of(&output));
    let last = &seen[99].0;
    support::await_some("the publication", || {
        let (has_gap, seen) = poll(address, Form::Sse, Some(last));
        // Published since this start, so that only earlier events can be missing.
        (has_gap && seen.len() == 1).then_some(())
    });
    assert_eq!(gateway.terminate(), Some(0));
    let gateway = Gateway::start_in(folder.path(), &settings(10));
    let (has_gap, seen) = poll(gateway.address("http"), Form::Sse, Some(last));
    assert_eq!(
        (has_gap, seen.len()),
        (true, 0),
        "it is lost, and the gap says so"
    );
}
