//! A task of a worker, and the channel to its waiter.
//!
//! Invariants: a task runs at most once, and is answered at most once: with its result, or with the
//! error for which it was abandoned. The waiter for a task that is dropped without an answer is
//! notified by the channel.

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::Worker;
use crate::error::RenderError;
use crate::returning::ReturnQueue;

/// The work, and its page.
pub(super) trait PageTask: Send + Sync {
    fn run(&self, worker: &Worker);

    /// Answers without a result.
    fn fail(&self, error: RenderError);
}

/// Work whose result is awaited.
pub(super) struct AwaitedTask<T, F> {
    work: Mutex<Option<F>>,
    reply: Mutex<Option<Reply<T>>>,
}

type Reply<T> = (oneshot::Sender<Result<T, RenderError>>, ReturnQueue);

impl<T: Send + 'static, F> AwaitedTask<T, F> {
    /// The channel returns its result.
    pub(super) fn new(work: F) -> (Self, oneshot::Receiver<Result<T, RenderError>>) {
        let (reply, answer) = oneshot::channel();
        let task = Self {
            work: Mutex::new(Some(work)),
            reply: Mutex::new(Some((reply, ReturnQueue::here()))),
        };
        (task, answer)
    }

    fn answer(&self, result: Result<T, RenderError>) {
        let reply = self.reply.lock().take();
        if let Some((reply, returns)) = reply {
            returns.deliver(move || drop(reply.send(result)));
        }
    }

    fn is_awaited(&self) -> bool {
        let reply = self.reply.lock();
        reply.as_ref().is_some_and(|(reply, _)| !reply.is_closed())
    }
}

impl<T: Send + 'static, F: FnOnce(&Worker) -> T + Send> PageTask for AwaitedTask<T, F> {
    fn run(&self, worker: &Worker) {
        let work = self.work.lock().take();
        // The waiter may no longer exist when a worker is free.
        if let Some(work) = work.filter(|_| self.is_awaited()) {
            self.answer(Ok(work(worker)));
        }
    }

    fn fail(&self, error: RenderError) {
        self.answer(Err(error));
    }
}
