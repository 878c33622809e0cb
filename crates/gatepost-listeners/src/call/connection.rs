//! A connection that carries several calls, one after another.

use std::io;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use gatepost_bans::Offence;
use gatepost_message::Peer;
use tokio::sync::watch;
use tokio::time::Instant;

use super::CallContext;
use super::answer;
use super::calling::{CallRequirement, PendingCall};
use super::request::{CallRequest, RequestReader};
use crate::in_flight::InFlightLease;
use crate::stream::Stream;
use crate::wire;

/// Answers are written when this many bytes have accumulated, even if more requests wait.
const OUTPUT_BYTES_MAX: usize = 64 * 1024;

/// One connection.
pub(super) struct CallConnection {
    stream: Stream,
    peer: Peer,
    context: Arc<CallContext>,
    shutdown: watch::Receiver<bool>,
    /// The deadline for the arrival of the present request.
    head_deadline: Option<Instant>,
    /// Received and not yet parsed.
    pub(super) input: BytesMut,
    /// Answers that are not written yet.
    pub(super) output: Vec<u8>,
}

impl CallConnection {
    /// A connection on which nothing was received yet.
    pub(super) fn new(
        stream: Stream,
        peer: Peer,
        context: Arc<CallContext>,
        shutdown: watch::Receiver<bool>,
    ) -> Self {
        Self {
            stream,
            peer,
            context,
            shutdown,
            head_deadline: None,
            input: BytesMut::new(),
            output: Vec::new(),
        }
    }

    /// Answers calls until the client has no more. The first call may be waiting for a judge
    /// already, and may be the last.
    pub(super) async fn serve(
        &mut self,
        first: Option<PendingCall>,
        closes: bool,
    ) -> io::Result<()> {
        if let Some(pending) = first {
            self.context.finish(pending, &mut self.output).await;
        }
        if closes {
            return self.flush().await;
        }
        let mut reader = RequestReader::new(self.context.settings.head_max.as_usize());
        loop {
            match reader.take(&mut self.input) {
                Ok(Some(request)) => {
                    self.head_deadline = None;
                    let closes = request.closes;
                    // Without an await between request and answer, so that neither is copied into
                    // the state of a future.
                    match self.context.needs(&request, &mut self.output) {
                        CallRequirement::Nothing => {
                            if let Some(pending) = self.begin(request, Bytes::new()) {
                                self.finish(pending).await?;
                            }
                        }
                        CallRequirement::Body(size) => self.call_with_body(request, size).await?,
                        CallRequirement::Refused => {}
                    }
                    if self.output.len() >= OUTPUT_BYTES_MAX {
                        self.flush().await?;
                    }
                    if closes {
                        return self.flush().await;
                    }
                }
                Ok(None) => {
                    self.flush().await?;
                    if !self.fill_between_calls().await? {
                        return Ok(());
                    }
                }
                Err(error) => {
                    let admission = &self.context.limits.admission;
                    admission.offended(self.peer, Offence::ProtocolFault);
                    answer::write_failure(&mut self.output, &error.to_string());
                    return self.flush().await;
                }
            }
        }
    }

    /// Makes a call, and writes its answer unless it waits for a judge thread.
    fn begin(&mut self, request: CallRequest, body: Bytes) -> Option<PendingCall> {
        self.context
            .begin(self.peer, request, body, &mut self.output)
    }

    /// Receives the message of `size` bytes, and makes the call.
    async fn call_with_body(&mut self, request: CallRequest, size: usize) -> io::Result<()> {
        // Held until the call is answered.
        let mut lease = self.context.limits.in_flight.lease(self.peer);
        let body = self.body(size, &mut lease).await?.freeze();
        if let Some(pending) = self.begin(request, body) {
            self.finish(pending).await?;
        }
        Ok(())
    }

    /// Waits for the judge thread of a call, and writes its answer.
    async fn finish(&mut self, pending: PendingCall) -> io::Result<()> {
        // Answers to earlier calls must not wait for this one's judge.
        self.flush().await?;
        self.context.finish(pending, &mut self.output).await;
        Ok(())
    }

    /// Requests the body and waits for it.
    async fn body(&mut self, size: usize, lease: &mut InFlightLease) -> io::Result<BytesMut> {
        self.output.extend_from_slice(b"NEED body\n");
        self.flush().await?;
        let deadline = Instant::now() + self.context.settings.body_time_max.duration();
        while self.input.len() < size {
            if wire::read(&self.stream, &mut self.input, deadline).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if let Err(error) = lease.reserve(self.input.len() as u64) {
                answer::write_failure(&mut self.output, &error.to_string());
                self.flush().await?;
                return Err(io::Error::other(error));
            }
        }
        Ok(self.input.split_to(size))
    }

    /// Waits for more of a request; returns false if the connection must end.
    async fn fill_between_calls(&mut self) -> io::Result<bool> {
        let settings = &self.context.settings;
        let deadline = if self.input.has_remaining() {
            // The deadline is for the whole head: sending it byte by byte does not extend the time.
            let head_time_max = settings.head_time_max.duration();
            *self
                .head_deadline
                .get_or_insert_with(|| Instant::now() + head_time_max)
        } else {
            Instant::now() + settings.idle_time_max.duration()
        };
        tokio::select! {
            biased;
            _ = self.shutdown.wait_for(|&down| down) => Ok(false),
            read = wire::read(&self.stream, &mut self.input, deadline) => match read {
                Ok(count) => Ok(count > 0),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => Ok(false),
                Err(error) => Err(error),
            },
        }
    }

    /// Writes the pending output.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        if !self.output.is_empty() {
            let deadline = Instant::now() + self.context.settings.head_time_max.duration();
            wire::write(&self.stream, &self.output, deadline).await?;
            self.output.clear();
        }
        Ok(())
    }
}
