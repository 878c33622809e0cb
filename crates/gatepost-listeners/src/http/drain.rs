//! Draining: requests in progress finish, idle connections close.
//!
//! A connection registers its waker once; a drain sets a flag and wakes all of them. So the flag
//! costs a request one load, and no channel is polled beside the socket.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Poll, Waker};

use parking_lot::Mutex;

/// The end of a listener's connections.
#[derive(Debug, Default)]
pub(super) struct Drain {
    draining: AtomicBool,
    next: AtomicU64,
    wakers: Mutex<HashMap<u64, Waker>>,
}

impl Drain {
    /// Whether connections shall end.
    pub(super) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Returns when connections shall end; for a registered task, which the drain wakes.
    pub(super) async fn begun(&self) {
        poll_fn(|_| {
            if self.is_draining() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }

    /// Begins the drain, and wakes the waiting connections.
    pub(super) fn begin(&self) {
        self.draining.store(true, Ordering::SeqCst);
        let wakers: Vec<_> = self.wakers.lock().values().cloned().collect();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Registers a task until the guard is dropped. The flag is read after registering, so a
    /// drain that begins meanwhile is seen.
    pub(super) fn register(&self, waker: &Waker) -> RegisteredTask<'_> {
        let key = self.next.fetch_add(1, Ordering::Relaxed);
        self.wakers.lock().insert(key, waker.clone());
        RegisteredTask { drain: self, key }
    }
}

/// A registered task.
pub(super) struct RegisteredTask<'a> {
    drain: &'a Drain,
    key: u64,
}

impl Drop for RegisteredTask<'_> {
    fn drop(&mut self) {
        self.drain.wakers.lock().remove(&self.key);
    }
}
