//! The threads that serve connections.
//!
//! Two shapes, by setting, because it depends on the load which is faster (the figures are in
//! `docs/notes/broker-performance.md`):
//! - *sharded*: one single-threaded runtime per worker; a connection stays where it was put, its
//!   memory stays in one core's cache, and nothing is stolen or woken across cores;
//! - *work stealing*: one runtime whose threads share all connections.
//!
//! Connection futures are `Send` and know nothing of this. A socket belongs to the reactor of
//! the thread on which it is registered, so [`Workers::spawn`] takes a function that makes the
//! future on the worker: open sockets inside it.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};
use tokio::runtime::{Builder, Handle};
use tokio::sync::watch;

/// How connections are spread over threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// A runtime for each worker; connections stay where they were put.
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
    /// How connections are spread over them.
    pub spread: Spread,
}

/// The pool of worker threads. Cheap to clone; the threads end when [`Workers::stop`] is called
/// or the last handle is dropped.
#[derive(Clone, Debug)]
pub struct Workers {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    handles: Vec<Handle>,
    next: AtomicUsize,
    stop: watch::Sender<bool>,
}

impl Workers {
    /// Starts the threads.
    pub fn start(settings: &WorkersSettings) -> io::Result<Self> {
        let count = match settings.count {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            count => count,
        };
        let (stop, stopped) = watch::channel(false);
        let handles = match settings.spread {
            Spread::Sharded => (0..count)
                .map(|index| start_shard(index, stopped.clone()))
                .collect::<io::Result<_>>()?,
            Spread::WorkStealing => vec![start_shared(count, stopped)?],
        };
        Ok(Self {
            inner: Arc::new(Inner {
                handles,
                next: AtomicUsize::new(0),
                stop,
            }),
        })
    }

    /// No threads of its own: connections run on the runtime of the caller. For tests.
    pub fn current() -> Self {
        Self {
            inner: Arc::new(Inner {
                handles: vec![Handle::current()],
                next: AtomicUsize::new(0),
                stop: watch::channel(false).0,
            }),
        }
    }

    /// Runs the future that `make` makes, on the next worker in turn. `make` runs there too, so
    /// that sockets opened in it belong to that worker's reactor.
    pub fn spawn<M, F>(&self, make: M)
    where
        M: FnOnce() -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let turn = self.inner.next.fetch_add(1, Ordering::Relaxed);
        let handle = &self.inner.handles[turn % self.inner.handles.len()];
        handle.spawn(async move { make().await });
    }

    /// Ends the threads; what still runs on them is dropped.
    pub fn stop(&self) {
        self.inner.stop.send_replace(true);
    }
}

async fn until(mut stopped: watch::Receiver<bool>) {
    // An error means that the last handle is gone: time to end as well.
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
    use std::collections::HashSet;
    use std::sync::mpsc;

    fn threads_used(spread: Spread) -> HashSet<String> {
        let workers = Workers::start(&WorkersSettings { count: 2, spread }).expect("threads");
        let (sender, receiver) = mpsc::channel();
        for _ in 0..4 {
            let sender = sender.clone();
            workers.spawn(move || async move {
                tokio::task::yield_now().await;
                let name = std::thread::current().name().unwrap_or_default().to_owned();
                sender.send(name).expect("the test listens");
            });
        }
        drop(sender);
        receiver.iter().collect()
    }

    #[test]
    fn shards_take_turns() {
        let expected = ["worker-0", "worker-1"].map(str::to_owned);
        assert_eq!(threads_used(Spread::Sharded), HashSet::from(expected));
    }

    #[test]
    fn shared_threads_serve_all() {
        assert!(threads_used(Spread::WorkStealing).contains("worker"));
    }
}
