//! Page workers: the threads that run page code, and a supervisor.
//!
//! Page code is written by users: it may loop, wait or fail. It runs only here, so mail, the broker
//! and pages without code never wait for it. A page that runs longer than `patience` is a
//! *straggler*: it no longer counts as one of the workers, another worker is started, and the
//! straggler gets the lowest scheduling priority. The straggler's thread ends with its page. So
//! looping pages delay no others, as long as there are fewer than `stragglers_max`; to ensure this,
//! no single page may have more than a quarter of them.
//!
//! A page that exceeds its memory limit is stopped together with its thread
//! ([`crate::memory_limit`]): [`Worker::replace_parked`] answers its request and starts another
//! worker.
//!
//! Invariants: `workers` threads that are not stragglers are alive, or being started; a thread is
//! replaced after `requests_max` pages, after a panic, and after it was a straggler or parked.

mod task;

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::error::RenderError;
use task::{AwaitedTask, PageTask};

/// The lowest priority of the scheduler, which leaves the processor to all other threads.
const STRAGGLER_NICENESS: i32 = 19;

/// The stack of a thread that evaluates templates whose values hold `memory_bytes`. Dropping or
/// printing nested lists needs stack for each level, so it must suffice for as many levels as fit
/// into that memory. Only the used part of it is ever allocated.
pub(crate) const fn stack_bytes(memory_bytes: usize) -> usize {
    STACK_BYTES_MIN + memory_bytes.saturating_mul(STACK_FACTOR)
}

const STACK_BYTES_MIN: usize = 2 * 1024 * 1024;
/// A nested list counts about 200 bytes, and a stopped evaluation holds eight times the limit. This
/// gives 800 bytes of stack for each level; unoptimised code, where calls take more, gets four
/// times that.
const STACK_FACTOR: usize = if cfg!(debug_assertions) { 128 } else { 32 };

/// The number of workers, and their limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) workers: usize,
    pub(crate) queue_max: usize,
    /// The number of pages after which a worker is replaced; 0 for any number.
    pub(crate) requests_max: u64,
    pub(crate) patience: Duration,
    pub(crate) stragglers_max: usize,
    /// The memory limit of each page.
    pub(crate) stack_bytes: usize,
}

/// The workers. Dropping them lets them finish the waiting jobs, and end.
pub(crate) struct PageWorkers(Arc<WorkersShared>);

struct WorkersShared {
    state: Mutex<PageQueue>,
    /// A job waits for an idle worker.
    arrived: Condvar,
    /// Jobs wait and no worker is idle: the supervisor should look for stragglers.
    pressed: Condvar,
    bounds: Bounds,
}

#[derive(Default)]
struct PageQueue {
    jobs: VecDeque<Job>,
    idle: usize,
    running: Vec<RunningWorker>,
    tickets: u64,
    replaced: u64,
    /// Whether the supervisor waits for a notification.
    supervisor_waits: bool,
    closed: bool,
}

struct Job {
    page: Arc<str>,
    task: Arc<dyn PageTask>,
}

/// The worker that runs a task, for the task itself.
#[derive(Clone)]
pub(crate) struct Worker {
    shared: Arc<WorkersShared>,
    task: Arc<dyn PageTask>,
    ticket: u64,
}

impl Worker {
    /// Replaces this thread, which is parked next: the task is answered with `error`, and another
    /// worker is started.
    pub(crate) fn replace_parked(&self, error: RenderError) {
        let mut state = self.shared.state.lock();
        let straggled = state.finish(self.ticket);
        if !straggled {
            state.replaced += 1;
        }
        drop(state);
        if !straggled {
            WorkersShared::start_worker(&self.shared);
        }
        self.task.fail(error);
    }
}

struct RunningWorker {
    ticket: u64,
    page: Arc<str>,
    since: Instant,
    thread: Option<rustix::process::Pid>,
    straggles: bool,
}

impl PageQueue {
    fn overdue_workers(&self) -> impl Iterator<Item = &RunningWorker> {
        self.running.iter().filter(|running| running.straggles)
    }

    /// Whether it was a straggler.
    fn finish(&mut self, ticket: u64) -> bool {
        let place = self.running.iter().position(|one| one.ticket == ticket);
        place.is_some_and(|place| self.running.swap_remove(place).straggles)
    }

    fn is_over_share(&self, page: &str, bounds: &Bounds) -> bool {
        let share = (bounds.stragglers_max / 4).max(1);
        self.overdue_workers()
            .filter(|running| *running.page == *page)
            .count()
            >= share
    }
}

impl PageWorkers {
    /// Starts the workers.
    pub(crate) fn start(bounds: Bounds) -> Self {
        let shared = Arc::new(WorkersShared {
            state: Mutex::default(),
            arrived: Condvar::new(),
            pressed: Condvar::new(),
            bounds,
        });
        for _ in 0..bounds.workers.max(1) {
            WorkersShared::start_worker(&shared);
        }
        let supervised = Arc::clone(&shared);
        let started = thread::Builder::new()
            .name("page-watch".to_owned())
            .spawn(move || supervised.supervise());
        if let Err(error) = started {
            tracing::error!(target: "pages", "the page workers have no supervisor: {error}");
        }
        Self(shared)
    }

