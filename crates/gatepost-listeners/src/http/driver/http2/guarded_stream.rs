//! A connection's stream for the `h2` crate: of which some bytes were read already, and whose
//! client has a bounded number of control frames.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::stream::Stream;

use super::frame_budget::FrameBudget;

/// Reads `first` before the stream, and ends where the client floods it.
pub(super) struct GuardedStream {
    stream: Stream,
    first: Vec<u8>,
    budget: FrameBudget,
}

impl GuardedStream {
    pub(super) fn new(stream: Stream, first: Vec<u8>) -> Self {
        Self {
            stream,
            first,
            budget: FrameBudget::new(),
        }
    }

    fn check(&mut self, received: &[u8]) -> io::Result<()> {
        if self.budget.take(received) {
            Ok(())
        } else {
            Err(io::Error::other(
                "the client floods the connection with control frames",
            ))
        }
    }
}

impl AsyncRead for GuardedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let begun = buffer.filled().len();
        if self.first.is_empty() {
            ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        } else {
            let count = self.first.len().min(buffer.remaining());
            buffer.put_slice(self.first.get(..count).unwrap_or_default());
            self.first.drain(..count);
        }
        let received = buffer.filled().get(begun..).unwrap_or_default();
        Poll::Ready(self.check(received))
    }
}

impl AsyncWrite for GuardedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        self.budget.wrote(written);
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, slices))?;
        self.budget.wrote(written);
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
