//! A stream of events to one reader over HTTP/1.1, for as long as the reader and the server stay
//! connected.
//!
//! Events are encoded and written by the thread that publishes, with one system call for each
//! reader and batch: the bytes are made once and shared by all readers of that kind, and no
//! reader's task is woken for them. The task writes only bytes that the socket refused, watches the
//! client, and sends keep-alives.
//!
//! At the end of the broker or the beginning of a drain, the task also takes the events in the
//! broker's queue and then ends the stream properly. The drain bounds the time that this may take.
//!
//! Invariants: bytes reach the socket only under `state`'s lock, in the order of the events, and
//! none after the end; while bytes wait in `unsent`, no more events are taken, so the broker bounds
//! the backlog of a slow reader, and reports missed events to it; after a change of users or rules
//! nothing is taken before the task has checked that the reader may still read it.

use std::collections::VecDeque;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use gatepost_broker::{EventConsumer, LocalSubscription, StreamEvent};
use parking_lot::Mutex;
use smallvec::SmallVec;
use tokio::time::{Instant, Sleep, sleep_until};

use super::buffers::{timeout, with_buffers};
use super::connection::Http1Connection;
use super::event_batch::{EVENTS_PER_WRITE, EventBatch};
use super::paced_stream::SENT_MEANWHILE_BYTES_MAX;
use crate::http::context::HttpContext;
use crate::http::event_stream::{PublicationShape, StreamFormat, framed};
use crate::http::stream_rights::StreamRights;
use crate::stream::Stream;
use crate::websocket::{Opcode, ReadingClient, WebSocketClose, whole_frame};

/// Pieces of output that may wait where a Pong is added to them.
const UNSENT_WITH_PONG_MAX: usize = 64;

/// Output that a connection writes from here on.
pub(super) struct LiveStream {
    pub(super) reader: Box<LocalSubscription>,
    pub(super) format: StreamFormat,
    pub(super) rights: Box<StreamRights>,
    pub(super) chunked: bool,
}

impl Http1Connection {
    /// Writes events until the client disconnects, or until the broker ends or a drain begins and
    /// all is written. The head has been queued.
    pub(super) async fn serve_live(mut self, live: LiveStream) -> io::Result<()> {
        let LiveStream {
            mut reader,
            format,
            rights,
            chunked,
        } = live;
        let opening = format.shape.opening(&format.topics);
        self.queue([framed(opening, chunked)]);
        // Remembered events come first; events published meanwhile are appended to them.
        while rights.still_hold() {
            let batch = EventBatch::take(&mut || reader.try_next(), &format, chunked);
            if batch.is_empty {
                break;
            }
            self.queue(batch.encoded);
            self.flush_events().await?;
        }
        self.queue([format.scheduled_part(chunked)]);
        self.flush_events().await?;
        let Self {
            stream,
            context,
            tail,
            ..
        } = self;
        let socket = Arc::new(LiveSocket {
            stream,
            format,
            rights: *rights,
            chunked,
            state: Mutex::new(LiveStreamState {
                unsent: VecDeque::new(),
                wrote_at: Instant::now(),
                error: None,
                ended: false,
            }),
        });
        reader.attach(socket.clone());
        let limit = context.settings.write_timeout.duration();
        let keepalive = context.settings.keepalive.duration();
        let task = StreamTask {
            socket: &socket,
            reader,
            context: &context,
            sent: ClientBytes::new(&socket.format),
            timer: pin!(sleep_until(Instant::now() + keepalive)),
        };
        if let Some(close_code) = task.serve(&tail).await? {
            socket.push_end(close_code);
            let ended = std::future::poll_fn(|task| {
                ready!(socket.poll_flush(task))?;
                socket.stream.poll_finish(task)
            });
            return timeout(limit, ended).await.unwrap_or(Ok(()));
        }
        Ok(())
    }
}

/// The socket, as the publishing threads and the reader's task share it.
struct LiveSocket {
    stream: Stream,
    format: StreamFormat,
    rights: StreamRights,
    chunked: bool,
    state: Mutex<LiveStreamState>,
}

struct LiveStreamState {
    /// Bytes that the socket refused.
    unsent: VecDeque<Bytes>,
    /// The time of the last progress.
    wrote_at: Instant,
    /// The error of the socket, for the task, which ends the connection.
    error: Option<io::Error>,
    /// The end of the stream has been written.
    ended: bool,
}

