//! Returns rendered pages from a page worker to the thread whose task waits for them.
//!
//! Waking a task of another thread costs a system call, and a context switch if that thread sleeps.
//! At tens of thousands of pages per second, the workers therefore do not wake the tasks one by
//! one: the pages are added to a queue of the waiting thread, whose own task takes all of them and
//! wakes the other tasks from there, where that costs nothing.
//!
//! Invariant: a queue holds no more than the jobs that were submitted from its thread, whose number
//! the workers' own queue bounds.

use std::cell::RefCell;

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

type ReturnedJob = Box<dyn FnOnce() + Send>;

thread_local! {
    static HERE: RefCell<Option<UnboundedSender<ReturnedJob>>> = const { RefCell::new(None) };
}

/// The queue of one thread.
pub(crate) struct ReturnQueue(UnboundedSender<ReturnedJob>);

impl ReturnQueue {
    /// The current thread's queue, if the thread runs a runtime.
    pub(crate) fn here() -> Self {
        HERE.with_borrow_mut(|here| {
            // The receiver of a runtime that has ended no longer exists.
            let open = here.take().filter(|sender| !sender.is_closed());
            let sender = open.unwrap_or_else(start);
            *here = Some(sender.clone());
            Self(sender)
        })
    }

    /// Runs this on the thread.
    pub(crate) fn deliver(&self, delivery: impl FnOnce() + Send + 'static) {
        // Once the runtime has ended, no task waits any more.
        let _ = self.0.send(Box::new(delivery));
    }
}

fn start() -> UnboundedSender<ReturnedJob> {
    let (sender, mut receiver) = unbounded_channel::<ReturnedJob>();
    gatepost_tasks::spawn(async move {
        while let Some(delivery) = receiver.recv().await {
            delivery();
        }
    });
    sender
}
