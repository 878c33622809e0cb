//! State that all connections of the listener share.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use gatepost_alarms::Alarms;
use gatepost_broker::Broker;
use gatepost_gateway::Gateway;
use gatepost_message::Peer;
use gatepost_operations::Operations;
use gatepost_pages::{AccessLog, AccessLogSettings, Pages, PagesSettings};
use gatepost_sinks::Sinks;
use gatepost_store::Store;
use gatepost_users::{Identity, ListenerAuth};
use tokio::time::Instant;

use super::counters::RequestCounters;
use super::drain::Drain;
use super::email_allowances::EmailAllowances;
use super::page_values::PageValues;
use super::rate_limits::RateLimits;
use super::settings::HttpSettings;
use crate::listener_context::{ClientLimits, ListenerContext, SharedLimits};
use crate::minimum_rate::MinimumRate;
use crate::monitoring::prometheus::{MetricsPage, counter, gauge};
use crate::monitoring::{StatsKeeper, metrics};
use crate::stream::Stream;

/// The parts of the server that handlers use.
#[derive(Clone)]
pub struct HttpServices {
    /// Judges and publishes messages.
    pub gateway: Gateway,
    /// Delivers publications to readers.
    pub broker: Broker,
    /// The store, whose figures are part of the metrics.
    pub store: Store,
    /// Makes the snapshot that the dashboard starts from.
    pub stats: Arc<StatsKeeper>,
    /// The operations of `/admin`; without it `/admin` only reads.
    pub operations: Option<Operations>,
    /// The sinks, if there are any.
    pub sinks: Option<Sinks>,
    /// The alarms, if there are any.
    pub alarms: Option<Alarms>,
}

/// State that all connections share.
pub struct HttpContext {
    pub(super) settings: HttpSettings,
    pub(super) services: HttpServices,
    pub(super) pages: Pages,
    pub(super) access_log: AccessLog,
    pub(super) limits: ClientLimits,
    pub(super) drain: Drain,
    pub(super) rate_limits: RateLimits,
    pub(super) email_allowances: EmailAllowances,
    /// Whether the read buffer's requests may be answered from memory: no setting requires more
    /// than their path.
    pub(super) answers_from_memory: bool,
    pub(super) requests: RequestCounters,
    pub(super) websocket: Option<WebSocketHandler>,
    pub(super) auth: Option<ListenerAuth>,
}

/// Serves a connection whose WebSocket handshake at `/mqtt` is done.
pub type WebSocketHandler =
    Arc<dyn Fn(UpgradedConnection) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// A connection that has become a WebSocket.
pub struct UpgradedConnection {
    /// The socket.
    pub stream: Stream,
    /// The client; behind a trusted proxy, the one that the proxy names.
    pub peer: Peer,
    /// Whether the handshake certainly came from a program on this machine.
    pub is_local: bool,
    /// The user of the browser's session, if the handshake came with the cookie of a login.
    pub identity: Option<Identity>,
    /// The user that the client's certificate names; `None` for the clients of a trusted proxy,
    /// since the connection's certificate is the proxy's.
    pub certified: Option<String>,
    /// The bytes that the client sent after the handshake.
    pub received: Vec<u8>,
}

