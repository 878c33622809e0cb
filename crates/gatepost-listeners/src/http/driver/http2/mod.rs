//! HTTP/2 (RFC 9113): the driver beside `connection`, for the same requests and responses.
//!
//! Frames, header compression and flow control are the `h2` crate's; each stream is a task of the
//! connection's worker. A stream's answer is written as the reader's windows allow, so a slow
//! reader occupies one chunk of memory and no more.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use gatepost_bans::Offence;
use gatepost_users::PeerAccount;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use tokio::time::{Instant, timeout_at};

use super::buffers::timeout;
use super::connection::Http1Connection;
use super::encode::{self, Length};
use super::request_body::{BODY_TIMEOUT, IN_FLIGHT};
use crate::http::context::HttpContext;
use crate::http::error::HttpError;
use crate::http::host::is_host;
use crate::http::log;
use crate::http::request::{HttpRequest, HttpVersion};
use crate::http::response::{HttpResponse, ResponseBody};
use crate::http::router;
use crate::in_flight::InFlightLease;
use crate::linger::LINGER;
use crate::minimum_rate::MinimumRate;
use crate::stream::TlsSession;

mod answer;
mod body_blocks;
mod frame_guard;
mod guarded_stream;

use body_blocks::BodyBlocks;
use guarded_stream::{GuardedStream, Http2Violation};

/// Streams that a client may have open at once (RFC 9113, section 6.5.2 recommends at least 100).
const STREAMS_MAX: u32 = 128;
/// The number of bytes that a client may send on a stream before the handler has taken them.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
/// The same for all streams together.
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;
/// The time for a client that violates the protocol to read the reason.
const REASON_TIME_MAX: Duration = Duration::from_secs(1);
/// The bytes of responses that a reader has not taken, by stream.
const SEND_BUFFER_BYTES: usize = 256 << 10;

/// Serves HTTP/2 on a connection until it ends; its preface may be in `tail`.
pub(super) async fn serve(mut connection: Http1Connection) {
    let account = connection.account();
    let Http1Connection {
        stream,
        context,
        peer,
        peer_text,
        tail,
        ..
    } = connection;
    let secure = stream.tls().is_some();
    let certified = stream.tls().and_then(TlsSession::user);
    let client = Arc::new(Http2Client {
        context,
        peer,
        peer_text,
        secure,
        account,
        certified,
        streams: AtomicUsize::new(0),
    });
    let violation = Http2Violation::default();
    let stream = GuardedStream::new(stream, tail, violation.clone());
    match run(&client, stream, &violation).await {
        Ok(()) => {}
        Err(error) => {
            if !error.is_io() {
                client.offended();
            }
            tracing::debug!(target: "http", peer = client.peer_text, "HTTP/2: {error}");
        }
    }
}

/// State that all streams of a connection share.
struct Http2Client {
    context: Arc<HttpContext>,
    peer: gatepost_message::Peer,
    peer_text: String,
    secure: bool,
    /// The account of this machine that the connection is of.
    account: PeerAccount,
    /// The user that the connection's certificate names.
    certified: Option<String>,
    /// Streams that are being answered.
    streams: AtomicUsize,
}

impl Http2Client {
    /// Records that the client has violated the protocol.
    fn offended(&self) {
        let admission = &self.context.limits.admission;
        admission.offended(self.peer, Offence::ProtocolFault);
    }
}

