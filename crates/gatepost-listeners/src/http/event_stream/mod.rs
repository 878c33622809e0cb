//! Publications as text: server-sent events, JSON lines, and the shapes of ntfy.
//!
//! The text of an event depends on the publication and the format only, never on the reader, so
//! each thread keeps the texts that it made last: a publication with thousands of readers is
//! encoded once by the publishing thread, and all readers share the bytes, even if several events
//! wait for them and they take all at once.

mod filter;
mod ntfy_json;
mod publication_json;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use gatepost_broker::{Remembered, StreamEvent};
use gatepost_message::{MessageId, Publication};
use serde_json::json;

use crate::mount::MountPrefix;
use crate::websocket::{Opcode, whole_frame};
pub(super) use filter::EventFilter;
use ntfy_json::ntfy_event;
pub(super) use ntfy_json::{to_ntfy, to_ntfy_at};
pub(super) use publication_json::to_json;

/// The format of publications.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PublicationShape {
    /// `text/event-stream`: `id:` is the position, `data:` a JSON object.
    Sse,
    /// `text/event-stream` whose `data:` is the payload itself.
    SsePayload,
    /// `application/x-ndjson`: one JSON object a line.
    JsonLines,
    /// ntfy's `/sse`
    NtfySse,
    /// ntfy's `/json`
    NtfyJson,
    /// ntfy's `/raw`: the payload, one line each.
    NtfyRaw,
    /// ntfy's `/ws`: the objects of `/json`, one a WebSocket frame.
    NtfyWs,
}

/// The format of a stream.
#[derive(Debug, Clone)]
pub(super) struct StreamFormat {
    /// The format of an event's text.
    pub shape: PublicationShape,
    /// Whether the stream ends when everything remembered has been written.
    pub ends: bool,
    /// The topics as the reader named them, which ntfy's clients expect in the first event.
    pub topics: String,
    /// The filter of publications that the reader requested, if any.
    pub filter: Option<Arc<EventFilter>>,
    /// The prefix of the reader's topics, which the reader does not see.
    pub mount: Option<MountPrefix>,
    /// Whether events have whole topics nevertheless, as for the live values of a page. Topics
    /// outside of the prefix stay invisible.
    pub names_whole_topics: bool,
    /// The text of the messages that wait for their time, if the reader requested them. It follows
    /// the remembered publications.
    pub scheduled: Bytes,
}

impl StreamFormat {
    /// Whether the reader receives this event.
    pub(super) fn wants(&self, event: &StreamEvent) -> bool {
        match (&self.filter, event) {
            (Some(filter), StreamEvent::Publication(publication)) => filter.wants(publication),
            _ => true,
        }
    }

    /// The messages that wait for their time, in the framing of the connection.
    pub(super) fn scheduled_part(&self, chunked: bool) -> Bytes {
        if chunked && !self.scheduled.is_empty() {
            return chunk(&self.scheduled);
        }
        self.scheduled.clone()
    }
}

