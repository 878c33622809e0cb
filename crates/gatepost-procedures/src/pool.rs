//! The judge threads: one per core, with one bounded queue before them.
//!
//! A scan keeps a core busy for up to seconds; on a runtime that moves thousands of connections
//! it would hold all of them up. So it runs here, and the connection's task only waits.
//!
//! Of the threads that wait for work the one that worked last is woken: what it needs is still in
//! its core's cache, and where one message comes after the other, the other cores are left to those
//! who bring them.

use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::Arc;
use std::thread;

use parking_lot::{Condvar, Mutex};

type Job = Box<dyn FnOnce() + Send>;

struct Queue {
    waiting: Mutex<Waiting>,
    /// One for each thread.
    arrived: Box<[Condvar]>,
    length_max: usize,
}

struct Waiting {
    jobs: VecDeque<Job>,
    /// Threads without work, in the order in which they ran out of it.
    idle: Vec<usize>,
    closed: bool,
}

/// Hands work to the threads. Dropping it lets the threads finish what waits, and end.
pub(crate) struct Pool(Arc<Queue>);

/// So many jobs wait that one more would only wait longer than its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full;

impl Pool {
    /// Starts the threads; 0 means one per core.
    pub(crate) fn start(threads: usize, length_max: usize) -> Self {
        let threads = NonZero::new(threads)
            .or_else(|| thread::available_parallelism().ok())
            .map_or(1, NonZero::get);
        let queue = Arc::new(Queue {
            waiting: Mutex::new(Waiting {
                jobs: VecDeque::new(),
                idle: Vec::with_capacity(threads),
                closed: false,
            }),
            arrived: (0..threads).map(|_| Condvar::new()).collect(),
            length_max: length_max.max(1),
        });
        for number in 0..threads {
            let queue = Arc::clone(&queue);
            let started = thread::Builder::new()
                .name(format!("judge-{number}"))
                .spawn(move || queue.work(number));
            if let Err(error) = started {
                tracing::error!(target: "procedures", "judge thread {number} did not start: {error}");
            }
        }
        Self(queue)
    }

    /// Queues a job, or says that the queue is full.
    pub(crate) fn submit(&self, job: Job) -> Result<(), Full> {
        let mut waiting = self.0.waiting.lock();
        if waiting.jobs.len() >= self.0.length_max {
            return Err(Full);
        }
        waiting.jobs.push_back(job);
        let idle = waiting.idle.pop();
        drop(waiting);
        if let Some(arrived) = idle.and_then(|number| self.0.arrived.get(number)) {
            arrived.notify_one();
        }
        Ok(())
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.0.waiting.lock().closed = true;
        for arrived in &self.0.arrived {
            arrived.notify_one();
        }
    }
}

impl Queue {
    fn work(&self, number: usize) {
        let Some(arrived) = self.arrived.get(number) else {
            return;
        };
        while let Some(job) = self.next(number, arrived) {
            // A panic is a defect, but one message's: the thread stays, and the job's reply
            // channel is dropped, which its waiter sees as a failure.
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)).is_err() {
                tracing::error!(target: "procedures", "a judge panicked; its message is deferred");
            }
        }
    }

    fn next(&self, number: usize, arrived: &Condvar) -> Option<Job> {
        let mut waiting = self.waiting.lock();
        loop {
            if let Some(job) = waiting.jobs.pop_front() {
                return Some(job);
            }
            if waiting.closed {
                return None;
            }
            waiting.idle.push(number);
            arrived.wait(&mut waiting);
            // Whoever woke it took it from there, unless that was the end.
            waiting.idle.retain(|&idle| idle != number);
        }
    }
}
