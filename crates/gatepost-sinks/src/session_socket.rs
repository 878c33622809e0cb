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
    /// The number of bytes at which the reader is woken.
    wake_bytes: usize,
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
        let is_enough = state.bytes.len() >= state.wake_bytes;
        let reader = is_enough.then(|| state.reader.take()).flatten();
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

    /// Waits until this many bytes are available.
    pub(crate) fn poll_filled(&self, context: &mut Context<'_>, bytes: usize) -> Poll<()> {
        let mut state = self.0.lock();
        if state.bytes.len() >= bytes {
            return Poll::Ready(());
        }
        state.reader = Some(context.waker().clone());
        state.wake_bytes = bytes;
        Poll::Pending
    }

    /// Moves the available bytes to the end of `out`; pending while there are none.
    pub(crate) fn poll_read(&self, context: &mut Context<'_>, out: &mut BytesMut) -> Poll<()> {
        let mut state = self.0.lock();
        if state.bytes.is_empty() {
            state.reader = Some(context.waker().clone());
            state.wake_bytes = 1;
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
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    struct CountedWakes(Arc<AtomicUsize>);

    impl Wake for CountedWakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn counting_waker() -> (Arc<AtomicUsize>, Waker) {
        let count = Arc::new(AtomicUsize::new(0));
        (count.clone(), Arc::new(CountedWakes(count)).into())
    }

    #[test]
    fn a_reader_that_gathers_is_woken_once_there_are_enough_bytes() {
        let (woken, waker) = counting_waker();
        let mut context = Context::from_waker(&waker);
        let socket = SessionSocket::default();
        assert!(socket.poll_filled(&mut context, 10).is_pending());
        socket.try_write(&[IoSlice::new(b"12345")]).expect("room");
        assert_eq!(woken.load(Ordering::Relaxed), 0);
        socket.try_write(&[IoSlice::new(b"67890")]).expect("room");
        assert_eq!(woken.load(Ordering::Relaxed), 1);
        assert!(socket.poll_filled(&mut context, 10).is_ready());
        let mut out = BytesMut::new();
        assert!(socket.poll_read(&mut context, &mut out).is_ready());
        assert!(socket.poll_read(&mut context, &mut out).is_pending());
        socket.try_write(&[IoSlice::new(b"1")]).expect("room");
        assert_eq!(woken.load(Ordering::Relaxed), 2);
    }

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
