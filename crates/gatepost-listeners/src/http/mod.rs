//! The HTTP listener: publish, subscribe, call a procedure, pages, the dashboard.
//!
//! - `driver/` reads and writes HTTP/1.1 and HTTP/2. It turns bytes into a [`request`] and a
//!   [`response`] into bytes, and answers cached pages without either.
//! - `router.rs` finds the handler of a request: `api/` (topics, calls, administration, ntfy's
//!   shapes) or `site/` (pages, files, forms, the dashboard).
//! - Shared modules are beside them: identification of the client (`access.rs`, `origin.rs`,
//!   `forwarded.rs`), errors (`error.rs`), encoding of publications (`event_stream/`).
//!
//! Imports go one way: driver, router, handlers, shared modules. A handler knows no version of
//! HTTP, so that another version needs another driver and nothing else.

mod access;
mod api;
mod context;
mod counters;
mod drain;
mod driver;
mod email;
mod email_allowances;
mod email_settings;
mod error;
mod event_stream;
mod forwarded;
mod host;
mod https_redirect;
mod log;
mod login_cookie;
mod origin;
mod page_values;
mod parameters;
mod rate_limits;
mod request;
mod response;
mod router;
mod settings;
mod site;
mod stream_rights;
mod verdict;
mod websocket_handshake;

use std::sync::Arc;

use gatepost_message::Peer;
use gatepost_tasks::Task;
use tokio::sync::{mpsc, watch};

use crate::acceptor::{AcceptedSocket, Acceptor};
use crate::service;
use crate::workers::Workers;

pub use context::{HttpContext, HttpServices, UpgradedConnection, WebSocketHandler};
pub use settings::{ForwardingHeader, HttpSettings};

/// The parsers of peers' bytes, for fuzzing: they accept any bytes, and none may panic.
#[doc(hidden)]
pub mod parsers {
    use super::driver::{chunked, head};

    /// Parses a head, its target and its query. Returns the head's length.
    pub fn head(bytes: &[u8]) -> Option<usize> {
        let mut storage = head::field_storage();
        let (head, length) = head::parse(bytes, &mut storage, 16 << 10).ok()??;
        let request = head.to_request(gatepost_message::Peer::Local).ok()?;
        let _ = (request.query_values(), request.field("host"));
        Some(length)
    }

    /// Decodes a chunked body that arrives in two pieces. Returns the body if it is complete.
    pub fn chunked(first: &[u8], second: &[u8], body_bytes_max: u64) -> Option<Vec<u8>> {
        let mut decoder = chunked::ChunkedDecoder::new(body_bytes_max);
        let mut body = Vec::new();
        decoder.decode(first, &mut body).ok()?;
        decoder.decode(second, &mut body).ok()?;
        decoder.is_done().then_some(body)
    }
}

/// Accepts connections until `shutdown` becomes true, then lets requests in progress finish.
pub fn serve(
    acceptor: Acceptor,
    context: Arc<HttpContext>,
    workers: Workers,
    shutdown: watch::Receiver<bool>,
) -> Task {
    Box::pin(async move {
        acceptor.defer_until_first_bytes();
        // Each connection holds a sender, so the receiver is notified when the last connection has
        // ended.
        let (alive, mut all_gone) = mpsc::channel::<()>(1);
        let shared = Arc::clone(&context);
        let take = move |accepted: AcceptedSocket, peer: Peer| {
            let admitted = shared.limits.admission.admit_accepted(&accepted, peer)?;
            if admitted.is_err() && !accepted.is_from_proxy(peer) {
                // The connection's protocol is not known yet, so no reply is possible.
                return None;
            }
            let connection = driver::answer_at_once(&shared, accepted, peer)?;
            let (context, alive) = (Arc::clone(&shared), alive.clone());
            let serving: Task = Box::pin(async move {
                if let Err(error) = connection.serve(peer, context, admitted).await {
                    tracing::debug!(target: "http", "{peer}: {error}");
                }
                drop(alive);
            });
            Some(serving)
        };
        service::on_every_worker("http", acceptor, &workers, shutdown.clone(), Arc::new(take))
            .await;
        context.drain.begin();
        let _ =
            tokio::time::timeout(context.settings.drain_timeout.duration(), all_gone.recv()).await;
        // The server ends when the last one is dropped.
        drop(shutdown);
    })
}
