//! The loop that accepts a listener's connections and puts them on the workers.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use gatepost_message::Peer;
use tokio::sync::watch;

use crate::admission::{Admission, Admitted, Refusal};
use crate::stream::{Acceptor, Stream};
use crate::workers::Workers;

/// After an error of accept (no file descriptor left, most often) others may close meanwhile.
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(50);

/// A connection as it comes in.
pub(crate) struct Arrival {
    pub(crate) stream: Stream,
    pub(crate) peer: Peer,
    /// Its place among the listener's connections, or why it has none and is to be told so.
    pub(crate) admitted: Result<Admitted, Refusal>,
    /// Becomes true when the server wants to end.
    pub(crate) shutdown: watch::Receiver<bool>,
}

/// Accepts until `shutdown` becomes true. Connections are served by what `serve` makes of them;
/// each holds a clone of `shutdown` until it has ended.
pub(crate) async fn accept<S, F>(
    name: &'static str,
    acceptor: Acceptor,
    workers: Workers,
    admission: Admission,
    mut shutdown: watch::Receiver<bool>,
    serve: S,
) where
    S: Fn(Arrival) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let serve = Arc::new(serve);
    loop {
        let next = tokio::select! {
            biased;
            _ = shutdown.wait_for(|&down| down) => return,
            next = acceptor.accept() => next,
        };
        let (accepted, peer) = match next {
            Ok(next) => next,
            Err(error) => {
                tracing::warn!(target: "listeners", listener = name, "accept failed: {error}");
                tokio::time::sleep(PAUSE_AFTER_ERROR).await;
                continue;
            }
        };
        let admitted = admission.admit(peer);
        let (serve, shutdown) = (Arc::clone(&serve), shutdown.clone());
        let admission = admission.clone();
        workers.spawn(move || async move {
            match accepted.open(peer).await {
                Ok((stream, client)) => {
                    // A proxy's connections are counted for those who are behind it.
                    let admitted = if client.ip() == peer.ip() {
                        admitted
                    } else {
                        drop(admitted);
                        admission.admit(client)
                    };
                    let peer = client;
                    serve(Arrival {
                        stream,
                        peer,
                        admitted,
                        shutdown,
                    })
                    .await;
                }
                Err(error) => {
                    tracing::debug!(target: "listeners", listener = name, %peer, "not opened: {error}");
                }
            }
        });
    }
}
