//! One HTTP/1.1 connection: read, answer, write, in as few system calls as possible.
//!
//! A read goes into a buffer of the worker; every whole request in it is parsed in place, and those
//! that can be answered from memory (pages and files of the cache) are answered immediately; all
//! responses are written with one `writev`. Only a request that must wait (for its body, for the
//! disk, for a verdict) is copied out of the buffer. An idle connection owns no buffer.
//!
//! Invariants: responses are written in the order of their requests; bytes that came after a
//! request are kept in `tail` until that request is answered; after an error that makes the
//! position in the stream uncertain, nothing more is read.

use std::fmt::Write as _;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use gatepost_bans::Offence;
use gatepost_message::Peer;
use gatepost_users::PeerAccount;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::buffers::{READ_BYTES, WorkerBuffers, with_buffers};
use super::encode;
use super::from_memory;
use super::head::{self, BodyFraming};
use super::output::Output;
use super::sending::UnsentChunks;
use super::worker_page::WorkerPage;
use crate::http::context::HttpContext;
use crate::http::error::HttpError;
use crate::http::log;
use crate::http::request::HttpRequest;
use crate::minimum_rate::MinimumRate;
use crate::stream::{Stream, TlsSession};

/// A batch of answers larger than this is written before more requests are parsed.
const BATCH_BYTES: usize = 256 << 10;

/// One connection.
pub(super) struct Http1Connection {
    pub(super) stream: Stream,
    pub(super) context: Arc<HttpContext>,
    pub(super) peer: Peer,
    pub(super) peer_text: String,
    /// The client of the answer: of a trusted proxy, the one that the proxy names.
    pub(super) client: Peer,
    /// The account of this machine that the connection is of; `None` until a request needs it.
    account: Option<PeerAccount>,
    /// Bytes read and not yet parsed.
    pub(super) tail: Vec<u8>,
    /// Whether `tail` may hold a whole request.
    tail_unparsed: bool,
    /// Bytes that the socket did not take yet.
    pub(super) unsent: UnsentChunks,
    /// Nothing was parsed yet: it may still become HTTP/2.
    is_new: bool,
    /// Nothing more is read; the connection ends when everything is written.
    closing: bool,
    /// Whether the client announced its last request, and nothing followed it: then closing
    /// immediately loses no response.
    pub(super) orderly: bool,
    pub(super) timer: Pin<Box<Sleep>>,
    /// The start of the current wait.
    pub(super) since: Instant,
    /// The minimum rate at which the client must take `unsent`; `None` while it takes everything at
    /// once.
    pub(super) sending: Option<MinimumRate>,
    /// The arrival of the first byte of the unfinished header in `tail`.
    head_began: Option<Instant>,
}

/// The end of a wait for a request.
pub(super) enum RequestWaitEnd {
    /// A request that cannot be answered immediately.
    Request(Box<UnreadRequest>),
    /// A page that needs a page worker.
    WorkerPage(Box<WorkerPage>),
    /// The client speaks HTTP/2; its preface is in `tail`.
    Http2,
    /// The end of the connection.
    Close,
}

/// A request whose body is still to be read.
pub(super) struct UnreadRequest {
    pub(super) request: HttpRequest,
    pub(super) framing: BodyFraming,
    pub(super) keep_alive: bool,
    pub(super) expects_continue: bool,
}

/// The result of a batch.
enum BatchOutcome {
    /// The socket has nothing to read.
    Idle,
    /// Something was answered; there may be more.
    Answered,
    Next(RequestWaitEnd),
    Close,
}

impl Http1Connection {
    pub(super) fn new(stream: Stream, peer: Peer, context: Arc<HttpContext>) -> Self {
        let now = Instant::now();
        let idle = context.settings.idle_timeout.duration();
        let mut peer_text = String::new();
        push_peer(&mut peer_text, peer);
        Self {
            stream,
            peer,
            peer_text,
            client: peer,
            account: None,
            context,
            tail: Vec::new(),
            tail_unparsed: false,
            unsent: UnsentChunks::new(),
            is_new: true,
            closing: false,
            orderly: false,
            timer: Box::pin(tokio::time::sleep_until(now + idle)),
            since: now,
            sending: None,
            head_began: None,
        }
    }

    /// The account of this machine that the connection is of.
    pub(super) fn account(&mut self) -> PeerAccount {
        let (peer, socket) = (self.peer, self.stream.descriptor());
        let account = self
            .account
            .get_or_insert_with(|| PeerAccount::of(peer, socket));
        account.clone()
    }