impl HttpContext {
    /// Opens pages and access log.
    pub fn new(
        settings: HttpSettings,
        pages: &PagesSettings,
        access_log: &AccessLogSettings,
        services: HttpServices,
        shared: &SharedLimits,
    ) -> io::Result<Self> {
        if let Some(name) = settings.malformed_header() {
            let detail = format!(
                "listeners.http.headers.{name:?} cannot be set: its name or value is malformed, \
                 or the server itself writes it"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, detail));
        }
        let values = PageValues::new(services.gateway.clone(), services.broker.clone());
        let rate_limits = RateLimits::new(&settings);
        let limits = ClientLimits::new(
            settings.connections_max,
            settings.connections_per_address_max,
            shared,
        );
        let answers_from_memory = settings.origins.is_empty()
            && settings.trusted_proxies.is_empty()
            && !settings.https_redirect
            && !rate_limits.any();
        Ok(Self {
            rate_limits,
            email_allowances: EmailAllowances::default(),
            answers_from_memory,
            settings,
            pages: Pages::new(pages.clone(), Arc::new(values)),
            access_log: AccessLog::start(access_log)?,
            services,
            limits,
            drain: Drain::default(),
            requests: RequestCounters::default(),
            websocket: None,
            auth: None,
        })
    }

    /// Passes WebSocket connections at `/mqtt` to `handler`; without a handler the path does not
    /// exist.
    #[must_use]
    pub fn with_websocket(mut self, handler: WebSocketHandler) -> Self {
        self.websocket = Some(handler);
        self
    }

    /// Requires logins as `auth` demands; without it no request needs one.
    #[must_use]
    pub fn with_auth(mut self, auth: ListenerAuth) -> Self {
        self.auth = Some(auth);
        self
    }

    /// The operations of `/admin`, if there are any.
    pub const fn operations(&self) -> Option<&Operations> {
        self.services.operations.as_ref()
    }

    /// The minimum rate of a reader of a response that begins now.
    pub(super) fn sending_rate(&self) -> MinimumRate {
        let settings = &self.settings;
        MinimumRate::new(
            Instant::now(),
            settings.write_timeout.duration(),
            settings.write_rate_min.bytes(),
        )
    }

    /// Rereads pages and reopens the access log, as a reload does.
    pub fn reload(&self) {
        self.pages.reload();
        self.access_log.reopen();
    }

    /// The number of open connections, without those whose only request was answered immediately.
    pub fn connections(&self) -> u32 {
        self.limits.admission.open()
    }

    /// The requests answered since the start.
    pub fn requests(&self) -> u64 {
        self.requests.total()
    }

    /// Appends the metrics of the gateway and of this listener in Prometheus' text format.
    pub(super) fn push_metrics(&self, text: &mut String) {
        let HttpServices {
            gateway,
            broker,
            store,
            ..
        } = &self.services;
        let users = self.auth.as_ref().map(ListenerAuth::users);
        metrics::push(text, gateway, broker, store, users);
        self.requests.push_metrics(text);
        if let Some(bans) = self.limits.admission.bans() {
            metrics::push_bans(text, bans.totals());
        }
        if let Some(sinks) = &self.services.sinks {
            metrics::push_sinks(text, &sinks.status());
        }
        if let Some(alarms) = &self.services.alarms {
            metrics::push_alarms(text, &alarms.status(0));
        }
        let (dropped, failures) = self.access_log.losses();
        let mut page = MetricsPage(text);
        page.value(
            counter(
                "gatepost_series_samples_dropped_total",
                "Samples of figures over time that could not be stored.",
            ),
            self.services.stats.series_dropped(),
        );
        page.value(
            gauge(
                "gatepost_http_connections",
                "HTTP connections that are open.",
            ),
            self.connections(),
        );
        page.value(
            counter(
                "gatepost_page_workers_replaced_total",
                "Page workers that were replaced because they were worn out, failed or took too \
                    long.",
            ),
            self.pages.workers_replaced(),
        );
        page.value(
            gauge(
                "gatepost_page_threads_parked",
                "Threads parked for good because the values of their pages grew far over \
                    memory_max.",
            ),
            self.pages.parked_threads(),
        );
        page.value(
            counter(
                "gatepost_access_log_lines_dropped_total",
                "Access log lines lost because the disk was too slow.",
            ),
            dropped,
        );
        page.value(
            counter(
                "gatepost_access_log_write_failures_total",
                "Access log writes that failed.",
            ),
            failures,
        );
    }
}

impl ListenerContext for HttpContext {
    fn limits(&self) -> &ClientLimits {
        &self.limits
    }
}
