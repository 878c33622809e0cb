//! The judge threads: one per core, with one bounded queue before them.
//!
//! A scan keeps a core busy for up to seconds; on a runtime with thousands of connections it would
//! delay all of them. So it runs here, and the connection's task only waits.
//!
//! Of the waiting threads, the one that worked last is woken: its data is still in its core's
//! cache, and if messages come one after the other, the other cores are left to the threads that
//! receive them.
//!
//! Jobs that have waited for a response alternate with new ones: if a DNS list answers or times out
//! for a thousand messages at the same moment, a new message waits for one of them, not for all.

use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::Arc;
use std::thread;

use parking_lot::{Condvar, Mutex, MutexGuard};

type JudgeJob = Box<dyn FnOnce() + Send>;

struct JudgeQueue {
    waiting: Mutex<WaitingJobs>,
    /// One condition variable for each thread.
    arrived: Box<[Condvar]>,
    length_max: usize,
}

struct WaitingJobs {
    new: VecDeque<JudgeJob>,
    /// Jobs that have waited for a response, and were admitted before.
    resumed: VecDeque<JudgeJob>,
    is_turn_of_resumed: bool,
    /// Threads without work, in the order in which they ran out of it.
    idle: Vec<usize>,
    closed: bool,
}

impl WaitingJobs {
    fn take(&mut self) -> Option<JudgeJob> {
        let (one, other) = if self.is_turn_of_resumed {
            (&mut self.resumed, &mut self.new)
        } else {
            (&mut self.new, &mut self.resumed)
        };
        let job = one.pop_front().or_else(|| other.pop_front());
        self.is_turn_of_resumed = !self.is_turn_of_resumed;
        job
    }
}

/// Passes jobs to the threads. After a drop the threads finish the queue and end.
pub(crate) struct JudgePool(Arc<JudgeQueue>);

/// The queue is full: a further job would wait longer than its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueueFull;

impl JudgePool {
    /// Starts the threads; 0 means one per core.
    pub(crate) fn start(threads: usize, length_max: usize) -> Self {
        let threads = NonZero::new(threads)
            .or_else(|| thread::available_parallelism().ok())
            .map_or(1, NonZero::get);
        let queue = Arc::new(JudgeQueue {
            waiting: Mutex::new(WaitingJobs {
                new: VecDeque::new(),
                resumed: VecDeque::new(),
                is_turn_of_resumed: true,
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
                tracing::error!(
                    target: "procedures",
                    "judge thread {number} did not start: {error}",
                );
            }
        }
        Self(queue)
    }

    /// Queues a job that has waited for an external response; it was admitted before, so it is
    /// always accepted.
    pub(crate) fn resume(&self, job: JudgeJob) {
        let mut waiting = self.0.waiting.lock();
        waiting.resumed.push_back(job);
        self.0.wake(waiting);
    }

    /// Queues a job, or returns that the queue is full.
    pub(crate) fn submit(&self, job: JudgeJob) -> Result<(), QueueFull> {
        let mut waiting = self.0.waiting.lock();
        if waiting.new.len() >= self.0.length_max {
            return Err(QueueFull);
        }
        waiting.new.push_back(job);
        self.0.wake(waiting);
        Ok(())
    }
}

impl Drop for JudgePool {
    fn drop(&mut self) {
        self.0.waiting.lock().closed = true;
        for arrived in &self.0.arrived {
            arrived.notify_one();
        }
    }
}

impl JudgeQueue {
    /// Wakes a thread for a job that was queued.
    fn wake(&self, mut waiting: MutexGuard<'_, WaitingJobs>) {
        let idle = waiting.idle.pop();
        drop(waiting);
        if let Some(arrived) = idle.and_then(|number| self.arrived.get(number)) {
            arrived.notify_one();
        }
    }

    fn work(&self, number: usize) {
        let Some(arrived) = self.arrived.get(number) else {
            return;
        };
        while let Some(job) = self.next(number, arrived) {
            // A panic is a defect, but affects one message only: the thread survives, and the job's
            // reply channel is dropped, which its waiter sees as a failure.
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)).is_err() {
                tracing::error!(target: "procedures", "a judge panicked; its message is deferred");
            }
        }
    }