async fn run(
    client: &Arc<Http2Client>,
    stream: GuardedStream,
    violation: &Http2Violation,
) -> Result<(), h2::Error> {
    let settings = &client.context.settings;
    let mut builder = h2::server::Builder::new();
    builder
        .max_concurrent_streams(STREAMS_MAX)
        // Frames that still arrive on refused streams are not the client's fault.
        .max_concurrent_reset_streams(STREAMS_MAX as usize)
        .initial_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buffer_size(SEND_BUFFER_BYTES)
        .max_header_list_size(settings.head_max.bytes().min(u64::from(u32::MAX)) as u32);
    let limit = settings.head_timeout.duration();
    let Some(connection) = timeout(limit, builder.handshake(stream)).await else {
        return Ok(());
    };
    let mut connection = connection?;
    let idle = settings.idle_timeout.duration();
    let mut draining = false;
    let mut since = Instant::now();
    loop {
        tokio::select! {
            biased;
            accepted = connection.accept() => match accepted {
                None => return Ok(()),
                Some(Err(error)) => return Err(error),
                Some(Ok((request, respond))) => {
                    since = Instant::now();
                    let answering = AnsweredStream::begin(client);
                    tokio::spawn(async move { answer(answering, request, respond).await });
                }
            },
            reason = violation.noticed() => {
                client.offended();
                // RFC 9113, sections 4.2 and 10.5.
                connection.abrupt_shutdown(reason);
                let closed = poll_fn(|task| connection.poll_closed(task));
                return timeout(REASON_TIME_MAX, closed).await.unwrap_or(Ok(()));
            }
            () = client.context.drain.begun(), if !draining => {
                draining = true;
                connection.graceful_shutdown();
            }
            () = tokio::time::sleep_until(since + idle) => {
                if draining {
                    return Ok(());
                }
                if client.streams.load(Ordering::Relaxed) == 0 {
                    draining = true;
                    connection.graceful_shutdown();
                }
                since = Instant::now();
            }
        }
    }
}

/// A stream that is being answered.
struct AnsweredStream(Arc<Http2Client>);

impl AnsweredStream {
    fn begin(client: &Arc<Http2Client>) -> Self {
        client.streams.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(client))
    }
}

