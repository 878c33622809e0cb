//! A connection's stream for the `h2` crate: some of its bytes were read already, and the number
//! and the lengths of its control frames are checked.
//!
//! After a violation, nothing more is read, and the holder of the [`Http2Violation`] ends the
//! connection: an error here would prevent `h2` from sending the reason.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use h2::Reason;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

use super::frame_guard::FrameGuard;
use crate::stream::Stream;

/// The client's violation for which its connection must end.
#[derive(Clone, Default)]
pub(super) struct Http2Violation(Arc<ViolationState>);

#[derive(Default)]
struct ViolationState {
    reason: OnceLock<Reason>,
    notify: Notify,
}

impl Http2Violation {
    /// Waits for the violation; returns the reason that is sent to the client.
    pub(super) async fn noticed(&self) -> Reason {
        self.0.notify.notified().await;
        // The reason is set before the notification.
        self.0
            .reason
            .get()
            .copied()
            .unwrap_or(Reason::PROTOCOL_ERROR)
    }
}

/// Reads `first` before the stream, and nothing after a violation.
pub(super) struct GuardedStream {
    stream: Stream,
    first: Vec<u8>,
    guard: FrameGuard,
    violation: Http2Violation,
}

impl GuardedStream {
    pub(super) fn new(stream: Stream, first: Vec<u8>, violation: Http2Violation) -> Self {
        Self {
            stream,
            first,
            guard: FrameGuard::new(),
            violation,
        }
    }
}

impl AsyncRead for GuardedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.violation.0.reason.get().is_some() {
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
        let Err((whole, reason)) = self.guard.take(received) else {
            return Poll::Ready(Ok(()));
        };
        // The bytes before the violation still count, so that `h2` gets the client's preface.
        buffer.set_filled(begun + whole);
        self.violation.0.reason.get_or_init(|| reason);
        self.violation.0.notify.notify_one();
        if whole > 0 {
            Poll::Ready(Ok(()))
        } else {
            Poll::Pending
        }
    }
}

impl AsyncWrite for GuardedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        self.guard.wrote(written);
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, slices))?;
        self.guard.wrote(written);
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