    /// Continues after [`answer_at_once`](super::answer_at_once): with bytes to parse, or with an
    /// answer to write that is the last.
    pub(super) fn continuing(mut self, received: Vec<u8>, unsent: UnsentChunks) -> Self {
        self.closing = !unsent.is_empty();
        self.orderly = self.closing;
        self.tail_unparsed = !received.is_empty();
        self.tail = received;
        self.unsent = unsent;
        self
    }

    /// Answers all requests that can be answered immediately, until another one or the end.
    pub(super) async fn next(&mut self) -> RequestWaitEnd {
        self.since = Instant::now();
        self.head_began = None;
        poll_fn(|task| self.poll_next(task)).await
    }

    fn poll_next(&mut self, task: &mut Context<'_>) -> Poll<RequestWaitEnd> {
        loop {
            match self.poll_flush(task) {
                Poll::Ready(Ok(())) => self.end_sending(),
                Poll::Ready(Err(_)) => return Poll::Ready(RequestWaitEnd::Close),
                Poll::Pending => return self.poll_timer(task),
            }
            if self.closing {
                return Poll::Ready(RequestWaitEnd::Close);
            }
            let batch = with_buffers(|buffers| self.batch(task, buffers));
            match batch {
                BatchOutcome::Idle if self.context.drain.is_draining() && self.tail.is_empty() => {
                    return Poll::Ready(RequestWaitEnd::Close);
                }
                BatchOutcome::Idle => return self.poll_timer(task),
                BatchOutcome::Answered => self.since = Instant::now(),
                BatchOutcome::Next(next) => return Poll::Ready(next),
                BatchOutcome::Close => self.closing = true,
            }
        }
    }

