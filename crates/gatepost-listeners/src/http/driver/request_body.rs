//! Reading the body of an HTTP/1 request.
//!
//! Bounds: the size of the body, the budget of bytes in flight, and the time, by a longest pause
//! and a minimum rate. The request has been admitted before (`router::admit`), so a client without
//! a login cannot make the gateway buffer a body where a login is needed.

use std::io;

use bytes::Bytes;
use tokio::time::{Instant, timeout_at};

use super::chunked::ChunkedDecoder;
use super::connection::{Http1Connection, UnreadRequest};
use super::head::BodyFraming;
use crate::http::error::HttpError;
use crate::in_flight::InFlightLease;
use crate::minimum_rate::MinimumRate;

/// The number of bytes of a refused request's body that are read and dropped to keep the
/// connection.
const DISCARDED_BYTES_MAX: u64 = 64 << 10;

/// A body, and its part of the budget for as long as it is handled.
pub(super) struct ReceivedBody {
    pub(super) bytes: Bytes,
    pub(super) _lease: InFlightLease,
}

impl Http1Connection {
    /// Reads the body. The outer error is the connection's, the inner one the client's.
    pub(super) async fn read_body(
        &mut self,
        pending: &UnreadRequest,
    ) -> io::Result<Result<ReceivedBody, HttpError>> {
        let body_max = self.context.settings.body_max.bytes();
        let mut lease = self.context.limits.in_flight.lease(pending.request.peer);
        match pending.framing {
            BodyFraming::Length(0) => {
                return Ok(Ok(ReceivedBody {
                    bytes: Bytes::new(),
                    _lease: lease,
                }));
            }
            BodyFraming::Length(length) if length > body_max => {
                return Ok(Err(HttpError::BodyTooLarge(body_max)));
            }
            _ => {}
        }
        if pending.expects_continue && self.tail.is_empty() {
            self.queue([Bytes::from_static(b"HTTP/1.1 100 Continue\r\n\r\n")]);
            self.flush().await?;
        }
        let read = match pending.framing {
            BodyFraming::Length(length) => self.read_length(length as usize, &mut lease).await,
            BodyFraming::Chunked => self.read_chunked(body_max, &mut lease).await,
        };
        Ok(read?.map(|bytes| ReceivedBody {
            bytes,
            _lease: lease,
        }))
    }

    /// Reads and drops the body of a refused request; returns false if the body is too long for
    /// that and the connection must be closed.
    pub(super) async fn discard_body(&mut self, pending: &UnreadRequest) -> io::Result<bool> {
        let is_unsent = pending.expects_continue && self.tail.is_empty();
        let mut lease = self.context.limits.in_flight.lease(pending.request.peer);
        let read = match pending.framing {
            BodyFraming::Length(0) => return Ok(true),
            // The client sends it only after `100 Continue`.
            _ if is_unsent => return Ok(false),
            BodyFraming::Length(length) if length > DISCARDED_BYTES_MAX => return Ok(false),
            BodyFraming::Length(length) => self.read_length(length as usize, &mut lease).await?,
            BodyFraming::Chunked => self.read_chunked(DISCARDED_BYTES_MAX, &mut lease).await?,
        };
        Ok(read.is_ok())
    }

    async fn read_length(
        &mut self,
        length: usize,
        lease: &mut InFlightLease,
    ) -> io::Result<Result<Bytes, HttpError>> {
        let mut rate = self.minimum_rate();
        while self.tail.len() < length {
            if let Err(error) = self.read_some(&mut rate).await? {
                return Ok(Err(error));
            }
            if lease.reserve(self.tail.len().min(length) as u64).is_err() {
                return Ok(Err(HttpError::Busy(IN_FLIGHT)));
            }
        }
        let rest = self.tail.split_off(length);
        let body = std::mem::replace(&mut self.tail, rest);
        Ok(Ok(body.into()))
    }

    async fn read_chunked(
        &mut self,
        body_max: u64,
        lease: &mut InFlightLease,
    ) -> io::Result<Result<Bytes, HttpError>> {
        let mut rate = self.minimum_rate();
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
            if lease.reserve(body.len() as u64).is_err() {
                return Ok(Err(HttpError::Busy(IN_FLIGHT)));
            }
            if let Err(error) = self.read_some(&mut rate).await? {
                return Ok(Err(error));
            }
        }
    }

    fn minimum_rate(&self) -> MinimumRate {
        let settings = &self.context.settings;
        MinimumRate::new(
            Instant::now(),
            settings.body_timeout.duration(),
            settings.body_rate_min.bytes(),
        )
    }

    /// Reads some bytes of a body, within its time limit.
    async fn read_some(&mut self, rate: &mut MinimumRate) -> io::Result<Result<(), HttpError>> {
        match timeout_at(rate.deadline(Instant::now()), self.read_more()).await {
            Ok(Ok(0)) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(Ok(bytes)) => {
                rate.add(bytes);
                Ok(Ok(()))
            }
            Ok(Err(error)) => Err(error),
            Err(_) => Ok(Err(HttpError::RequestTimeout(BODY_TIMEOUT))),
        }
    }
}

/// The reason for refusing a body that would exceed the budget.
pub(super) const IN_FLIGHT: &str = "too many request bodies are in flight";
/// The reason for refusing a body that arrives too slowly.
pub(super) const BODY_TIMEOUT: &str = "the request's body took too long";
