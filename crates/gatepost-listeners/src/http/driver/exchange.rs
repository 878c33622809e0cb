//! An exchange whose request must wait: its body is read, a handler answers, the answer is written.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use tokio::io::AsyncWriteExt;

use super::buffers::timeout;
use super::connection::{Http1Connection, RequestWaitEnd, UnreadRequest};
use super::encode::{self, Length};
use super::file_chunks::FileChunks;
use super::head::BodyFraming;
use super::http2;
use super::live_stream::LiveStream;
use crate::http::access;
use crate::http::context::UpgradedConnection;
use crate::http::log;
use crate::http::request::{HttpRequest, HttpVersion};
use crate::http::response::{HttpResponse, ResponseBody};
use crate::http::router;
use crate::http::websocket_handshake::subprotocol;
use crate::stream::TlsSession;

/// The number of further bytes of a refused client that are read, so that it can read the reason.
const LINGER_BYTES_MAX: usize = 1 << 20;

/// The use of the connection after an exchange.
pub(super) enum ConnectionUse {
    Continue,
    Close,
    /// The following bytes belong to another protocol, as this request demanded.
    HandOver(Box<HttpRequest>),
    /// The rest of the connection carries events.
    Live(Box<LiveStream>),
}

impl ConnectionUse {
    pub(super) const fn from_keep_alive(keep_alive: bool) -> Self {
        if keep_alive {
            Self::Continue
        } else {
            Self::Close
        }
    }
}

impl Http1Connection {
    /// Serves the connection to its end.
    pub(super) async fn run(mut self) {
        let context = Arc::clone(&self.context);
        let waker = std::future::poll_fn(|task| std::task::Poll::Ready(task.waker().clone())).await;
        let registered = context.drain.register(&waker);
        if self.stream.tls().is_some_and(TlsSession::speaks_http2) {
            return http2::serve(self).await;
        }
        loop {
            let after = match self.next().await {
                RequestWaitEnd::Request(pending) => Box::pin(self.exchange(*pending)).await,
                RequestWaitEnd::WorkerPage(page) => Box::pin(self.serve_worker_page(*page)).await,
                RequestWaitEnd::Http2 => return http2::serve(self).await,
                RequestWaitEnd::Close => break,
            };
            match after {
                Ok(ConnectionUse::Continue) => self.resume(),
                Ok(ConnectionUse::Close) => break,
                Ok(ConnectionUse::Live(live)) => {
                    if let Err(error) = self.serve_live(*live).await {
                        tracing::debug!(target: "http", %error, "a reader is gone");
                    }
                    drop(registered);
                    return;
                }
                Ok(ConnectionUse::HandOver(request)) => {
                    drop(registered);
                    return self.pass_to_handler(&request).await;
                }
                Err(_) => return,
            }
        }
        if !self.orderly {
            self.linger().await;
        }
    }

    async fn exchange(&mut self, mut pending: UnreadRequest) -> io::Result<ConnectionUse> {
        let context = Arc::clone(&self.context);
        let request = &mut pending.request;
        request.secure = self.stream.tls().is_some();
        request.account = self.account();
        request.certified = self.stream.tls().and_then(TlsSession::user);
        let has_body = pending.framing != BodyFraming::Length(0);
        let mut keep_alive = pending.keep_alive;
        let mut is_whole = true;
        let response = match router::admit(&context, request, has_body).await {
            Err(refusal) => {
                is_whole = self.discard_body(&pending).await?;
                *refusal
            }
            Ok(()) => match self.read_body(&pending).await? {
                Ok(body) => {
                    pending.request.body = body.bytes.clone();
                    router::respond(&context, &mut pending.request).await
                }
                Err(error) => {
                    is_whole = false;
                    router::refused(&context, &pending.request, &error).await
                }
            },
        };
        keep_alive &= is_whole && !context.drain.is_draining();
        if let ResponseBody::WebSocket { accept } = &response.body {
            let accept = accept.clone();
            self.become_websocket(&pending.request, &accept).await?;
            return Ok(ConnectionUse::HandOver(Box::new(pending.request)));
        }
        self.orderly = is_whole && !pending.keep_alive && self.tail.is_empty();
        self.answer_with(&pending.request, response, keep_alive)
            .await
    }

