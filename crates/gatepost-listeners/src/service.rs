//! The loops that accept a listener's connections: one on every worker.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use gatepost_message::Peer;
use gatepost_tasks::Task;
use tokio::sync::watch;

use crate::acceptor::{AcceptedSocket, Acceptor, RegisteredListener};
use crate::admission::{Admission, AdmissionRefusal, ConnectionPermit};
use crate::log_throttle::LogThrottle;
use crate::stream::Stream;
use crate::workers::Workers;

/// The pause after an error of accept, usually a lack of file descriptors, in which other
/// connections may close.
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(50);

/// The number of connections that are accepted before open connections get their turn.
const ACCEPTED_IN_TURN: u32 = 16;

/// A new connection.
pub(crate) struct NewConnection {
    pub(crate) stream: Stream,
    pub(crate) peer: Peer,
    /// Its place among the listener's connections, or the refusal that the client receives.
    pub(crate) admitted: Result<ConnectionPermit, AdmissionRefusal>,
    /// Becomes true when the server shuts down.
    pub(crate) shutdown: watch::Receiver<bool>,
}

/// Handles an accepted connection at once, or returns the task that serves it. Not generic, so that
/// all listeners share one loop.
pub(crate) type TakeConnection = dyn Fn(AcceptedSocket, Peer) -> Option<Task> + Send + Sync;

/// Accepts until `shutdown` becomes true. `serve` returns the future that serves a connection; each
/// holds a clone of `shutdown` until it has ended.
pub(crate) async fn accept<S, F>(
    name: &'static str,
    acceptor: Acceptor,
    workers: Workers,
    admission: Admission,
    shutdown: watch::Receiver<bool>,
    serve: S,
) where
    S: Fn(NewConnection) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let serve = Arc::new(serve);
    let down = shutdown.clone();
    let take = move |accepted: AcceptedSocket, peer| {
        let admitted = admission.admit_accepted(&accepted, peer)?;
        let (serve, shutdown) = (Arc::clone(&serve), shutdown.clone());
        let admission = admission.clone();
        let serving: Task = Box::pin(async move {
            match accepted.open(peer).await {
                Ok((stream, client)) => {
                    let admitted = admission.admit_proxied(admitted, peer, client);
                    serve(NewConnection {
                        stream,
                        peer: client,
                        admitted,
                        shutdown,
                    })
                    .await;
                }
                Err(error) => {
                    tracing::debug!(
                        target: "listeners",
                        listener = name,
                        %peer,
                        "not opened: {error}",
                    );
                }
            }
        });
        Some(serving)
    };
    on_every_worker(name, acceptor, &workers, down, Arc::new(take)).await;
}

/// Makes every worker accept until `shutdown` becomes true. `take` either handles a connection at
/// once, or returns the future that serves it, which opens it on the worker where it runs. A caller
/// that waits for connections to end must keep `workers` until then.
pub(crate) async fn on_every_worker(
    name: &'static str,
    acceptor: Acceptor,
    workers: &Workers,
    shutdown: watch::Receiver<bool>,
    take: Arc<TakeConnection>,
) {
    let sockets = acceptor.share(workers.count());
    let loops: Vec<_> = sockets
        .into_iter()
        .enumerate()
        .map(|(worker, socket)| {
            let (everybody, take) = (workers.clone(), Arc::clone(&take));
            let shutdown = shutdown.clone();
            workers.spawn_on(worker, move || async move {
                match socket.listen() {
                    Ok(socket) => {
                        accept_here(name, &socket, worker, &everybody, shutdown, &*take).await;
                    }
                    Err(error) => {
                        tracing::error!(
                            target: "listeners",
                            listener = name,
                            "cannot accept: {error}",
                        );
                    }
                }
            })
        })
        .collect();
    for ended in loops {
        // An error means that the worker, and its loop, have ended already.
        let _ = ended.await;
    }
}

async fn accept_here(
    name: &'static str,
    socket: &RegisteredListener,
    worker: usize,
    workers: &Workers,
    mut shutdown: watch::Receiver<bool>,
    take: &TakeConnection,
) {
    let mut down = pin!(shutdown.wait_for(|&down| down));
    let mut taken = 0_u32;
    let failures = LogThrottle::default();
    loop {
        taken += 1;
        if taken.is_multiple_of(ACCEPTED_IN_TURN) {
            tokio::task::yield_now().await;
        }
        let next = tokio::select! {
            biased;
            _ = &mut down => return,
            next = socket.accept() => next,
        };
        match next {
            Ok((accepted, peer)) => {
                if let Some(serving) = take(accepted, peer) {
                    workers.serve(worker, serving);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                if let Some(left_out) = failures.permit() {
                    tracing::warn!(
                        target: "listeners",
                        listener = name,
                        left_out,
                        "accept failed: {error}",
                    );
                }
                tokio::time::sleep(PAUSE_AFTER_ERROR).await;
            }
        }
    }
}
