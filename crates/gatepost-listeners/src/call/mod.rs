//! The call listener: a program asks a named procedure about a message, in lines of text.
//!
//! ```text
//! C: CALL/1 /spamcheck        the procedure or scope
//! C: size: 1834               fields, see `request`
//! C:                          an empty line ends the request
//! S: NEED body                only where the procedure reads it
//! C: (1834 bytes)
//! S: DONE reject              the verdict
//! S: score: 15.3/5.0          fields, see `answer`
//! S: reason: spam, ...
//! S:                          an empty line ends the answer
//! ```
//!
//! A connection carries any number of calls, one after another, and a client may send the next
//! before it has read the last answer. The calls of one read are answered with one write. `FAIL` in
//! place of `DONE` means that the call could not be made. After a malformed request, whose end is
//! unknown, the connection is closed.
//!
//! Most connections carry a single call, made by a client that was started for it (`immediate.rs`).
//! Programs that keep running keep their connection (`connection.rs`).

use std::sync::Arc;

use gatepost_gateway::Gateway;
use gatepost_message::Peer;
use gatepost_tasks::Task;
use tokio::sync::watch;

use crate::acceptor::{AcceptedSocket, Acceptor};
use crate::listener_context::{ClientLimits, ListenerContext, SharedLimits};
use crate::service;
use crate::workers::Workers;

mod answer;
mod calling;
mod connection;
mod immediate;
mod request;
mod settings;

pub use request::{CallRequest, RequestError, RequestReader};
pub use settings::CallSettings;

/// State that all connections share.
pub struct CallContext {
    settings: CallSettings,
    gateway: Gateway,
    limits: ClientLimits,
}

impl CallContext {
    /// A context for one or more sockets.
    pub fn new(settings: CallSettings, gateway: Gateway, shared: &SharedLimits) -> Self {
        Self {
            limits: ClientLimits::new(
                settings.connections_max,
                settings.connections_per_address_max,
                shared,
            ),
            settings,
            gateway,
        }
    }
}

impl ListenerContext for CallContext {
    fn limits(&self) -> &ClientLimits {
        &self.limits
    }
}

/// Serves connections until `shutdown` becomes true; then each ends with its present call.
pub fn serve(
    acceptor: Acceptor,
    context: Arc<CallContext>,
    workers: Workers,
    shutdown: watch::Receiver<bool>,
) -> Task {
    Box::pin(async move {
        acceptor.defer_until_first_bytes();
        let down = shutdown.clone();
        let take = move |accepted: AcceptedSocket, peer: Peer| {
            let continuation = immediate::answer(&context, accepted, peer)?;
            let serving: Task =
                Box::pin(continuation.serve(Arc::clone(&context), shutdown.clone()));
            Some(serving)
        };
        service::on_every_worker("call", acceptor, &workers, down, Arc::new(take)).await;
    })
}