impl EventConsumer for LiveSocket {
    fn take(&self, next: &mut dyn FnMut() -> Option<StreamEvent>) -> bool {
        // The task checks the rights, and ends the stream if they were withdrawn.
        if self.rights.are_stale() {
            return false;
        }
        let mut state = self.state.lock();
        while state.has_room() {
            let batch = EventBatch::take(next, &self.format, self.chunked);
            if batch.is_empty {
                return true;
            }
            self.write_batch(&mut state, batch.encoded);
        }
        false
    }
}

impl LiveStreamState {
    fn has_room(&self) -> bool {
        self.unsent.is_empty() && self.error.is_none() && !self.ended
    }
}

impl LiveSocket {
    /// Writes events if no bytes wait before them, and keeps the bytes that the socket refuses.
    fn write_batch(&self, state: &mut LiveStreamState, batch: SmallVec<[Bytes; 4]>) {
        let written = match batch.as_slice() {
            [] => return,
            [bytes] if bytes.is_empty() => return,
            [bytes] => self.stream.try_write(&[IoSlice::new(bytes)]),
            all => {
                let slices: SmallVec<[IoSlice<'_>; EVENTS_PER_WRITE]> =
                    all.iter().map(|bytes| IoSlice::new(bytes)).collect();
                self.stream.try_write(&slices)
            }
        };
        match written {
            Ok(0) => state.error = Some(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                state.wrote_at = Instant::now();
                if written < batch.iter().map(Bytes::len).sum() {
                    state.unsent.extend(batch);
                    state.advance(written);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => state.unsent.extend(batch),
            Err(error) => state.error = Some(error),
        }
    }

    /// Appends bytes of the task's own.
    fn push(&self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.state.lock().unsent.push_back(bytes);
        }
    }

    /// Answers a Ping, unless so many bytes wait already that the client is not reading: the Pong
    /// of a later Ping may answer it (RFC 6455, section 5.5.3).
    fn push_pong(&self, pong: Vec<u8>) {
        let mut state = self.state.lock();
        if state.unsent.len() < UNSENT_WITH_PONG_MAX {
            state.unsent.push_back(pong.into());
        }
    }

    fn push_end(&self, close_code: u16) {
        self.state.lock().ended = true;
        if self.format.shape == PublicationShape::NtfyWs {
            self.push(whole_frame(Opcode::Close, &close_code.to_be_bytes()).into());
        }
        if self.chunked {
            self.push(Bytes::from_static(b"0\r\n\r\n"));
        }
    }

    /// Writes the waiting bytes.
    fn poll_flush(&self, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            {
                let mut state = self.state.lock();
                if let Some(error) = state.error.take() {
                    return Poll::Ready(Err(error));
                }
                if state.unsent.is_empty() {
                    return Poll::Ready(Ok(()));
                }
                let slices: SmallVec<[IoSlice<'_>; EVENTS_PER_WRITE]> = state
                    .unsent
                    .iter()
                    .take(EVENTS_PER_WRITE)
                    .map(|bytes| IoSlice::new(bytes))
                    .collect();
                let written = self.stream.try_write(&slices);
                drop(slices);
                match written {
                    Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    Ok(written) => {
                        state.wrote_at = Instant::now();
                        state.advance(written);
                        continue;
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
            ready!(self.stream.poll_write_ready(task))?;
        }
    }
}

impl LiveStreamState {
    fn advance(&mut self, mut written: usize) {
        while let Some(front) = self.unsent.front_mut() {
            if written < front.len() {
                front.advance(written);
                return;
            }
            written -= front.len();
            self.unsent.pop_front();
        }
    }
}

/// The connection's own task.
struct StreamTask<'a> {
    socket: &'a LiveSocket,
    reader: Box<LocalSubscription>,
    context: &'a HttpContext,
    sent: ClientBytes,
    timer: Pin<&'a mut Sleep>,
}

/// Input of a client that only reads.
enum ClientBytes {
    /// Frames of a WebSocket.
    Frames(Box<ReadingClient>),
    /// The number of bytes of later requests, which are never answered.
    Requests(usize),
}

impl ClientBytes {
    fn new(format: &StreamFormat) -> Self {
        if format.shape == PublicationShape::NtfyWs {
            Self::Frames(Box::new(ReadingClient::new()))
        } else {
            Self::Requests(0)
        }
    }

    /// Takes the next bytes; the error ends the stream.
    fn take(&mut self, bytes: &[u8], socket: &LiveSocket) -> Result<(), StreamEnd> {
        match self {
            Self::Frames(client) => client
                .take(bytes, |pong| socket.push_pong(pong))
                .map_err(|WebSocketClose(code)| StreamEnd::InForm(code)),
            Self::Requests(count) => {
                *count += bytes.len();
                if bytes.is_empty() || *count > SENT_MEANWHILE_BYTES_MAX {
                    return Err(StreamEnd::Gone);
                }
                Ok(())
            }
        }
    }
}

/// The end of a stream.
enum StreamEnd {
    /// Ended properly, so that the client can distinguish the end from a lost connection; a
    /// WebSocket's close frame has this code.
    InForm(u16),
    /// The client is gone.
    Gone,
}

impl StreamEnd {
    /// The code of the close frame, if one must be sent.
    const fn close_code(&self) -> Option<u16> {
        match self {
            Self::InForm(code) => Some(*code),
            Self::Gone => None,
        }
    }
}

/// RFC 6455, section 7.4.1: the server goes down.
const GOING_AWAY: u16 = 1001;
/// The same section: the rights of the reader have changed.
const POLICY_VIOLATION: u16 = 1008;

impl StreamTask<'_> {
    /// Returns the code of the close frame if the stream must be ended properly, `None` if the
    /// client is gone. `received` are bytes that came with the request.
    async fn serve(mut self, received: &[u8]) -> io::Result<Option<u16>> {
        if !received.is_empty()
            && let Err(ended) = self.sent.take(received, self.socket)
        {
            return Ok(ended.close_code());
        }
        std::future::poll_fn(|task| self.poll(task)).await
    }

    fn poll(&mut self, task: &mut Context<'_>) -> Poll<io::Result<Option<u16>>> {
        // This comes first, so that from here on a publisher that finds the socket full wakes this
        // task.
        let ended = self.reader.poll_ended(task).is_ready();
        if !self.socket.rights.still_hold() {
            return Poll::Ready(Ok(Some(POLICY_VIOLATION)));
        }
        let ends = ended || self.context.drain.is_draining();
        if let Poll::Ready(ended) = self.poll_read(task) {
            return Poll::Ready(ended.map(|ended| ended.close_code()));
        }
        loop {
            let is_written = loop {
                if self.socket.poll_flush(task)?.is_pending() {
                    break false;
                }
                if self.takes_nothing() {
                    break true;
                }
            };
            if ends && is_written {
                return Poll::Ready(Ok(Some(GOING_AWAY)));
            }
            ready!(self.poll_time(task))?;
        }
    }

    /// Takes the events in the broker's queue; returns whether nothing is left to be written.
    fn takes_nothing(&mut self) -> bool {
        self.reader.pump();
        self.socket.state.lock().unsent.is_empty()
    }

    /// Reads what the client sends; ready when that ends the stream.
    fn poll_read(&mut self, task: &mut Context<'_>) -> Poll<io::Result<StreamEnd>> {
        loop {
            ready!(self.socket.stream.poll_read_ready(task))?;
            let sent = &mut self.sent;
            let socket = self.socket;
            let taken = with_buffers(|buffers| {
                let count = socket.stream.try_read(&mut buffers.input)?;
                if count == 0 {
                    return Ok(Err(StreamEnd::Gone));
                }
                let bytes = buffers.input.get(..count).unwrap_or_default();
                Ok::<_, io::Error>(sent.take(bytes, socket))
            });
            match taken {
                Ok(Ok(())) => {}
                Ok(Err(ended)) => return Poll::Ready(Ok(ended)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Ready when a keep-alive is due, which the caller must write, or with an error when the
    /// socket has accepted nothing for too long.
    fn poll_time(&mut self, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        let settings = &self.context.settings;
        loop {
            let (is_full, wrote_at) = {
                let state = self.socket.state.lock();
                (!state.unsent.is_empty(), state.wrote_at)
            };
            let limit = if is_full {
                settings.write_timeout
            } else {
                settings.keepalive
            };
            let due = wrote_at + limit.duration();
            // The timer is moved when it fires, not at each event; before that only if the socket
            // is full.
            if is_full && self.timer.deadline() > due {
                self.timer.as_mut().reset(due);
            }
            ready!(self.timer.as_mut().poll(task));
            let now = Instant::now();
            if due > now {
                self.timer.as_mut().reset(due);
                continue;
            }
            if is_full {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            let format = &self.socket.format;
            let keepalive = format.shape.keepalive(&format.topics);
            self.socket.push(framed(keepalive, self.socket.chunked));
            self.socket.state.lock().wrote_at = now;
            self.timer.as_mut().reset(now + limit.duration());
            return Poll::Ready(Ok(()));
        }
    }
}
