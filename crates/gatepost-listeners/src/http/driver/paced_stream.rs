//! Subscriptions that the connection's own task writes: those that end after the remembered
//! publications, and streams with limited bandwidth, which have to wait. `live_stream.rs` writes
//! all others.

use std::io;
use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use gatepost_broker::{LocalSubscription, StreamEvent};
use tokio::time::{Instant, sleep_until};

use super::connection::Http1Connection;
use super::event_batch::EventBatch;
use crate::http::event_stream::{PublicationShape, StreamFormat, framed};
use crate::http::stream_rights::StreamRights;
use crate::websocket::{Opcode, ReadingClient, WebSocketClose, whole_frame};

/// The input permitted to a client that only reads.
pub(super) const SENT_MEANWHILE_BYTES_MAX: usize = 64 << 10;

/// RFC 6455, section 7.4.1.
const NORMAL_CLOSURE: [u8; 2] = 1000_u16.to_be_bytes();

/// The event that ended a wait.
enum WaitOutcome {
    Event(Option<StreamEvent>),
    Silence,
    Sent(io::Result<usize>),
}

impl Http1Connection {
    /// Writes events until the broker ends or a drain begins (true), or the client disconnects
    /// (false).
    pub(super) async fn write_stream(
        &mut self,
        mut reader: Box<LocalSubscription>,
        format: StreamFormat,
        rights: &StreamRights,
        chunked: bool,
    ) -> io::Result<bool> {
        let shape = format.shape;
        let is_websocket = shape == PublicationShape::NtfyWs;
        self.write_remembered(&mut reader, &format, rights, chunked)
            .await?;
        if format.ends {
            self.queue_end(is_websocket, chunked);
            self.flush_events().await?;
            return Ok(true);
        }
        let context = Arc::clone(&self.context);
        let keepalive = self.context.settings.keepalive.duration();
        // One timer serves all waits: if bytes were written meanwhile, it is set again when it
        // fires, instead of at each event.
        let mut client = ReadingClient::new();
        let mut silence = pin!(sleep_until(Instant::now() + keepalive));
        let mut silent_since = Instant::now();
        loop {
            let event = tokio::select! {
                biased;
                () = rights.lost() => WaitOutcome::Event(None),
                event = reader.next() => WaitOutcome::Event(event),
                sent = self.read_more() => WaitOutcome::Sent(sent),
                () = &mut silence => WaitOutcome::Silence,
                // Polled last, so that waiting events are written first.
                () = context.drain.begun() => WaitOutcome::Event(None),
            };
            match event {
                WaitOutcome::Event(Some(event)) => {
                    let mut first = Some(event);
                    let mut next = || first.take().or_else(|| reader.try_next());
                    self.queue(EventBatch::take(&mut next, &format, chunked).encoded);
                }
                WaitOutcome::Event(None) => {
                    self.queue_end(is_websocket, chunked);
                    self.flush_events().await?;
                    return Ok(true);
                }
                WaitOutcome::Silence => {
                    let due = silent_since + keepalive;
                    if due > Instant::now() {
                        silence.as_mut().reset(due);
                        continue;
                    }
                    silence.as_mut().reset(Instant::now() + keepalive);
                    self.queue([framed(shape.keepalive(&format.topics), chunked)]);
                }
                WaitOutcome::Sent(sent) => {
                    if sent? == 0 || self.tail.len() > SENT_MEANWHILE_BYTES_MAX {
                        return Ok(false);
                    }
                    if is_websocket && let Err(WebSocketClose(code)) = self.take_frames(&mut client)
                    {
                        let close = whole_frame(Opcode::Close, &code.to_be_bytes());
                        self.queue([close.into()]);
                        self.flush_events().await?;
                        return Ok(false);
                    }
                }
            }
            self.flush_events().await?;
            silent_since = Instant::now();
        }
    }

    /// Writes the opening of a stream, the remembered events, those published meanwhile, and the
    /// messages that wait for their time.
    async fn write_remembered(
        &mut self,
        reader: &mut LocalSubscription,
        format: &StreamFormat,
        rights: &StreamRights,
        chunked: bool,
    ) -> io::Result<()> {
        let opening = format.shape.opening(&format.topics);
        self.queue([framed(opening, chunked)]);
        self.flush_events().await?;
        while rights.still_hold() {
            let batch = EventBatch::take(&mut || reader.try_next(), format, chunked);
            if batch.is_empty {
                break;
            }
            self.queue(batch.encoded);
            self.flush_events().await?;
        }
        self.queue([format.scheduled_part(chunked)]);
        self.flush_events().await
    }

    /// Queues the end of the stream: the last chunk, and a WebSocket's Close frame.
    fn queue_end(&mut self, is_websocket: bool, chunked: bool) {
        if chunked {
            self.queue([Bytes::from_static(b"0\r\n\r\n")]);
        }
        if is_websocket {
            self.queue([whole_frame(Opcode::Close, &NORMAL_CLOSURE).into()]);
        }
    }

    /// Processes the WebSocket frames that the client sent, and queues the replies to them.
    fn take_frames(&mut self, client: &mut ReadingClient) -> Result<(), WebSocketClose> {
        let (unsent, tail) = (&mut self.unsent, &mut self.tail);
        let reply = |frame: Vec<u8>| unsent.push_back(Bytes::from(frame).into());
        let taken = client.take(tail, reply);
        tail.clear();
        taken
    }
}
