//! HTTP/2 (RFC 9113): the driver beside `connection`, for the same requests and responses.
//!
//! Frames, header compression and flow control are the `h2` crate's; each stream is a task of the
//! connection's worker. A stream's answer is written as the reader's windows allow, so a slow
//! reader holds one chunk of ours and no more.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use tokio::time::Instant;

use crate::tls::TlsSession;

use super::HttpContext;
use super::connection::{Connection, timeout};
use super::error::HttpError;
use super::log;
use super::request::{Request, Version};
use super::response::{Body, Response};
use super::routes;
use super::wire::{self, Length};

mod answer;
mod prefixed;

use prefixed::Prefixed;

/// Streams that a client may have open at once (RFC 9113 § 6.5.2 recommends at least 100).
const STREAMS_MAX: u32 = 128;
/// What a client may send on a stream before the handler has taken it.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
/// The same for all streams together.
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;
/// What we hold of answers that a reader has not taken, by stream.
const SEND_BUFFER_BYTES: usize = 256 << 10;

/// Speaks HTTP/2 on a connection until it ends; its preface may be in `tail`.
pub(super) async fn serve(connection: Connection) {
    let Connection {
        stream,
        context,
        peer,
        peer_text,
        tail,
        ..
    } = connection;
    let secure = stream.tls().is_some();
    let certified = stream.tls().and_then(TlsSession::user);
    let client = Arc::new(Client {
        context,
        peer,
        peer_text,
        secure,
        certified,
        streams: AtomicUsize::new(0),
    });
    let stream = Prefixed::new(stream, tail);
    match run(&client, stream).await {
        Ok(()) => {}
        Err(error) => tracing::debug!(target: "http", peer = client.peer_text, "HTTP/2: {error}"),
    }
}

/// What all streams of a connection share.
struct Client {
    context: Arc<HttpContext>,
    peer: gatepost_message::Peer,
    peer_text: String,
    secure: bool,
    /// Whom the connection's certificate names.
    certified: Option<String>,
    /// Streams that are being answered.
    streams: AtomicUsize,
}

async fn run(client: &Arc<Client>, stream: Prefixed) -> Result<(), h2::Error> {
    let settings = &client.context.settings;
    let mut builder = h2::server::Builder::new();
    builder
        .max_concurrent_streams(STREAMS_MAX)
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
                    let answering = Answering::begin(client);
                    tokio::spawn(async move { answer(answering, request, respond).await });
                }
            },
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
struct Answering(Arc<Client>);

impl Answering {
    fn begin(client: &Arc<Client>) -> Self {
        client.streams.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(client))
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn answer(
    answering: Answering,
    request: http::Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
) {
    let client = &answering.0;
    let (parts, body) = request.into_parts();
    let mut request = match request_of(client, &parts) {
        Ok(request) => request,
        Err(error) => {
            let response = error.response();
            log::refused(&client.context, &client.peer_text, response.status);
            let _ = answer::write(client, response, true, &mut respond).await;
            return;
        }
    };
    let response = match read_body(client, body).await {
        Ok(Ok(body)) => {
            request.body = body;
            routes::respond(&client.context, &mut request).await
        }
        Ok(Err(error)) => error.response(),
        // The client took the stream back.
        Err(_) => return,
    };
    if matches!(response.body, Body::WebSocket { .. }) {
        // RFC 9113 § 8.6: there is no Upgrade in HTTP/2.
        respond.send_reset(Reason::HTTP_1_1_REQUIRED);
        return;
    }
    let is_head = request.method() == "HEAD";
    let body_bytes = match wire::body_length(&response) {
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
    if let Err(error) = answer::write(client, response, is_head, &mut respond).await {
        tracing::debug!(target: "http", peer = client.peer_text, "a stream broke off: {error}");
    }
}

fn request_of(client: &Client, parts: &http::request::Parts) -> Result<Request, HttpError> {
    let uri = &parts.uri;
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    let path = if uri.path().is_empty() {
        "/"
    } else {
        uri.path()
    };
    // RFC 9113 § 8.3.1: `:authority` is what Host is in HTTP/1.1.
    let authority = uri.authority().map(http::uri::Authority::as_str);
    let host = authority.map(|authority| ("host", authority.as_bytes()));
    let fields = parts
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .filter(|(name, _)| host.is_none() || *name != "host");
    let mut request = Request::new(
        (parts.method.as_str(), target),
        (path, uri.query().unwrap_or_default()),
        host.into_iter().chain(fields),
        Version::Http2,
        client.peer,
    )?;
    request.secure = client.secure;
    request.certified.clone_from(&client.certified);
    Ok(request)
}

/// Reads the body. The outer error is the stream's, the inner one the client's.
async fn read_body(
    client: &Client,
    mut body: RecvStream,
) -> Result<Result<Bytes, HttpError>, h2::Error> {
    let settings = &client.context.settings;
    let limit = settings.body_timeout.duration();
    let mut whole = Vec::new();
    loop {
        let data = match timeout(limit, body.data()).await {
            None => {
                let error = HttpError::RequestTimeout("the request's body took too long");
                return Ok(Err(error));
            }
            Some(None) => return Ok(Ok(whole.into())),
            Some(Some(data)) => data?,
        };
        if (whole.len() + data.len()) as u64 > settings.body_max.bytes() {
            return Ok(Err(HttpError::BodyTooLarge(settings.body_max.bytes())));
        }
        whole.extend_from_slice(&data);
        body.flow_control().release_capacity(data.len())?;
    }
}

/// The response's head, whose field names HTTP/2 has in lower case.
fn head_of(response: &Response, length: Length) -> Result<http::Response<()>, http::Error> {
    let mut date = Vec::with_capacity(32);
    gatepost_pages::clock::push_http_date(&mut date);
    let mut builder = http::Response::builder()
        .status(response.status)
        .header("server", "gatepost")
        .header("date", date)
        .header("x-content-type-options", "nosniff");
    for (name, value) in &response.fields {
        // RFC 9113 § 8.2.2: fields of the connection are HTTP/1.1's.
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
