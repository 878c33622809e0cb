//! The HTTP listener: publish, subscribe, call a procedure, pages, the dashboard.
//!
//! A driver of our own reads and writes HTTP/1.1 ([`connection`](self)); requests and responses
//! apart from the wire are in `request` and `response`, so that another version of HTTP is
//! another driver beside it and nothing else. What the rooms behind do is [`rooms::Rooms`].

mod access;
mod admin;
mod assets;
mod call;
mod chunked;
mod chunks;
mod coded;
mod connection;
mod counters;
mod drain;
mod error;
mod exchange;
mod feed;
mod files;
mod first;
mod forms;
mod forwarded;
mod head;
mod http2;
mod limits;
mod live;
mod log;
mod multipart;
mod ntfy;
mod openapi;
pub mod operations;
mod origin;
mod output;
mod pages;
mod quick;
mod redirect;
mod request;
mod response;
pub mod rooms;
mod routes;
mod sending;
mod settings;
mod socket;
pub mod state;
mod stream;
mod topics;
mod upgrade;
mod websocket;
mod wire;

pub use settings::HttpSettings;

/// The parsers of what peers send, for fuzzing: any bytes are taken, none may panic.
#[doc(hidden)]
pub mod parsers {
    use super::{chunked, head, request};

    /// Parses a head, and what its target and query hold. Returns the head's length.
    pub fn head(bytes: &[u8]) -> Option<usize> {
        let mut storage = head::field_storage();
        let (head, length) = head::parse(bytes, &mut storage, 16 << 10).ok()??;
        let request = request::Request::from_head(&head, gatepost_message::Peer::Local).ok()?;
        let _ = (request.parameters(), request.field("host"));
        Some(length)
    }

    /// Decodes a chunked body that arrives in two pieces. Returns the body where it is whole.
    pub fn chunked(first: &[u8], second: &[u8], body_bytes_max: u64) -> Option<Vec<u8>> {
        let mut decoder = chunked::ChunkedDecoder::new(body_bytes_max);
        let mut body = Vec::new();
        decoder.decode(first, &mut body).ok()?;
        decoder.decode(second, &mut body).ok()?;
        decoder.is_done().then_some(body)
    }
}

use std::fmt::Write as _;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use gatepost_message::Peer;
use gatepost_pages::{AccessLog, AccessLogSettings, Pages, PagesSettings};
use gatepost_users::Door;
use tokio::sync::{mpsc, watch};

use crate::acceptor::{Accepted, Acceptor};
use crate::admission::Admission;
use crate::service;
use crate::stream::Stream;
use crate::workers::Workers;
use counters::Requests;
use drain::Drain;
use limits::Limits;
use operations::Operations;
use rooms::Rooms;

/// What all connections share.
pub struct HttpContext {
    settings: HttpSettings,
    rooms: Arc<dyn Rooms>,
    pages: Pages,
    access_log: AccessLog,
    admission: Admission,
    drain: Drain,
    limits: Limits,
    /// Whether the read buffer's requests may be answered from memory: nothing is asked of them
    /// that needs more than their path.
    quick: bool,
    requests: Requests,
    websocket: Option<WebSocketHandler>,
    door: Option<Door>,
    operations: Option<Arc<dyn Operations>>,
}

/// Speaks on where a WebSocket handshake at `/mqtt` has ended: the socket, the peer, and what
/// the client sent behind the handshake.
pub type WebSocketHandler =
    Arc<dyn Fn(Stream, Peer, Vec<u8>) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

