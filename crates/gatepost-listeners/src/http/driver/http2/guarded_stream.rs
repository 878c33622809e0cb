//! A connection's stream for the `h2` crate: of which some bytes were read already, and whose
//! client has a bounded number of control frames.
//!
//! Where the client floods the connection, nothing more is read, and the holder of the [`Flood`]
//! ends the connection: an error here would keep `h2` from saying why.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

use super::frame_budget::FrameBudget;
use crate::stream::Stream;

/// Notices that the client floods the connection.
#[derive(Clone, Default)]
pub(super) struct Flood(Arc<Notify>);

impl Flood {
    /// Waits for the flood.
    pub(super) async fn begun(&self) {
        self.0.notified().await;
    }
}

/// Reads `first` before the stream, and nothing after a flood.
pub(super) struct GuardedStream {
    stream: Stream,
    first: Vec<u8>,
    budget: FrameBudget,
    flood: Flood,
    is_flooded: bool,
}

impl GuardedStream {
    pub(super) fn new(stream: Stream, first: Vec<u8>, flood: Flood) -> Self {
        Self {
            stream,
            first,
            budget: FrameBudget::new(),
            flood,
            is_flooded: false,
        }
    }
}

impl AsyncRead for GuardedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_flooded {
            return Poll::Pending;
        }
        let begun = buffer.filled().len();
        if self.first.is_empty() {
            ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        } else {
            let count = self.first.len().min(buffer.remaining());
            buffer.put_slice(self.first.get(..count).unwrap_or_default());
            self.first.drain(..count);
        }
        let received = buffer.filled().get(begun..).unwrap_or_default();
        if self.budget.take(received) {
            return Poll::Ready(Ok(()));
        }
        self.is_flooded = true;
        buffer.set_filled(begun);
        self.flood.0.notify_one();
        Poll::Pending
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
