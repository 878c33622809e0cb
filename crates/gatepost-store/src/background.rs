//! The threads of a store beside the writer. They do what can wait, and end with the store.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;

/// The threads; each ends when its sender is dropped.
#[derive(Default)]
pub(crate) struct BackgroundThreads(Mutex<Vec<(Sender<()>, JoinHandle<()>)>>);

/// The end of the store, as a thread notices it.
pub(crate) struct StoreEnd(Receiver<()>);

impl StoreEnd {
    /// Waits; returns whether the store ends.
    pub(crate) fn comes_within(&self, time: Duration) -> bool {
        self.0.recv_timeout(time) != Err(RecvTimeoutError::Timeout)
    }
}

impl BackgroundThreads {
    pub(crate) fn start(&self, name: &str, run: impl FnOnce(StoreEnd) + Send + 'static) {
        let (running, ended) = mpsc::channel::<()>();
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || run(StoreEnd(ended)));
        match thread {
            Ok(thread) => self.0.lock().push((running, thread)),
            Err(error) => {
                tracing::warn!(target: "store", %error, name, "a thread cannot be started");
            }
        }
    }

    /// Ends all threads and waits for them.
    pub(crate) fn end(&self) {
        let threads = std::mem::take(&mut *self.0.lock());
        // All senders are dropped before the first wait.
        let threads: Vec<_> = threads.into_iter().map(|(_, thread)| thread).collect();
        for thread in threads {
            // A panic of the thread has been logged.
            let _ = thread.join();
        }
    }
}