impl HttpContext {
    /// Opens pages and access log.
    pub fn new(
        settings: HttpSettings,
        pages: &PagesSettings,
        access_log: &AccessLogSettings,
        rooms: Arc<dyn Rooms>,
    ) -> io::Result<Self> {
        let values: Arc<dyn gatepost_pages::Values> = rooms.clone();
        if let Some(name) = settings.malformed_header() {
            let detail = format!("listeners.http.headers.{name:?} cannot be sent as it stands");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, detail));
        }
        let limits = Limits::new(&settings);
        let admission = Admission::new(
            settings.connections_max,
            settings.connections_per_address_max,
        );
        let quick = settings.origins.is_empty()
            && settings.trusted_proxies.is_empty()
            && !settings.https_redirect
            && !limits.any();
        Ok(Self {
            limits,
            quick,
            settings,
            pages: Pages::new(pages.clone(), values),
            access_log: AccessLog::start(access_log)?,
            rooms,
            admission,
            drain: Drain::default(),
            requests: Requests::default(),
            websocket: None,
            door: None,
            operations: None,
        })
    }

    /// Hands WebSocket connections at `/mqtt` to `handler`; without one there is no `/mqtt`.
    #[must_use]
    pub fn with_websocket(mut self, handler: WebSocketHandler) -> Self {
        self.websocket = Some(handler);
        self
    }

    /// Asks for logins at `door`; without one nobody is asked.
    #[must_use]
    pub fn with_door(mut self, door: Door) -> Self {
        self.door = Some(door);
        self
    }

    /// What an operator can do by `/admin`; without it there is only looking.
    #[must_use]
    pub fn with_operations(mut self, operations: Arc<dyn Operations>) -> Self {
        self.operations = Some(operations);
        self
    }

    /// Rereads pages and reopens the access log, as a reload does.
    pub fn reload(&self) {
        self.pages.reload();
        self.access_log.reopen();
    }

    /// The connections that are open, but for those whose only request was answered at once.
    pub fn connections(&self) -> u32 {
        self.admission.open()
    }

    /// The requests answered since the start.
    pub fn requests(&self) -> u64 {
        self.requests.total()
    }

    fn push_metrics(&self, text: &mut String) {
        self.requests.push_metrics(text);
        let (dropped, failures) = self.access_log.losses();
        let rows = [
            (
                "gatepost_http_connections",
                "gauge",
                "HTTP connections that are open.",
                u64::from(self.connections()),
            ),
            (
                "gatepost_page_workers_replaced_total",
                "counter",
                "Page workers replaced: worn, failed, or behind.",
                self.pages.workers_replaced(),
            ),
            (
                "gatepost_page_threads_set_aside",
                "gauge",
                "Threads lost for good to pages whose values grew far over memory_max.",
                self.pages.threads_set_aside(),
            ),
            (
                "gatepost_access_log_lines_dropped_total",
                "counter",
                "Access log lines lost because the disk was too slow.",
                dropped,
            ),
            (
                "gatepost_access_log_write_failures_total",
                "counter",
                "Access log writes that failed.",
                failures,
            ),
        ];
        for (name, kind, help, value) in rows {
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "# HELP {name} {help}
# TYPE {name} {kind}
{name} {value}"
            );
        }
    }
}

/// Accepts connections until `shutdown` becomes true, then lets requests in progress finish.
pub async fn serve(
    acceptor: Acceptor,
    context: Arc<HttpContext>,
    workers: Workers,
    shutdown: watch::Receiver<bool>,
) {
    acceptor.defer_until_first_bytes();
    // Each connection holds a sender: when the last one is gone, the receiver knows.
    let (alive, mut all_gone) = mpsc::channel::<()>(1);
    let shared = Arc::clone(&context);
    let take = move |accepted: Accepted, peer: Peer| {
        let opening = first::answer(&shared, accepted, peer)?;
        let admitted = shared.admission.admit(peer);
        let (context, alive) = (Arc::clone(&shared), alive.clone());
        Some(async move {
            if let Err(error) = opening.serve(peer, context, admitted).await {
                tracing::debug!(target: "http", "{peer}: {error}");
            }
            drop(alive);
        })
    };
    service::on_every_worker("http", acceptor, &workers, shutdown.clone(), take).await;
    context.drain.begin();
    let _ = tokio::time::timeout(context.settings.drain_timeout.duration(), all_gone.recv()).await;
    // The server ends when nobody holds one any more.
    drop(shutdown);
}
