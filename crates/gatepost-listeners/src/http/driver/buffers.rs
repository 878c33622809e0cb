//! Buffers that a worker lends to the connection that it polls, so that a waiting connection owns
//! none.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use super::output::Output;

/// The most that one read takes; must be larger than any head.
pub(super) const READ_BYTES: usize = 64 << 10;

/// The buffers of one worker.
pub(super) struct WorkerBuffers {
    pub(super) input: Box<[u8]>,
    pub(super) output: Output,
    pub(super) peer_text: String,
}

thread_local! {
    static BUFFERS: RefCell<WorkerBuffers> = RefCell::new(WorkerBuffers {
        input: vec![0; READ_BYTES].into_boxed_slice(),
        output: Output::default(),
        peer_text: String::new(),
    });
}

/// Lends the present worker's buffers.
pub(super) fn with_buffers<T>(use_them: impl FnOnce(&mut WorkerBuffers) -> T) -> T {
    BUFFERS.with_borrow_mut(use_them)
}

/// The result of `future`, or `None` if it takes longer than `limit`. Most are ready when first
/// polled, and then no timer is made: it would cost more than a small write.
pub(super) async fn timeout<T>(limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let first = poll_fn(|task| Poll::Ready(future.as_mut().poll(task))).await;
    if let Poll::Ready(result) = first {
        return Some(result);
    }
    tokio::time::timeout(limit, future).await.ok()
}
