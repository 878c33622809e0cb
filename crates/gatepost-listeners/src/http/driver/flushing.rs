//! Writes that must wait: bytes that the socket did not accept immediately, and the deadline for
//! the client to read them.

use std::future::{Future, poll_fn};
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::time::Instant;

use super::connection::Http1Connection;
use super::sending::{SendChunk, send_unsent};
use super::socket::PolledSocket;
use crate::http::rate_limits::PACED_BYTES;

impl Http1Connection {
    pub(super) fn poll_flush(&mut self, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.unsent.is_empty() {
            let mut outlet = PolledSocket::new(&mut self.stream, task);
            match send_unsent(&mut self.unsent, &mut outlet) {
                Ok(count) => {
                    self.since = Instant::now();
                    if let Some(sending) = &mut self.sending {
                        sending.add(count);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.begin_sending();
                    return Poll::Pending;
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Starts the deadlines of a client that does not read everything immediately.
    fn begin_sending(&mut self) {
        if self.sending.is_none() {
            self.sending = Some(self.context.sending_rate());
            self.since = Instant::now();
            let due = self.write_deadline();
            self.timer.as_mut().reset(due);
        }
    }

    /// Ends these deadlines, since everything was written: the timer is used for requests again.
    pub(super) fn end_sending(&mut self) {
        if self.sending.take().is_some() {
            let idle = self.context.settings.idle_timeout.duration();
            self.timer.as_mut().reset(Instant::now() + idle);
        }
    }

    /// The deadline for the client to read more of the waiting bytes.
    pub(super) fn write_deadline(&self) -> Instant {
        match &self.sending {
            Some(sending) => sending.deadline(self.since),
            None => self.since + self.context.settings.write_timeout.duration(),
        }
    }

    /// Queues bytes; [`Http1Connection::flush`] writes them.
    pub(super) fn queue(&mut self, bytes: impl IntoIterator<Item = Bytes>) {
        let bytes = bytes.into_iter().filter(|bytes| !bytes.is_empty());
        self.unsent.extend(bytes.map(SendChunk::from));
    }

    /// Writes events that are queued. The broker decides how slowly events may be read, so the
    /// minimum rate begins again with each write.
    pub(super) async fn flush_events(&mut self) -> io::Result<()> {
        self.sending = None;
        self.flush().await
    }

    /// Writes the queued bytes; a reader that accepts nothing for `write_timeout`, or less than
    /// `write_rate_min` in the long run, is an error.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        if !self.context.rate_limits.caps_bandwidth() {
            return self.flush_all().await;
        }
        for chunk in std::mem::take(&mut self.unsent) {
            let mut bytes = chunk.bytes;
            while !bytes.is_empty() {
                let part = bytes.split_to(bytes.len().min(PACED_BYTES));
                let context = Arc::clone(&self.context);
                context.rate_limits.pace(self.client, part.len()).await;
                // The reader is slow because of the server's own limit.
                self.sending = None;
                self.unsent.push_back(part.into());
                self.flush_all().await?;
            }
        }
        Ok(())
    }

    async fn flush_all(&mut self) -> io::Result<()> {
        poll_fn(|task| {
            loop {
                if let Poll::Ready(flushed) = self.poll_flush(task) {
                    return Poll::Ready(flushed);
                }
                ready!(self.timer.as_mut().poll(task));
                // Bytes that were written meanwhile have moved the deadline.
                let due = self.write_deadline();
                if due <= Instant::now() {
                    return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                }
                self.timer.as_mut().reset(due);
            }
        })
        .await
    }
}
