//! The threads that serve connections.
//!
//! There are two modes, selected by a setting, because the load determines which one is faster (the
//! figures are in `docs/notes/broker-performance.md`):
//! - *sharded*: one single-threaded runtime per worker; a connection stays on its worker, its
//!   memory stays in one core's cache, and nothing is stolen or woken across cores;
//! - *work stealing*: one runtime whose threads share all connections.
//!
//! Connection futures are `Send` and work in both modes. A socket belongs to the reactor of the
//! thread on which it is registered, so it is registered inside the future that serves it, on the
//! thread that runs this future.
//!
//! A worker serves the connections that it accepts. The kernel spreads connections well only when
//! there are many, so a worker that has clearly more of them than another passes the new one on
//! ([`Workers::serve`]).

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gatepost_tasks::Task;
use serde::{Deserialize, Serialize};
use tokio::runtime::{Builder, Handle};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A worker with this many connections more than another one passes the next connection to it.
const UNEVEN_FROM: usize = 2;

/// The distribution of connections over threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConnectionDistribution {
    /// A runtime for each worker; a connection stays on its worker.
    #[default]
    Sharded,
    /// One runtime whose threads take work from each other.
    WorkStealing,
}

/// The `[workers]` table of the config.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorkersSettings {
    /// Threads for connections; 0 for one per core.
    pub count: usize,
    /// The distribution of connections over the workers.
    pub spread: ConnectionDistribution,
}

/// The pool of worker threads. Cheap to clone; the threads end when [`Workers::stop`] is called
/// or the last handle is dropped.
#[derive(Clone, Debug)]
pub struct Workers {
    inner: Arc<WorkerPool>,
}

#[derive(Debug)]
struct WorkerPool {
    handles: Vec<Handle>,
    loads: Vec<Arc<WorkerLoad>>,
    /// The worker that is compared next.
    next: AtomicUsize,
    stop: watch::Sender<bool>,
}

/// The connections that a worker serves. Alone in its cache line: each worker writes its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct WorkerLoad(AtomicUsize);

/// A connection's share of its worker's load.
struct LoadShare(Arc<WorkerLoad>);

impl LoadShare {
    fn of(load: &Arc<WorkerLoad>) -> Self {
        load.0.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(load))
    }
}

impl Drop for LoadShare {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl WorkersSettings {
    fn threads(&self) -> usize {
        match self.count {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            count => count,
        }
    }

    /// The number of sockets of one address from which the workers accept: one for each runtime.
    pub fn sockets_per_address(&self) -> usize {
        match self.spread {
            ConnectionDistribution::Sharded => self.threads(),
            ConnectionDistribution::WorkStealing => 1,
        }
    }
}

impl Workers {
    /// Starts the threads.
    pub fn start(settings: &WorkersSettings) -> io::Result<Self> {
        let count = settings.threads();
        let (stop, stopped) = watch::channel(false);
        let handles = match settings.spread {
            ConnectionDistribution::Sharded => (0..count)
                .map(|index| start_shard(index, stopped.clone()))
                .collect::<io::Result<_>>()?,
            ConnectionDistribution::WorkStealing => vec![start_shared(count, stopped)?],
        };
        Ok(Self::of(handles, stop))
    }

    /// No threads of its own: connections run on the runtime of the caller. For tests.
    pub fn current() -> Self {
        Self::of(vec![Handle::current()], watch::channel(false).0)
    }

    fn of(handles: Vec<Handle>, stop: watch::Sender<bool>) -> Self {
        Self {
            inner: Arc::new(WorkerPool {
                loads: handles.iter().map(|_| Arc::default()).collect(),
                handles,
                next: AtomicUsize::new(0),
                stop,
            }),
        }
    }

    /// The number of accepting workers: one for each runtime.
    pub(crate) fn count(&self) -> usize {
        self.inner.handles.len()
    }

    /// Runs the future that `make` makes, on this worker. `make` runs there too, so that sockets
    /// opened in it belong to that worker's reactor.
    pub(crate) fn spawn_on<M, F>(&self, worker: usize, make: M) -> JoinHandle<()>
    where
        M: FnOnce() -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let handles = &self.inner.handles;
        let handle = &handles[worker % handles.len()];
        gatepost_tasks::spawn_on(handle, async move { make().await })
    }

    /// Serves a connection that the worker `here` has accepted: there, or by one that has
    /// clearly less to do.
    pub(crate) fn serve(&self, here: usize, connection: Task) {
        let worker = self.place(here);
        let share = LoadShare::of(&self.inner.loads[worker]);
        self.inner.handles[worker].spawn(async move {
            connection.await;
            drop(share);
        });
    }