impl PublicationShape {
    /// The name of the reader in the list of sessions.
    pub(super) const fn kind(self) -> &'static str {
        match self {
            Self::Sse | Self::SsePayload | Self::NtfySse => "sse",
            Self::JsonLines | Self::NtfyJson => "json",
            Self::NtfyRaw => "raw",
            Self::NtfyWs => "websocket",
        }
    }

    /// The response's type.
    pub(super) const fn content_type(self) -> &'static str {
        match self {
            Self::Sse | Self::SsePayload | Self::NtfySse => "text/event-stream",
            Self::JsonLines | Self::NtfyJson | Self::NtfyWs => "application/x-ndjson",
            Self::NtfyRaw => "text/plain; charset=utf-8",
        }
    }

    /// The bytes that are written before the first event.
    pub(super) fn opening(self, topics: &str) -> Vec<u8> {
        match self {
            // The browser's own pause of some seconds is long for a page that shows live values.
            Self::Sse | Self::SsePayload => b"retry: 1000\n\n".to_vec(),
            Self::NtfySse => {
                format!("event: open\ndata: {}\n\n", ntfy_event("open", topics)).into()
            }
            Self::NtfyJson => format!("{}\n", ntfy_event("open", topics)).into(),
            Self::JsonLines => Vec::new(),
            Self::NtfyRaw => b"\n".to_vec(),
            Self::NtfyWs => text_frame(&ntfy_event("open", topics)),
        }
    }

    /// The bytes that keep the connection open through proxies.
    pub(super) fn keepalive(self, topics: &str) -> Vec<u8> {
        match self {
            Self::Sse | Self::SsePayload => b": keepalive\n\n".to_vec(),
            Self::NtfySse => format!(
                "event: keepalive\ndata: {}\n\n",
                ntfy_event("keepalive", topics)
            )
            .into(),
            Self::NtfyJson => format!("{}\n", ntfy_event("keepalive", topics)).into(),
            Self::JsonLines | Self::NtfyRaw => b"\n".to_vec(),
            Self::NtfyWs => text_frame(&ntfy_event("keepalive", topics)),
        }
    }

    /// The text of an event; empty if the shape has no such event.
    pub(super) fn encode(self, event: &StreamEvent) -> Vec<u8> {
        let publication = match event {
            StreamEvent::Gap { missed } => return self.encode_gap(*missed),
            StreamEvent::Publication(publication) => publication,
        };
        // The position after which a reader resumes.
        let id = publication.position;
        match self {
            Self::Sse => format!("id: {id}\ndata: {}\n\n", to_json(publication)).into(),
            Self::SsePayload => sse_payload(publication),
            Self::JsonLines => {
                let mut object = to_json(publication);
                if id != publication.id {
                    object["position"] = id.to_string().into();
                }
                format!("{object}\n").into()
            }
            Self::NtfySse | Self::NtfyJson | Self::NtfyWs => {
                self.encode_ntfy(&to_ntfy(id, publication))
            }
            Self::NtfyRaw => raw_line(&publication.payload),
        }
    }

    /// The text of a message that waits for its time.
    pub(super) fn encode_scheduled(self, due: SystemTime, publication: &Publication) -> Vec<u8> {
        match self {
            Self::NtfyRaw => raw_line(&publication.payload),
            _ => self.encode_ntfy(&to_ntfy_at(due, publication)),
        }
    }

    /// ntfy's object in the framing of the shape; empty in the shapes that are not ntfy's.
    fn encode_ntfy(self, object: &serde_json::Value) -> Vec<u8> {
        match self {
            Self::NtfySse => format!("data: {object}\n\n").into(),
            Self::NtfyJson => format!("{object}\n").into(),
            Self::NtfyWs => text_frame(object),
            Self::Sse | Self::SsePayload | Self::JsonLines | Self::NtfyRaw => Vec::new(),
        }
    }

    fn encode_gap(self, missed: Option<u64>) -> Vec<u8> {
        let gap = json!({ "missed": missed });
        match self {
            Self::Sse | Self::SsePayload => format!("event: gap\ndata: {gap}\n\n").into(),
            Self::JsonLines => format!("{}\n", json!({ "gap": gap })).into(),
            Self::NtfySse | Self::NtfyJson | Self::NtfyRaw | Self::NtfyWs => Vec::new(),
        }
    }
}

fn text_frame(value: &serde_json::Value) -> Vec<u8> {
    whole_frame(Opcode::Text, value.to_string().as_bytes())
}

/// The payload as one line.
fn raw_line(payload: &[u8]) -> Vec<u8> {
    let payload = String::from_utf8_lossy(payload);
    format!("{}\n", payload.replace(['\r', '\n'], " ")).into()
}

/// The payload as `data:` lines. SSE ends lines at CR, LF and CR LF alike, so each becomes a
/// line of its own (HTML living standard section 9.2.5).
fn sse_payload(publication: &Remembered) -> Vec<u8> {
    let payload = String::from_utf8_lossy(&publication.payload).replace("\r\n", "\n");
    let mut text = format!("id: {}\n", publication.position).into_bytes();
    for line in payload.split(['\r', '\n']) {
        text.extend_from_slice(b"data: ");
        text.extend_from_slice(line.as_bytes());
        text.push(b'\n');
    }
    text.push(b'\n');
    text
}

/// Puts the chunked coding's frame around `text` (RFC 9112, section 7.1).
fn chunk(text: &[u8]) -> Bytes {
    let mut chunk = Vec::with_capacity(text.len() + 16);
    chunk.extend_from_slice(format!("{:x}\r\n", text.len()).as_bytes());
    chunk.extend_from_slice(text);
    chunk.extend_from_slice(b"\r\n");
    chunk.into()
}

/// A text in the framing of the connection.
pub(super) fn framed(text: Vec<u8>, chunked: bool) -> Bytes {
    match (text.is_empty(), chunked) {
        // An empty chunk would end the body.
        (true, _) => Bytes::new(),
        (false, true) => chunk(&text),
        (false, false) => text.into(),
    }
}

/// The number of events whose bytes a thread remembers.
const ENCODED_EVENTS: usize = 64;
/// Longer events are not remembered, except the last one.
const ENCODED_BYTES_MAX: usize = 16 * 1024;

/// An event that this thread has encoded.
struct EncodedEvent {
    id: MessageId,
    shape: PublicationShape,
    chunked: bool,
    bytes: Bytes,
}

impl EncodedEvent {
    fn is_of(&self, id: MessageId, shape: PublicationShape, chunked: bool) -> bool {
        self.id == id && self.shape == shape && self.chunked == chunked
    }
}

/// The last events that a thread encoded, and the last long one, so that their size is bounded by a
/// megabyte and one event.
#[derive(Default)]
struct EncodedEvents {
    short: VecDeque<EncodedEvent>,
    long: Option<EncodedEvent>,
}

impl EncodedEvents {
    /// Begins with the newest event, which most readers need.
    fn find(&self, id: MessageId, shape: PublicationShape, chunked: bool) -> Option<Bytes> {
        let mut all = self.short.iter().rev().chain(&self.long);
        let encoded = all.find(|encoded| encoded.is_of(id, shape, chunked))?;
        Some(encoded.bytes.clone())
    }

