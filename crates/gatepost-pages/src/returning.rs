//! The way back from a page worker to the thread whose task waits for the page.
//!
//! To wake a task of another thread costs a system call, and when that thread sleeps, a change of
//! threads. Pages come back by the ten thousand in a second, so they do not wake their tasks one by
//! one: they go into a queue of the waiting thread, whose own task takes out whatever has gathered
//! and wakes the others from there, where that costs nothing.
//!
//! Invariant: a queue holds no more than the jobs that were submitted from its thread, whose number
//! the workers' own queue bounds.

use std::cell::RefCell;

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

type Delivery = Box<dyn FnOnce() + Send>;

thread_local! {
    static HERE: RefCell<Option<UnboundedSender<Delivery>>> = const { RefCell::new(None) };
}

/// The queue of one thread.
pub(crate) struct Returns(UnboundedSender<Delivery>);

impl Returns {
    /// The present thread's, which runs a runtime.
    pub(crate) fn here() -> Self {
        HERE.with_borrow_mut(|here| {
            // Of a runtime that has ended, the receiver is gone.
            let open = here.take().filter(|sender| !sender.is_closed());
            let sender = open.unwrap_or_else(start);
            *here = Some(sender.clone());
            Self(sender)
        })
    }

    /// Has the thread do this.
    pub(crate) fn deliver(&self, delivery: impl FnOnce() + Send + 'static) {
        // Where the runtime has ended nobody waits any more.
        let _ = self.0.send(Box::new(delivery));
    }
}

fn start() -> UnboundedSender<Delivery> {
    let (sender, mut receiver) = unbounded_channel::<Delivery>();
    tokio::spawn(async move {
        while let Some(delivery) = receiver.recv().await {
            delivery();
        }
    });
    sender
}