    /// Runs `work` for `page` on a worker, and waits for the result at most for `time_max`.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        page: &Arc<str>,
        time_max: Duration,
        work: impl FnOnce(&Worker) -> T + Send + 'static,
    ) -> Result<T, RenderError> {
        let (task, answer) = AwaitedTask::new(work);
        self.submit(Job {
            page: Arc::clone(page),
            task: Arc::new(task),
        })?;
        match tokio::time::timeout(time_max, answer).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(RenderError::Fault),
            Err(_) => Err(RenderError::TimedOut),
        }
    }

    /// The number of replaced workers.
    pub(crate) fn replaced(&self) -> u64 {
        self.0.state.lock().replaced
    }

    fn submit(&self, job: Job) -> Result<(), RenderError> {
        let shared = &self.0;
        let mut state = shared.state.lock();
        if state.jobs.len() >= shared.bounds.queue_max
            || state.is_over_share(&job.page, &shared.bounds)
        {
            return Err(RenderError::Busy);
        }
        state.jobs.push_back(job);
        let (idle, waiting) = (state.idle, state.jobs.len());
        let press = waiting > idle && state.supervisor_waits;
        drop(state);
        if idle > 0 {
            shared.arrived.notify_one();
        }
        if press {
            shared.pressed.notify_one();
        }
        Ok(())
    }
}

impl Drop for PageWorkers {
    fn drop(&mut self) {
        self.0.state.lock().closed = true;
        self.0.arrived.notify_all();
        self.0.pressed.notify_all();
    }
}

impl WorkersShared {
    fn start_worker(shared: &Arc<Self>) {
        let working = Arc::clone(shared);
        let started = thread::Builder::new()
            .name("page".to_owned())
            .stack_size(shared.bounds.stack_bytes)
            .spawn(move || Self::work(&working));
        if let Err(error) = started {
            tracing::error!(target: "pages", "a page worker did not start: {error}");
        }
    }

    /// The main loop of a worker.
    fn work(shared: &Arc<Self>) {
        let thread = Some(rustix::thread::gettid());
        let mut served = 0_u64;
        let mut state = shared.state.lock();
        loop {
            let Some(job) = state.jobs.pop_front() else {
                if state.closed {
                    return;
                }
                state.idle += 1;
                shared.arrived.wait(&mut state);
                state.idle -= 1;
                continue;
            };
            if state.is_over_share(&job.page, &shared.bounds) {
                // It has waited since before the page became a straggler.
                job.task.fail(RenderError::Busy);
                continue;
            }
            state.tickets += 1;
            let ticket = state.tickets;
            state.running.push(RunningWorker {
                ticket,
                page: job.page,
                since: Instant::now(),
                thread,
                straggles: false,
            });
            drop(state);
            let worker = Worker {
                shared: Arc::clone(shared),
                task: job.task,
                ticket,
            };
            let run = AssertUnwindSafe(|| worker.task.run(&worker));
            let failed = std::panic::catch_unwind(run).is_err();
            // The memory of a failed task, with its reply.
            drop(worker);
            served += 1;
            state = shared.state.lock();
            if state.finish(ticket) {
                // Another worker has replaced this one already.
                return;
            }
            let worn = shared.bounds.requests_max > 0 && served >= shared.bounds.requests_max;
            if failed {
                tracing::error!(
                    target: "pages",
                    "a page worker panicked; a new one takes its place",
                );
            }
            if failed || worn {
                state.replaced += 1;
                drop(state);
                Self::start_worker(shared);
                return;
            }
        }
    }

    /// Looks for stragglers whenever a job has to wait.
    fn supervise(self: &Arc<Self>) {
        let mut state = self.state.lock();
        while !state.closed {
            if state.jobs.len() <= state.idle {
                state.supervisor_waits = true;
                self.pressed.wait(&mut state);
                state.supervisor_waits = false;
                continue;
            }
            let found = self.mark_stragglers(&mut state);
            for _ in 0..found {
                Self::start_worker(self);
            }
            // Not notified in the meantime: this interval is often enough.
            self.pressed.wait_for(&mut state, self.bounds.patience / 2);
        }
    }

    /// The number of stragglers found.
    fn mark_stragglers(&self, state: &mut PageQueue) -> usize {
        let now = Instant::now();
        let mut room = self
            .bounds
            .stragglers_max
            .saturating_sub(state.overdue_workers().count());
        let mut found = 0;
        for running in &mut state.running {
            let late = now.duration_since(running.since) >= self.bounds.patience;
            if running.straggles || !late || room == 0 {
                continue;
            }
            running.straggles = true;
            room -= 1;
            found += 1;
            // Fails only for a thread that has ended, which this one has not.
            let _ = rustix::process::setpriority_process(running.thread, STRAGGLER_NICENESS);
            tracing::debug!(
                target: "pages",
                page = &*running.page,
                "the page takes longer than patience",
            );
        }
        state.replaced += found as u64;
        found
    }
}

#[cfg(test)]
mod tests;