    /// The better of `here` and one other, which is another one each time: as even as comparing
    /// with all of them, at a cost that does not grow with them.
    fn place(&self, here: usize) -> usize {
        let loads = &self.inner.loads;
        let here = here % loads.len();
        if loads.len() == 1 {
            return here;
        }
        let load = |worker: usize| loads[worker].0.load(Ordering::Relaxed);
        let turn = self.inner.next.fetch_add(1, Ordering::Relaxed);
        let other = (here + 1 + turn % (loads.len() - 1)) % loads.len();
        if load(here) >= load(other) + UNEVEN_FROM {
            other
        } else {
            here
        }
    }

    /// Whether each worker runs a new task before `within` is over. A worker that is stuck in one
    /// task serves none of its connections.
    pub async fn all_answer(&self, within: Duration) -> bool {
        let answers: Vec<_> = self
            .inner
            .handles
            .iter()
            .map(|handle| handle.spawn(std::future::ready(())))
            .collect();
        let all = async {
            for answer in answers {
                // A runtime that has ended cancels its tasks.
                if answer.await.is_err() {
                    return false;
                }
            }
            true
        };
        tokio::time::timeout(within, all).await.unwrap_or(false)
    }

    /// Ends the threads; tasks that still run on them are dropped.
    pub fn stop(&self) {
        self.inner.stop.send_replace(true);
    }
}

async fn until(mut stopped: watch::Receiver<bool>) {
    // An error means that the last handle was dropped, so this thread ends too.
    let _ = stopped.wait_for(|&stop| stop).await;
}

fn start_shard(index: usize, stopped: watch::Receiver<bool>) -> io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    std::thread::Builder::new()
        .name(format!("worker-{index}"))
        .spawn(move || runtime.block_on(until(stopped)))?;
    Ok(handle)
}

fn start_shared(count: usize, stopped: watch::Receiver<bool>) -> io::Result<Handle> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(count)
        .thread_name("worker")
        .enable_all()
        .build()?;
    let handle = runtime.handle().clone();
    std::thread::Builder::new()
        .name("workers".to_owned())
        .spawn(move || {
            runtime.block_on(until(stopped));
            runtime.shutdown_background();
        })?;
    Ok(handle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// The threads that serve connections which one worker accepts and which do not end.
    fn serving_threads(spread: ConnectionDistribution, connections: usize) -> Vec<String> {
        let workers = Workers::start(&WorkersSettings { count: 2, spread }).expect("threads");
        let (sender, receiver) = mpsc::channel();
        for _ in 0..connections {
            let sender = sender.clone();
            let connection = async move {
                let name = std::thread::current().name().unwrap_or_default().to_owned();
                sender.send(name).expect("the test listens");
                std::future::pending::<()>().await;
            };
            workers.serve(0, Box::pin(connection));
        }
        receiver.iter().take(connections).collect()
    }

    #[test]
    fn connections_accepted_by_one_worker_are_served_by_all() {
        let threads = serving_threads(ConnectionDistribution::Sharded, 11);
        let first = threads.iter().filter(|name| *name == "worker-0").count();
        assert_eq!(first, 6, "{threads:?}");
    }

    #[test]
    fn an_ended_task_no_longer_counts_as_load() {
        let workers = Workers::start(&WorkersSettings::default()).expect("threads");
        let (sender, receiver) = mpsc::channel::<()>();
        for _ in 0..10 {
            let sender = sender.clone();
            workers.serve(0, Box::pin(async move { drop(sender) }));
        }
        drop(sender);
        assert!(receiver.iter().next().is_none());
        let load = || -> usize {
            let loads = workers.inner.loads.iter();
            loads.map(|load| load.0.load(Ordering::Relaxed)).sum()
        };
        while load() > 0 {
            std::thread::yield_now();
        }
    }

    #[tokio::test]
    async fn a_worker_that_is_stuck_does_not_answer() {
        const SHORT: Duration = Duration::from_millis(50);
        const LONG: Duration = Duration::from_mins(1);
        let spread = ConnectionDistribution::Sharded;
        let workers = Workers::start(&WorkersSettings { count: 2, spread }).expect("threads");
        assert!(workers.all_answer(LONG).await);
        let (release, released) = mpsc::channel::<()>();
        workers.spawn_on(1, || async move {
            let _ = released.recv();
        });
        assert!(!workers.all_answer(SHORT).await);
        drop(release);
        assert!(workers.all_answer(LONG).await);
        workers.stop();
    }

    #[test]
    fn shared_threads_serve_all() {
        let threads = serving_threads(ConnectionDistribution::WorkStealing, 2);
        assert_eq!(threads, ["worker", "worker"]);
    }
}