    /// Reads once, answers all complete requests, writes once.
    fn batch(&mut self, task: &mut Context<'_>, buffers: &mut WorkerBuffers) -> BatchOutcome {
        let WorkerBuffers { input, output, .. } = buffers;
        let kept = self.tail.len().min(input.len());
        if let (Some(start), Some(tail)) = (input.get_mut(..kept), self.tail.get(..kept)) {
            start.copy_from_slice(tail);
        }
        let mut filled = kept;
        if !self.tail_unparsed {
            let mut buffer = ReadBuf::new(input.get_mut(kept..).unwrap_or_default());
            match Pin::new(&mut self.stream).poll_read(task, &mut buffer) {
                Poll::Pending => return BatchOutcome::Idle,
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    filled += buffer.filled().len();
                }
                Poll::Ready(_) => return BatchOutcome::Close,
            }
        }
        self.tail_unparsed = false;
        if self.is_new {
            match preface(input.get(..filled).unwrap_or_default()) {
                Http2Preface::Whole => {
                    self.keep_tail(input.get(..filled).unwrap_or_default());
                    return BatchOutcome::Next(RequestWaitEnd::Http2);
                }
                Http2Preface::Begun => {
                    self.start_head_timer();
                    self.keep_tail(input.get(..filled).unwrap_or_default());
                    return BatchOutcome::Answered;
                }
                Http2Preface::None => self.is_new = false,
            }
        }
        let (used, result) = self.answer(input.get(..filled).unwrap_or_default(), output);
        self.keep_tail(input.get(used..filled).unwrap_or_default());
        if used > 0 || self.tail.is_empty() {
            self.head_began = None;
        }
        if !self.tail.is_empty() {
            self.start_head_timer();
        }
        if output.len() > 0
            && output
                .poll_write(&mut self.stream, task, &mut self.unsent)
                .is_err()
        {
            return BatchOutcome::Close;
        }
        match result {
            Ok(Some(next)) => BatchOutcome::Next(next),
            Ok(None) => BatchOutcome::Answered,
            Err(()) => BatchOutcome::Close,
        }
    }

    /// Answers the whole requests at the start of `input`; returns how much of it was used and
    /// the request that must wait. An error ends the connection.
    fn answer(
        &mut self,
        input: &[u8],
        output: &mut Output,
    ) -> (usize, Result<Option<RequestWaitEnd>, ()>) {
        let mut used = 0;
        let head_max = self.context.settings.head_max.as_usize().min(READ_BYTES);
        while used < input.len() {
            if output.len() > BATCH_BYTES {
                self.tail_unparsed = true;
                break;
            }
            let mut storage = head::field_storage();
            let rest = input.get(used..).unwrap_or_default();
            let (head, length) = match head::parse(rest, &mut storage, head_max) {
                Ok(Some(parsed)) => parsed,
                Ok(None) => break,
                Err(error) => {
                    self.refuse(&error, output);
                    return (input.len(), Err(()));
                }
            };
            used += length;
            if let Some(entry) = from_memory::cached_entry(&self.context, &head) {
                if from_memory::answer(&self.context, &self.peer_text, &head, &entry, output) {
                    if !head.keep_alive {
                        self.orderly = used == input.len();
                        return (input.len(), Err(()));
                    }
                    continue;
                }
                let certified = || self.stream.tls().and_then(TlsSession::user).is_some();
                if let Some(page) = WorkerPage::of(self.peer, &head, entry, certified) {
                    self.tail_unparsed = true;
                    return (used, Ok(Some(RequestWaitEnd::WorkerPage(Box::new(page)))));
                }
            }
            let request = match head.to_request(self.peer) {
                Ok(request) => request,
                Err(error) => {
                    self.refuse(&error, output);
                    return (input.len(), Err(()));
                }
            };
            self.tail_unparsed = true;
            let pending = UnreadRequest {
                request,
                framing: head.framing,
                keep_alive: head.keep_alive,
                expects_continue: head.expects_continue,
            };
            return (used, Ok(Some(RequestWaitEnd::Request(Box::new(pending)))));
        }
        (used, Ok(None))
    }

    /// Answers a head that could not be understood.
    fn refuse(&self, error: &HttpError, output: &mut Output) {
        let admission = &self.context.limits.admission;
        admission.offended(self.peer, Offence::ProtocolFault);
        let response = error.response();
        log::refused(&self.context, &self.peer_text, response.status);
        encode::push_response(output, &response, false, false);
    }

    fn keep_tail(&mut self, rest: &[u8]) {
        self.tail.clear();
        if rest.is_empty() {
            self.tail_unparsed = false;
            self.tail.shrink_to(0);
        } else {
            self.tail.extend_from_slice(rest);
        }
    }

    /// Bytes of a head have arrived: all of it must arrive within `head_timeout` of the first,
    /// however many reads it takes.
    fn start_head_timer(&mut self) {
        if self.head_began.is_none() {
            let now = Instant::now();
            self.head_began = Some(now);
            let due = now + self.context.settings.head_timeout.duration();
            self.timer.as_mut().reset(due);
        }
    }

    /// Whether the present wait has lasted too long. The timer is not moved at every request; when
    /// it fires early it is set to the time that is correct by then.
    fn poll_timer(&mut self, task: &mut Context<'_>) -> Poll<RequestWaitEnd> {
        loop {
            ready!(self.timer.as_mut().poll(task));
            let settings = &self.context.settings;
            let in_head = self.unsent.is_empty() && !self.tail.is_empty();
            let due = if !self.unsent.is_empty() {
                self.write_deadline()
            } else if in_head {
                self.head_began.unwrap_or(self.since) + settings.head_timeout.duration()
            } else {
                self.since + settings.idle_timeout.duration()
            };
            if due > Instant::now() {
                self.timer.as_mut().reset(due);
                continue;
            }
            if in_head {
                let error = HttpError::RequestTimeout("the request's head took too long");
                self.queue_refusal(&error);
                let _ = self.poll_flush(task);
            }
            return Poll::Ready(RequestWaitEnd::Close);
        }
    }

    fn queue_refusal(&mut self, error: &HttpError) {
        let response = error.response();
        log::refused(&self.context, &self.peer_text, response.status);
        self.queue(encode::response_bytes(&response, false, false));
    }

    /// Reads some bytes after `tail`; 0 at the end of the stream.
    pub(super) async fn read_more(&mut self) -> io::Result<usize> {
        poll_fn(|task| {
            with_buffers(|buffers| {
                let mut buffer = ReadBuf::new(&mut buffers.input);
                ready!(Pin::new(&mut self.stream).poll_read(task, &mut buffer))?;
                self.tail.extend_from_slice(buffer.filled());
                Poll::Ready(Ok(buffer.filled().len()))
            })
        })
        .await
    }

    /// From here on bytes in `tail` are to be parsed as requests again.
    pub(super) fn resume(&mut self) {
        self.tail_unparsed = !self.tail.is_empty();
    }
}

/// The preface of HTTP/2 (RFC 9113, section 3.4). HTTP/1 has no method PRI, so no request equals
/// it.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

enum Http2Preface {
    Whole,
    Begun,
    None,
}

fn preface(input: &[u8]) -> Http2Preface {
    if input.starts_with(PREFACE) {
        Http2Preface::Whole
    } else if PREFACE.starts_with(input) {
        Http2Preface::Begun
    } else {
        Http2Preface::None
    }
}

/// The peer as access logs name it.
pub(super) fn push_peer(text: &mut String, peer: Peer) {
    match peer {
        // Writing to a string cannot fail.
        Peer::Address(address) => drop(write!(text, "{}", address.ip())),
        Peer::Local => text.push_str("unix:"),
    }
}