    /// Logs a response and writes it.
    pub(super) async fn answer_with(
        &mut self,
        request: &HttpRequest,
        response: HttpResponse,
        keep_alive: bool,
    ) -> io::Result<ConnectionUse> {
        self.client = request.peer;
        let is_head = request.method() == "HEAD";
        let body_bytes = match encode::body_length(&response) {
            Length::Known(length) if !is_head => length,
            _ => 0,
        };
        log::answered(
            &self.context,
            (self.peer, &self.peer_text),
            request,
            &response,
            body_bytes,
        );
        let chunked = request.version == HttpVersion::Http11;
        self.write_response(response, is_head, keep_alive, chunked)
            .await
    }

    async fn write_response(
        &mut self,
        mut response: HttpResponse,
        is_head: bool,
        keep_alive: bool,
        chunked: bool,
    ) -> io::Result<ConnectionUse> {
        let body = std::mem::replace(&mut response.body, ResponseBody::Pieces(Vec::new()));
        let after = ConnectionUse::from_keep_alive(keep_alive);
        match body {
            ResponseBody::Stream {
                reader,
                format,
                rights,
            } => {
                let chunked = chunked && response.status != 101;
                let length = if response.status == 101 {
                    Length::None
                } else if chunked {
                    Length::Chunked
                } else {
                    Length::UntilClose
                };
                let goes_on = response.status == 101 || (keep_alive && chunked);
                self.queue([encode::head_bytes(&response, length, goes_on)]);
                if is_head {
                    self.flush().await?;
                    return Ok(after);
                }
                let is_paced = self.context.rate_limits.caps_bandwidth();
                if !format.ends && !is_paced {
                    let live = LiveStream {
                        reader,
                        format,
                        rights,
                        chunked,
                    };
                    return Ok(ConnectionUse::Live(Box::new(live)));
                }
                let finished = self.write_stream(reader, format, &rights, chunked).await?;
                return Ok(if finished && chunked {
                    after
                } else {
                    ConnectionUse::Close
                });
            }
            ResponseBody::File {
                file,
                start,
                length,
            } => {
                self.queue([encode::head_bytes(
                    &response,
                    Length::Known(length),
                    keep_alive,
                )]);
                self.flush().await?;
                if !is_head {
                    self.write_file(FileChunks::new(file, start, length))
                        .await?;
                }
            }
            pieces => {
                response.body = pieces;
                self.queue(encode::response_bytes(&response, is_head, keep_alive));
                self.flush().await?;
            }
        }
        Ok(after)
    }

    async fn write_file(&mut self, mut chunks: FileChunks) -> io::Result<()> {
        while let Some(chunk) = chunks.next().await? {
            self.queue([chunk]);
            self.flush().await?;
        }
        Ok(())
    }

    /// Answers the handshake; the following bytes belong to MQTT.
    pub(super) async fn become_websocket(
        &mut self,
        request: &HttpRequest,
        accept: &str,
    ) -> io::Result<()> {
        let subprotocol = subprotocol(request).unwrap_or("mqtt");
        let head = format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: {subprotocol}\r\n\r\n"
        );
        self.queue([Bytes::from(head)]);
        self.flush().await
    }

    /// Passes the connection, with the bytes read after the handshake, to the handler of
    /// WebSockets.
    async fn pass_to_handler(self, request: &HttpRequest) {
        if let Some(handler) = self.context.websocket.clone() {
            handler(UpgradedConnection {
                stream: self.stream,
                peer: request.peer,
                is_local: access::acts_for_itself(&self.context, request),
                identity: request.identity.clone(),
                certified: request.certified.clone(),
                received: self.tail,
            })
            .await;
        }
    }

    /// Closes in the order that permits the peer to read the last answer: a socket closed with
    /// unread input sends a reset, which would discard it (RFC 9112, section 9.6).
    async fn linger(mut self) {
        if self.stream.shutdown().await.is_err() {
            return;
        }
        let mut read = 0;
        let limit = std::time::Duration::from_secs(2);
        let reading = async {
            while read < LINGER_BYTES_MAX {
                self.tail.clear();
                match self.read_more().await {
                    Ok(0) | Err(_) => break,
                    Ok(bytes) => read += bytes,
                }
            }
        };
        let _ = timeout(limit, reading).await;
    }
}