impl Drop for AnsweredStream {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn answer(
    answering: AnsweredStream,
    request: http::Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
) {
    let client = &answering.0;
    let (parts, mut body) = request.into_parts();
    let mut request = match request_of(client, &parts) {
        Ok(request) => request,
        Err(error) => {
            let response = error.response();
            let is_head = parts.method == http::Method::HEAD;
            log::refused(&client.context, &client.peer_text, response.status);
            let written = answer::write(client, client.peer, response, is_head, &mut respond).await;
            if written.is_ok() {
                discard(&mut body).await;
            }
            return;
        }
    };
    let has_body = !body.is_end_stream();
    let admitted = router::admit(&client.context, &mut request, has_body).await;
    let response = if let Err(refusal) = admitted {
        *refusal
    } else {
        let mut lease = client.context.limits.in_flight.lease(request.peer);
        match read_body(client, &mut body, &mut lease).await {
            Ok(Ok(body)) => {
                request.body = body;
                router::respond(&client.context, &mut request).await
            }
            Ok(Err(error)) => router::refused(&client.context, &request, &error).await,
            // The client reset the stream.
            Err(_) => return,
        }
    };
    if matches!(response.body, ResponseBody::WebSocket { .. }) {
        // RFC 9113, section 8.6: there is no Upgrade in HTTP/2.
        respond.send_reset(Reason::HTTP_1_1_REQUIRED);
        return;
    }
    let is_head = request.method() == "HEAD";
    let body_bytes = match encode::body_length(&response) {
        Length::Known(length) if !is_head => length,
        _ => 0,
    };
    log::answered(
        &client.context,
        (client.peer, &client.peer_text),
        &request,
        &response,
        body_bytes,
    );
    match answer::write(client, request.peer, response, is_head, &mut respond).await {
        Ok(()) => discard(&mut body).await,
        Err(error) => tracing::debug!(target: "http", peer = client.peer_text, "a stream was \
            closed unexpectedly: {error}"),
    }
}

/// Reads the rest of a body that an early response made superfluous (RFC 9113, section 8.1), for a
/// moment, and no more of it than the stream's window.
///
/// Without that, the stream's reset follows the response immediately, and curl, which then still
/// sends the body, reports the reset instead of the response.
async fn discard(body: &mut RecvStream) {
    // The window is not widened, so a client that continues to send must stop there, and reads the
    // response.
    let until_end = async { while let Some(Ok(_)) = body.data().await {} };
    let _ = timeout_at(Instant::now() + LINGER, until_end).await;
}

fn request_of(
    client: &Http2Client,
    parts: &http::request::Parts,
) -> Result<HttpRequest, HttpError> {
    let uri = &parts.uri;
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    let path = if uri.path().is_empty() {
        "/"
    } else {
        uri.path()
    };
    // RFC 9113, section 8.3.1: `:authority` corresponds to HTTP/1.1's Host.
    let authority = uri.authority().map(http::uri::Authority::as_str);
    let host_field = parts.headers.get("host").map(http::HeaderValue::as_bytes);
    // RFC 9113, section 8.3.1: no user information, and a Host field must have the same value.
    let is_consistent = match (authority, host_field) {
        (Some(authority), Some(host)) => {
            is_host(authority.as_bytes()) && authority.as_bytes().eq_ignore_ascii_case(host)
        }
        (Some(named), None) => is_host(named.as_bytes()),
        (None, Some(named)) => is_host(named),
        (None, None) => true,
    };
    if !is_consistent {
        return Err(HttpError::MalformedHead(
            "the request names no host, or two different ones",
        ));
    }
    let host = authority.map(|authority| ("host", authority.as_bytes()));
    let fields = parts
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .filter(|(name, _)| host.is_none() || *name != "host");
    let mut request = HttpRequest::new(
        (parts.method.as_str(), target),
        (path, uri.query().unwrap_or_default()),
        host.into_iter().chain(fields),
        HttpVersion::Http2,
        client.peer,
    )?;
    request.secure = client.secure;
    request.account = client.account.clone();
    request.certified.clone_from(&client.certified);
    Ok(request)
}

/// Reads the body. The outer error is the stream's, the inner one the client's.
async fn read_body(
    client: &Http2Client,
    body: &mut RecvStream,
    lease: &mut InFlightLease,
) -> Result<Result<Bytes, HttpError>, h2::Error> {
    let settings = &client.context.settings;
    let mut rate = MinimumRate::new(
        Instant::now(),
        settings.body_timeout.duration(),
        settings.body_rate_min.bytes(),
    );
    let mut whole = BodyBlocks::default();
    loop {
        let data = match timeout_at(rate.deadline(Instant::now()), body.data()).await {
            Err(_) => return Ok(Err(HttpError::RequestTimeout(BODY_TIMEOUT))),
            Ok(None) => return Ok(Ok(whole.into_bytes())),
            Ok(Some(data)) => data?,
        };
        let length = (whole.len() + data.len()) as u64;
        if length > settings.body_max.bytes() {
            return Ok(Err(HttpError::BodyTooLarge(settings.body_max.bytes())));
        }
        if lease.reserve(length).is_err() {
            return Ok(Err(HttpError::Busy(IN_FLIGHT)));
        }
        rate.add(data.len());
        whole.push(&data);
        body.flow_control().release_capacity(data.len())?;
    }
}

/// The response's head, whose field names HTTP/2 has in lower case.
fn head_of(response: &HttpResponse, length: Length) -> Result<http::Response<()>, http::Error> {
    let mut date = Vec::with_capacity(32);
    gatepost_pages::clock::push_http_date(&mut date);
    let mut builder = http::Response::builder()
        .status(response.status)
        .header("server", "gatepost")
        .header("date", date)
        .header("x-content-type-options", "nosniff");
    for (name, value) in &response.fields {
        // RFC 9113, section 8.2.2: connection-specific fields belong to HTTP/1.1 only.
        if !name.eq_ignore_ascii_case("upgrade") {
            builder = builder.header(name.as_ref(), value.as_ref());
        }
    }
    if let Length::Known(bytes) = length {
        builder = builder.header("content-length", bytes);
    }
    builder.body(())
}

fn broken(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::other(error)
}