    fn next(&self, number: usize, arrived: &Condvar) -> Option<JudgeJob> {
        let mut waiting = self.waiting.lock();
        loop {
            if let Some(job) = waiting.take() {
                return Some(job);
            }
            if waiting.closed {
                return None;
            }
            waiting.idle.push(number);
            arrived.wait(&mut waiting);
            // The caller of the wake-up removed it, unless the pool has ended.
            waiting.idle.retain(|&idle| idle != number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    const PATIENCE: Duration = Duration::from_mins(1);

    fn await_that(what: &str, condition: impl Fn() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !condition() {
            assert!(Instant::now() < deadline, "did not happen: {what}");
            thread::yield_now();
        }
    }

    /// The numbers of the idle threads, the one that ran out of work last at the end, as soon as
    /// there are this many. A thread is among them from the moment from which it can be woken.
    fn await_idle(pool: &JudgePool, count: usize) -> Vec<usize> {
        let idle = || pool.0.waiting.lock().idle.clone();
        await_that("threads without work", || idle().len() == count);
        idle()
    }

    /// A job that has begun, and runs until it is ended.
    struct Begun {
        /// The number of its thread.
        thread: usize,
        end: mpsc::Sender<()>,
    }

    fn begin(pool: &JudgePool) -> Begun {
        let (sender, taken) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let job = move || {
            let name = thread::current().name().expect("a name").to_owned();
            sender.send(name).expect("awaited");
            ended.recv().expect("an end");
        };
        pool.submit(Box::new(job)).expect("room");
        let name = taken.recv_timeout(PATIENCE).expect("a thread takes it");
        let number = name.strip_prefix("judge-").map(str::parse);
        let thread = number.expect("a judge").expect("a number");
        Begun { thread, end }
    }

    #[test]
    fn one_thread_takes_all_jobs_that_come_one_after_the_other() {
        let pool = JudgePool::start(4, 8);
        let idle = await_idle(&pool, 4);
        for _ in 0..20 {
            let job = begin(&pool);
            assert_eq!(Some(&job.thread), idle.last());
            job.end.send(()).expect("it runs");
            assert_eq!(await_idle(&pool, 4), idle);
        }
    }

    #[test]
    fn the_thread_that_worked_last_is_woken_first() {
        let pool = JudgePool::start(4, 8);
        let idle = await_idle(&pool, 4);
        let jobs = [begin(&pool), begin(&pool), begin(&pool)];
        let threads = jobs.each_ref().map(|job| job.thread);
        assert_eq!(threads, [idle[3], idle[2], idle[1]]);
        // They run out of work in another order.
        for (idle_before, number) in [2, 0, 1].into_iter().enumerate() {
            jobs[number].end.send(()).expect("it runs");
            await_idle(&pool, idle_before + 2);
        }
        let expected = [idle[0], threads[2], threads[0], threads[1]];
        assert_eq!(await_idle(&pool, 4), expected);
        let job = begin(&pool);
        assert_eq!(job.thread, threads[1]);
        job.end.send(()).expect("it runs");
    }

    #[test]
    fn a_dropped_pool_finishes_what_waits_and_ends() {
        let pool = JudgePool::start(1, 8);
        let queue = Arc::downgrade(&pool.0);
        let first = begin(&pool);
        let (done, finished) = mpsc::channel();
        for number in 0..5 {
            let done = done.clone();
            let job = move || done.send(number).expect("awaited");
            pool.submit(Box::new(job)).expect("room");
        }
        drop((pool, done));
        first.end.send(()).expect("it runs");
        let numbers: Vec<i32> =
            std::iter::from_fn(|| finished.recv_timeout(PATIENCE).ok()).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4]);
        await_that("the end of the thread", || queue.strong_count() == 0);
    }

    #[test]
    fn resumed_jobs_and_new_ones_take_turns() {
        let pool = JudgePool::start(1, 8);
        let first = begin(&pool);
        let (done, finished) = mpsc::channel();
        for number in 0..6 {
            let done = done.clone();
            let job = move || done.send(number).expect("awaited");
            if number < 4 {
                pool.resume(Box::new(job));
            } else {
                pool.submit(Box::new(job)).expect("room");
            }
        }
        drop(done);
        first.end.send(()).expect("it runs");
        let numbers: Vec<i32> =
            std::iter::from_fn(|| finished.recv_timeout(PATIENCE).ok()).collect();
        let new_at = numbers.iter().position(|&number| number == 4);
        assert!(new_at.is_some_and(|place| place <= 1), "{numbers:?}");
        let mut sorted = numbers.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_dropped_pool_without_work_ends() {
        let pool = JudgePool::start(4, 8);
        let queue = Arc::downgrade(&pool.0);
        await_idle(&pool, 4);
        drop(pool);
        await_that("the end of the threads", || queue.strong_count() == 0);
    }
}