    fn keep(&mut self, encoded: EncodedEvent) {
        if encoded.bytes.len() > ENCODED_BYTES_MAX {
            self.long = Some(encoded);
            return;
        }
        if self.short.len() == ENCODED_EVENTS {
            self.short.pop_front();
        }
        self.short.push_back(encoded);
    }
}

thread_local! {
    static LAST: RefCell<EncodedEvents> = RefCell::default();
}

/// The bytes of an event, shared between the readers on this thread.
pub(super) fn encode_shared(event: &StreamEvent, format: &StreamFormat, chunked: bool) -> Bytes {
    let shape = format.shape;
    let StreamEvent::Publication(publication) = event else {
        return framed(shape.encode(event), chunked);
    };
    let mount = format.mount.as_ref();
    // A topic outside of the prefix of the reader is invisible to it.
    if mount.is_some_and(|mount| mount.own(publication.topic.as_str()).is_none()) {
        return Bytes::new();
    }
    if let Some(mount) = mount.filter(|_| !format.names_whole_topics) {
        let own = mount.own_publication(publication);
        return own.map_or_else(
            |_| Bytes::new(),
            |own| {
                let own = StreamEvent::Publication(Remembered {
                    position: publication.position,
                    publication: Arc::new(own),
                });
                framed(shape.encode(&own), chunked)
            },
        );
    }
    // Not the message id: one message may be published to several topics.
    let id = publication.position;
    LAST.with_borrow_mut(|last| {
        if let Some(bytes) = last.find(id, shape, chunked) {
            return bytes;
        }
        let bytes = framed(shape.encode(event), chunked);
        last.keep(EncodedEvent {
            id,
            shape,
            chunked,
            bytes: bytes.clone(),
        });
        bytes
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gatepost_message::Topic;

    fn event(payload: &'static [u8]) -> StreamEvent {
        let topic = Topic::new("alarms/fire").expect("a topic");
        let publication = Arc::new(Publication::new(topic, payload));
        StreamEvent::Publication(Remembered {
            position: publication.id,
            publication,
        })
    }

    fn plain(shape: PublicationShape) -> StreamFormat {
        StreamFormat {
            shape,
            ends: false,
            topics: String::new(),
            filter: None,
            mount: None,
            names_whole_topics: false,
            scheduled: Bytes::new(),
        }
    }

    #[test]
    fn a_payload_cannot_forge_an_event() {
        for payload in [&b"a\n\nid: 9"[..], b"a\r\rid: 9", b"a\r\n\r\nid: 9"] {
            let text = String::from_utf8(PublicationShape::SsePayload.encode(&event(payload)))
                .expect("UTF-8");
            let (first, rest) = text.split_once('\n').expect("lines");
            assert!(first.starts_with("id: "));
            assert_eq!(rest, "data: a\ndata: \ndata: id: 9\n\n");
            let json =
                String::from_utf8(PublicationShape::Sse.encode(&event(payload))).expect("UTF-8");
            assert_eq!(json.lines().count(), 3, "{json}");
            let raw = String::from_utf8(PublicationShape::NtfyRaw.encode(&event(payload)))
                .expect("UTF-8");
            assert_eq!(raw.lines().count(), 1);
        }
    }

    #[test]
    fn readers_of_one_thread_share_the_bytes() {
        let event = event(b"x");
        let first = encode_shared(&event, &plain(PublicationShape::Sse), true);
        let second = encode_shared(&event, &plain(PublicationShape::Sse), true);
        assert_eq!(first.as_ptr(), second.as_ptr());
        assert_ne!(
            encode_shared(&event, &plain(PublicationShape::JsonLines), true),
            first
        );
    }

    #[test]
    fn readers_that_are_events_behind_share_the_bytes_too() {
        let events: Vec<StreamEvent> = (0..ENCODED_EVENTS).map(|_| event(b"x")).collect();
        let encode = || -> Vec<Bytes> {
            let encoded = events
                .iter()
                .map(|event| encode_shared(event, &plain(PublicationShape::Sse), true));
            encoded.collect()
        };
        let (first, second) = (encode(), encode());
        let shared = first.iter().zip(&second);
        let shared = shared.filter(|(first, second)| first.as_ptr() == second.as_ptr());
        assert_eq!(shared.count(), ENCODED_EVENTS);
    }

    #[test]
    fn of_long_events_the_last_is_shared() {
        let long: &'static [u8] = vec![b'x'; ENCODED_BYTES_MAX].leak();
        let (one, other) = (event(long), event(long));
        let first = encode_shared(&one, &plain(PublicationShape::Sse), true);
        assert_eq!(
            encode_shared(&one, &plain(PublicationShape::Sse), true).as_ptr(),
            first.as_ptr()
        );
        encode_shared(&other, &plain(PublicationShape::Sse), true);
        let again = encode_shared(&one, &plain(PublicationShape::Sse), true);
        assert_ne!(again.as_ptr(), first.as_ptr());
        assert_eq!(again, first);
    }
}
