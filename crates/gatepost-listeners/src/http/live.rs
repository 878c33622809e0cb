//! A stream of events to one reader over HTTP/1.1, for as long as both live.
//!
//! Events are encoded and written by the thread that publishes, with one system call for each
//! reader and batch: the bytes are made once and shared by all readers of that kind, and no
//! reader's task is woken for them. The task writes only what the socket refused, hears the client
//! and keeps the connection from falling silent.
//!
//! When the broker ends or a drain begins, the task has what waits in the broker's queue taken too,
//! and ends the stream in form behind it. How long that may take is bounded by the drain.
//!
//! Invariants: bytes reach the socket only under `state`'s lock, in the order of the events, and
//! none behind the end; while something waits in `unsent` nothing more is taken, so what waits for
//! a slow reader is bounded by the broker, which tells it what it missed.

use std::collections::VecDeque;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use parking_lot::Mutex;
use smallvec::SmallVec;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::stream::Stream;

use super::HttpContext;
use super::connection::{Connection, timeout, with_worker};
use super::feed::{EVENTS_PER_WRITE, SENT_MEANWHILE_BYTES_MAX, hear};
use super::rooms::{Event, Subscription, Taker};
use super::stream::{Shape, StreamFormat, encode_shared, framed};
use super::websocket;

/// What a connection is to write from here on.
pub(super) struct LiveStream {
    pub(super) subscription: Box<dyn Subscription>,
    pub(super) format: StreamFormat,
    pub(super) chunked: bool,
}

impl Connection {
    /// Writes events until the client goes, or the broker ends or a drain begins and all is
    /// written. The head has been queued.
    pub(super) async fn serve_live(mut self, live: LiveStream) -> io::Result<()> {
        let LiveStream {
            mut subscription,
            format,
            chunked,
        } = live;
        let opening = format.shape.opening(&format.topics);
        self.queue([framed(opening, chunked)]);
        // What is remembered comes first; what is published meanwhile joins its end.
        let mut next = subscription.try_next();
        while next.is_some() {
            for _ in 0..EVENTS_PER_WRITE {
                let Some(event) = next.take() else { break };
                if format.wants(&event) {
                    self.queue([encode_shared(&event, format.shape, chunked)]);
                }
                next = subscription.try_next();
            }
            self.flush().await?;
        }
        self.flush().await?;
        let Self {
            stream,
            context,
            tail,
            ..
        } = self;
        let socket = Arc::new(Socket {
            stream,
            format,
            chunked,
            state: Mutex::new(State {
                unsent: VecDeque::new(),
                wrote_at: Instant::now(),
                error: None,
                ended: false,
            }),
        });
        subscription.attach(socket.clone());
        let limit = context.settings.write_timeout.duration();
        let keepalive = context.settings.keepalive.duration();
        let reader = Reader {
            socket: &socket,
            subscription,
            context: &context,
            tail,
            timer: pin!(sleep_until(Instant::now() + keepalive)),
        };
        if reader.serve().await? {
            socket.push_end();
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
struct Socket {
    stream: Stream,
    format: StreamFormat,
    chunked: bool,
    state: Mutex<State>,
}

struct State {
    /// What the socket refused.
    unsent: VecDeque<Bytes>,
    /// When it last took something.
    wrote_at: Instant,
    /// Why it takes nothing any more; for the task, which ends the connection.
    error: Option<io::Error>,
    /// The end has been said.
    ended: bool,
}

impl Taker for Socket {
    fn take(&self, next: &mut dyn FnMut() -> Option<Event>) -> bool {
        let mut state = self.state.lock();
        while state.has_room() {
            let mut taken = 0;
            let mut batch: SmallVec<[Bytes; 4]> = SmallVec::new();
            while taken < EVENTS_PER_WRITE {
                let Some(event) = next() else { break };
                taken += 1;
                if self.format.wants(&event) {
                    batch.push(encode_shared(&event, self.format.shape, self.chunked));
                }
            }
            if taken == 0 {
                return true;
            }
            self.write_batch(&mut state, batch);
        }
        false
    }
}

impl State {
    fn has_room(&self) -> bool {
        self.unsent.is_empty() && self.error.is_none() && !self.ended
    }
}

impl Socket {
    /// Writes what nothing waits before, and keeps what the socket refuses.
    fn write_batch(&self, state: &mut State, batch: SmallVec<[Bytes; 4]>) {
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

    fn push_end(&self) {
        self.state.lock().ended = true;
        if self.format.shape == Shape::NtfyWs {
            self.push(websocket::frame(websocket::CLOSE, &[]).into());
        }
        if self.chunked {
            self.push(Bytes::from_static(b"0\r\n\r\n"));
        }
    }

    /// Writes what waits.
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

impl State {
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

/// The reader's own task.
struct Reader<'a> {
    socket: &'a Socket,
    subscription: Box<dyn Subscription>,
    context: &'a HttpContext,
    tail: Vec<u8>,
    timer: Pin<&'a mut Sleep>,
}

impl Reader<'_> {
    /// Returns true where the stream is to be ended in form, false where nobody reads any more.
    async fn serve(mut self) -> io::Result<bool> {
        std::future::poll_fn(|task| self.poll(task)).await
    }

    fn poll(&mut self, task: &mut Context<'_>) -> Poll<io::Result<bool>> {
        // First of all: whoever finds the socket full from here on wakes this task.
        let ended = self.subscription.poll_ended(task).is_ready();
        let ends = ended || self.context.drain.is_draining();
        if let Poll::Ready(gone) = self.poll_hear(task) {
            gone?;
            return Poll::Ready(Ok(self.socket.format.shape == Shape::NtfyWs));
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
                return Poll::Ready(Ok(true));
            }
            ready!(self.poll_time(task))?;
        }
    }

    /// Takes what waits in the broker's queue; tells whether nothing is left to be written.
    fn takes_nothing(&mut self) -> bool {
        self.subscription.pump();
        self.socket.state.lock().unsent.is_empty()
    }

    /// Reads what the client says; ready when it is gone or says good-bye.
    fn poll_hear(&mut self, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        let is_websocket = self.socket.format.shape == Shape::NtfyWs;
        loop {
            ready!(self.socket.stream.poll_read_ready(task))?;
            let tail = &mut self.tail;
            let read = with_worker(|worker| {
                let read = self.socket.stream.try_read(&mut worker.input)?;
                tail.extend_from_slice(worker.input.get(..read).unwrap_or_default());
                Ok::<_, io::Error>(read)
            });
            let goes_on = match read {
                Ok(read) => read > 0 && tail.len() <= SENT_MEANWHILE_BYTES_MAX,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Poll::Ready(Err(error)),
            };
            if !goes_on || (is_websocket && !hear(tail, |reply| self.socket.push(reply))) {
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// Ready when the silence has been long enough to be broken, which the caller is to write, or
    /// with an error when the socket took nothing for too long.
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
            // Moved when it fires, not at each event; before that only where the socket is full.
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
