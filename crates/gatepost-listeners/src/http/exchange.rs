//! One request that must wait: its body is read, a handler answers, the answer is written.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use tokio::io::AsyncWriteExt;

use crate::tls::TlsSession;

use super::chunked::ChunkedDecoder;
use super::chunks::FileChunks;
use super::connection::{Connection, Next, Pending, timeout};
use super::error::HttpError;
use super::head::Framing;
use super::http2;
use super::live::LiveStream;
use super::log;
use super::request::{Request, Version};
use super::response::{Body, Response};
use super::routes;
use super::wire::{self, Length};

/// How much of what a refused client still sends is read away, so that it gets to read why.
const LINGER_BYTES_MAX: usize = 1 << 20;

/// What becomes of the connection after an exchange.
pub(super) enum After {
    Continue,
    Close,
    /// The bytes are another protocol's from here on.
    HandOver,
    /// The rest of the connection is events.
    Live(Box<LiveStream>),
}

impl After {
    pub(super) const fn from_keep_alive(keep_alive: bool) -> Self {
        if keep_alive {
            Self::Continue
        } else {
            Self::Close
        }
    }
}

impl Connection {
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
                Next::Request(pending) => Box::pin(self.exchange(*pending)).await,
                Next::Coded(page) => Box::pin(self.serve_coded(*page)).await,
                Next::Http2 => return http2::serve(self).await,
                Next::Close => break,
            };
            match after {
                Ok(After::Continue) => self.resume(),
                Ok(After::Close) => break,
                Ok(After::Live(live)) => {
                    if let Err(error) = self.serve_live(*live).await {
                        tracing::debug!(target: "http", %error, "a reader is gone");
                    }
                    drop(registered);
                    return;
                }
                Ok(After::HandOver) => {
                    drop(registered);
                    return self.hand_over().await;
                }
                Err(_) => return,
            }
        }
        if !self.orderly {
            self.linger().await;
        }
    }

    async fn exchange(&mut self, mut pending: Pending) -> io::Result<After> {
        let result = self.read_body(&pending).await?;
        let mut keep_alive = pending.keep_alive && !self.context.drain.is_draining();
        let understood = result.is_ok();
        let response = match result {
            Ok(body) => {
                pending.request.body = body;
                pending.request.secure = self.stream.tls().is_some();
                pending.request.certified = self.stream.tls().and_then(TlsSession::user);
                routes::respond(&self.context, &mut pending.request).await
            }
            Err(error) => {
                keep_alive &= !error.ends_connection();
                error.response()
            }
        };
        if let Body::WebSocket { accept } = &response.body {
            let accept = accept.clone();
            self.become_websocket(&pending.request, &accept).await?;
            return Ok(After::HandOver);
        }
        self.orderly = understood && !pending.keep_alive && self.tail.is_empty();
        self.answer_with(&pending.request, response, keep_alive)
            .await
    }

    /// Logs a response and writes it.
    pub(super) async fn answer_with(
        &mut self,
        request: &Request,
        response: Response,
        keep_alive: bool,
    ) -> io::Result<After> {
        let is_head = request.method() == "HEAD";
        let body_bytes = match wire::body_length(&response) {
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
        let chunked = request.version == Version::Http11;
        self.write_response(response, is_head, keep_alive, chunked)
            .await
    }

    async fn write_response(
        &mut self,
        mut response: Response,
        is_head: bool,
        keep_alive: bool,
        chunked: bool,
    ) -> io::Result<After> {
        let body = std::mem::replace(&mut response.body, Body::Pieces(Vec::new()));
        let after = After::from_keep_alive(keep_alive);
        match body {
            Body::Stream {
                subscription,
                format,
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
                self.queue([wire::head_bytes(&response, length, goes_on)]);
                if is_head {
                    self.flush().await?;
                    return Ok(after);
                }
                let is_paced = self.context.limits.caps_bandwidth();
                if subscription.can_attach() && !format.ends && !is_paced {
                    let live = LiveStream {
                        subscription,
                        format,
                        chunked,
                    };
                    return Ok(After::Live(Box::new(live)));
                }
                let finished = self.write_stream(subscription, format, chunked).await?;
                return Ok(if finished && chunked {
                    after
                } else {
                    After::Close
                });
            }
            Body::File {
                file,
                start,
                length,
            } => {
                self.queue([wire::head_bytes(
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
                self.queue(wire::response_bytes(&response, is_head, keep_alive));
                self.flush().await?;
            }
        }
        Ok(after)
    }

    /// Reads the body. The outer error is the connection's, the inner one the client's.
    async fn read_body(&mut self, pending: &Pending) -> io::Result<Result<Bytes, HttpError>> {
        let body_max = self.context.settings.body_max.bytes();
        let length = match pending.framing {
            Framing::Length(0) => return Ok(Ok(Bytes::new())),
            Framing::Length(length) if length > body_max => {
                return Ok(Err(HttpError::BodyTooLarge(body_max)));
            }
            Framing::Length(length) => Some(length as usize),
            Framing::Chunked => None,
        };
        if pending.expects_continue && self.tail.is_empty() {
            self.queue([Bytes::from_static(b"HTTP/1.1 100 Continue\r\n\r\n")]);
            self.flush().await?;
        }
        match length {
            Some(length) => self.read_length(length).await,
            None => self.read_chunked(body_max).await,
        }
    }

    async fn read_length(&mut self, length: usize) -> io::Result<Result<Bytes, HttpError>> {
        while self.tail.len() < length {
            if let Err(error) = self.read_some().await? {
                return Ok(Err(error));
            }
        }
        let rest = self.tail.split_off(length);
        let body = std::mem::replace(&mut self.tail, rest);
        Ok(Ok(body.into()))
    }

    async fn read_chunked(&mut self, body_max: u64) -> io::Result<Result<Bytes, HttpError>> {
        let mut decoder = ChunkedDecoder::new(body_max);
        let mut body = Vec::new();
        loop {
            match decoder.decode(&self.tail, &mut body) {
                Ok(used) => drop(self.tail.drain(..used)),
                Err(error) => return Ok(Err(error)),
            }
            if decoder.is_done() {
                return Ok(Ok(body.into()));
            }
            if let Err(error) = self.read_some().await? {
                return Ok(Err(error));
            }
        }
    }

    /// Reads some bytes of a body, for as long as a body may pause.
    async fn read_some(&mut self) -> io::Result<Result<(), HttpError>> {
        let limit = self.context.settings.body_timeout.duration();
        match timeout(limit, self.read_more()).await {
            Some(Ok(0)) => Err(io::ErrorKind::UnexpectedEof.into()),
            Some(Ok(_)) => Ok(Ok(())),
            Some(Err(error)) => Err(error),
            None => Ok(Err(HttpError::RequestTimeout(
                "the request's body took too long",
            ))),
        }
    }

    async fn write_file(&mut self, mut chunks: FileChunks) -> io::Result<()> {
        while let Some(chunk) = chunks.next().await? {
            self.queue([chunk]);
            self.flush().await?;
        }
        Ok(())
    }

    /// Closes in the order that lets the peer read the last answer: a socket closed with unread
    /// input sends a reset, which would discard it (RFC 9112 § 9.6).
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
