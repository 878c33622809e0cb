//! Requests of procedures to other servers over a connection: on one thread for all of them, so
//! that a waiting procedure occupies no judge thread.
//!
//! A request is a future with a deadline. Its outcome is stored in a [`PendingAnswer`], which calls
//! back when there is one, and cancels the request when it is dropped.
//!
//! Invariants:
//! - Every request ends: with an outcome, at its deadline, or with the thread.
//! - The connections to one server are bounded ([`Connections`]); further requests wait for one of
//!   them within their deadline, and requests to other servers are not affected.

use std::future::Future;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::AbortHandle;
use tokio::time::timeout_at;

use crate::procedure::Wake;

/// The number of threads for look-ups of server names, since the system's resolver blocks.
const NAME_THREADS_MAX: usize = 4;

/// Executes requests. Its thread starts with the first request and ends when this is dropped.
#[derive(Default)]
pub(crate) struct HostNetwork(OnceLock<Option<NetworkThread>>);

struct NetworkThread {
    runtime: Handle,
    /// The thread ends when this is dropped.
    _alive: oneshot::Sender<()>,
}

impl HostNetwork {
    /// Begins a request, which is cancelled at `deadline`.
    pub(crate) fn start<T: Send + 'static>(
        &self,
        deadline: Instant,
        request: impl Future<Output = T> + Send + 'static,
    ) -> PendingAnswer<T> {
        let answer = Arc::new(Mutex::new(PendingOutcome::Awaited(None)));
        let sender = OutcomeSender(Arc::clone(&answer));
        let task = self.thread().map(|thread| {
            let task = gatepost_tasks::spawn_on(&thread.runtime, async move {
                let outcome = timeout_at(deadline.into(), request).await;
                sender.send(outcome.ok());
            });
            task.abort_handle()
        });
        PendingAnswer { answer, task }
    }

    fn thread(&self) -> Option<&NetworkThread> {
        let thread = self.0.get_or_init(|| {
            let started = NetworkThread::start();
            if let Err(error) = &started {
                tracing::error!(target: "procedures", "no other server can be contacted: {error}");
            }
            started.ok()
        });
        thread.as_ref()
    }
}

impl NetworkThread {
    fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(NAME_THREADS_MAX)
            .build()?;
        let handle = runtime.handle().clone();
        let (alive, ended) = oneshot::channel::<()>();
        std::thread::Builder::new()
            .name("procedure-network".to_owned())
            .spawn(move || {
                // Ends with an error when the sender is dropped.
                let _ = runtime.block_on(ended);
                // A pending name look-up does not delay the end.
                runtime.shutdown_background();
            })?;
        Ok(Self {
            runtime: handle,
            _alive: alive,
        })
    }
}

/// An outcome, or the wait for it.
enum PendingOutcome<T> {
    Awaited(Option<Wake>),
    Ended(Option<T>),
}

/// Reports the outcome; if it is dropped before, reports that there is none.
struct OutcomeSender<T>(Arc<Mutex<PendingOutcome<T>>>);

impl<T> OutcomeSender<T> {
    fn send(&self, outcome: Option<T>) {
        let mut answer = self.0.lock();
        if let PendingOutcome::Awaited(wake) = &mut *answer {
            let wake = wake.take();
            *answer = PendingOutcome::Ended(outcome);
            drop(answer);
            if let Some(wake) = wake {
                wake();
            }
        }
    }
}

impl<T> Drop for OutcomeSender<T> {
    fn drop(&mut self) {
        self.send(None);
    }
}

/// A pending request. Dropping it cancels the request.
pub(crate) struct PendingAnswer<T> {
    answer: Arc<Mutex<PendingOutcome<T>>>,
    task: Option<AbortHandle>,
}

impl<T: Send + 'static> PendingAnswer<T> {
    /// Registers a function that is called when the request has ended.
    pub(crate) fn notifier(&self) -> Box<dyn FnOnce(Wake) + Send> {
        let answer = Arc::clone(&self.answer);
        Box::new(move |wake| {
            let mut answer = answer.lock();
            match &mut *answer {
                PendingOutcome::Awaited(waiting) => *waiting = Some(wake),
                PendingOutcome::Ended(_) => {
                    drop(answer);
                    wake();
                }
            }
        })
    }

    /// The outcome; `None` if there was none in time.
    pub(crate) fn take(&self) -> Option<T> {
        match &mut *self.answer.lock() {
            PendingOutcome::Awaited(_) => None,
            PendingOutcome::Ended(outcome) => outcome.take(),
        }
    }
}

impl<T> Drop for PendingAnswer<T> {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// The connections to one server at one time.
#[derive(Clone)]
pub(crate) struct Connections(Arc<Semaphore>);

impl Connections {
    pub(crate) fn new(max: usize) -> Self {
        Self(Arc::new(Semaphore::new(
            max.clamp(1, Semaphore::MAX_PERMITS),
        )))
    }

    /// Waits for permission to connect; the connection is counted until the permit is dropped.
    pub(crate) async fn permit(&self) -> io::Result<OwnedSemaphorePermit> {
        let permit = Arc::clone(&self.0).acquire_owned().await;
        permit.map_err(|_| io::ErrorKind::ConnectionAborted.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    const PATIENCE: Duration = Duration::from_mins(1);

    fn wait<T: Send + 'static>(answer: &PendingAnswer<T>) -> Option<T> {
        let (ended, end) = mpsc::channel();
        answer.notifier()(Box::new(move || ended.send(()).expect("awaited")));
        end.recv_timeout(PATIENCE).expect("every request ends");
        answer.take()
    }

    #[test]
    fn requests_end_with_an_outcome_at_their_deadline_and_with_the_thread() {
        let network = HostNetwork::default();
        let later = Instant::now() + PATIENCE;
        assert_eq!(wait(&network.start(later, async { 7 })), Some(7));
        let silent = network.start(Instant::now(), std::future::pending::<()>());
        assert_eq!(wait(&silent), None);
        let open = network.start(later, std::future::pending::<()>());
        drop(network);
        assert_eq!(wait(&open), None);
    }

    #[test]
    fn a_dropped_request_is_ended() {
        struct Ends(mpsc::Sender<()>);
        impl Drop for Ends {
            fn drop(&mut self) {
                let _ = self.0.send(());
            }
        }
        let network = HostNetwork::default();
        let (ended, end) = mpsc::channel();
        let ends = Ends(ended);
        let open = network.start(Instant::now() + PATIENCE, async move {
            let _ends = ends;
            std::future::pending::<()>().await;
        });
        drop(open);
        end.recv_timeout(PATIENCE).expect("the request is dropped");
    }
}
