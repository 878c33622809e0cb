//! The connection between the broker and a sink: a bounded buffer of bytes.
//!
//! The broker writes as it writes to a socket, on the publisher's thread. While the buffer is full,
//! the rest waits in the session, under the policy of the session.

use std::io::{self, IoSlice};
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use gatepost_broker::SubscriberSocket;
use parking_lot::Mutex;

/// Bytes that a sink has received from its session and not parsed yet.
const BUFFER_BYTES_MAX: usize = 64 * 1024;

#[derive(Default)]
struct SessionSocketState {
    bytes: BytesMut,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

#[derive(Default)]
pub(crate) struct SessionSocket(Mutex<SessionSocketState>);

impl SubscriberSocket for SessionSocket {
    fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut state = self.0.lock();
        let room = BUFFER_BYTES_MAX.saturating_sub(state.bytes.len());
        let mut written = 0;
        for slice in slices {
            let count = slice.len().min(room - written);
            state.bytes.extend_from_slice(&slice[..count]);
            written += count;
        }
        if written == 0 && slices.iter().any(|slice| !slice.is_empty()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let reader = state.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
        Ok(written)
    }
}

impl SessionSocket {
    /// Waits for free space.
    pub(crate) fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.0.lock();
        if state.bytes.len() < BUFFER_BYTES_MAX {
            return Poll::Ready(Ok(()));
        }
        state.writer = Some(context.waker().clone());
        Poll::Pending
    }

    /// Moves the available bytes to the end of `out`; pending while there are none.
    pub(crate) fn poll_read(&self, context: &mut Context<'_>, out: &mut BytesMut) -> Poll<()> {
        let mut state = self.0.lock();
        if state.bytes.is_empty() {
            state.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        if out.is_empty() {
            *out = std::mem::take(&mut state.bytes);
        } else {
            out.extend_from_slice(&state.bytes);
            state.bytes = BytesMut::new();
        }
        let writer = state.writer.take();
        drop(state);
        if let Some(writer) = writer {
            writer.wake();
        }
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_in_order_and_their_number_is_bounded() {
        let socket = SessionSocket::default();
        let mut context = Context::from_waker(Waker::noop());
        let bytes: Vec<u8> = (0..BUFFER_BYTES_MAX + 10).map(|at| at as u8).collect();
        let mut out = BytesMut::new();
        assert!(socket.poll_read(&mut context, &mut out).is_pending());
        let slices = [IoSlice::new(&bytes[..10]), IoSlice::new(&bytes[10..])];
        assert_eq!(socket.try_write(&slices).expect("room"), BUFFER_BYTES_MAX);
        let refused = socket.try_write(&slices).expect_err("no room");
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        assert!(socket.poll_writable(&mut context).is_pending());
        assert!(socket.poll_read(&mut context, &mut out).is_ready());
        assert!(socket.poll_writable(&mut context).is_ready());
        socket
            .try_write(&[IoSlice::new(&bytes[BUFFER_BYTES_MAX..])])
            .expect("room");
        assert!(socket.poll_read(&mut context, &mut out).is_ready());
        assert_eq!(out, bytes);
    }
}
