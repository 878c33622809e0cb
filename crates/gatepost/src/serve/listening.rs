//! The listeners: every configured address is opened before the first is served, so that a start
//! opens all addresses or none.

use std::sync::Arc;
use std::time::Duration;

use gatepost_listeners::acceptor::Acceptor;
use gatepost_listeners::call::{self, CallContext};
use gatepost_listeners::http::{
    self, HttpContext, HttpServices, UpgradedConnection, WebSocketHandler,
};
use gatepost_listeners::listener_context::{ListenerContext, SharedLimits};
use gatepost_listeners::milter::{self, MilterContext};
use gatepost_listeners::monitoring::OpenAddress;
use gatepost_listeners::mqtt::{self, MqttContext, WebSocketStart};
use gatepost_listeners::pop3::{self, Pop3Context};
use gatepost_listeners::smtp::{self, ReleaseRoutes, SmtpContext};
use gatepost_listeners::spamd::{self, SpamdContext};
use gatepost_listeners::workers::Workers;
use gatepost_message::Listener;
use gatepost_operations::Operations;
use gatepost_settings::Bind;
use gatepost_tasks::Task;
use gatepost_users::Users;
use tokio::sync::watch;

use super::binding::BoundListener;
use super::encryption::Encryption;
use super::error::StartError;
use super::listener_auth::ListenerAuths;
use crate::config::Config;

/// The time within which connections must finish when the server ends.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(20);

/// All open listeners.
pub(super) struct OpenListeners {
    http: Arc<HttpContext>,
    encryption: Encryption,
    addresses: Vec<ListenerAddress>,
    shutdown: watch::Sender<bool>,
}

/// The address of a listener.
pub(super) struct ListenerAddress {
    listener: Listener,
    speaks_tls: bool,
    bind: Bind,
}

impl std::fmt::Display for ListenerAddress {
    /// A line for the program that started the server: `mqtt/tls 127.0.0.1:8883`.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tls = if self.speaks_tls { "/tls" } else { "" };
        let name = format!("{}{tls}", self.listener);
        write!(formatter, "{name:<10} {}", self.bind)
    }
}

/// One protocol: the function that serves a socket, and the number of connections.
struct Protocol {
    serve: Box<dyn Fn(Acceptor, Workers, watch::Receiver<bool>) -> Task>,
    connections: Arc<dyn Fn() -> u64 + Send + Sync>,
}

impl Protocol {
    fn new<C>(
        context: &Arc<C>,
        serve: fn(Acceptor, Arc<C>, Workers, watch::Receiver<bool>) -> Task,
    ) -> Self
    where
        C: ListenerContext + Send + Sync + 'static,
    {
        let (served, counted) = (context.clone(), context.clone());
        Self {
            serve: Box::new(move |acceptor, workers, down| {
                serve(acceptor, served.clone(), workers, down)
            }),
            connections: Arc::new(move || counted.limits().admission.open().into()),
        }
    }
}

/// The state of each protocol's listener. Protocols without an address are never started.
struct Protocols {
    smtp: Protocol,
    lmtp: Protocol,
    milter: Protocol,
    spamd: Protocol,
    call: Protocol,
    mqtt: Protocol,
    pop3: Protocol,
    http: Protocol,
    http_context: Arc<HttpContext>,
}

impl Protocols {
    fn new(
        config: &Config,
        encryption: &Encryption,
        mut services: HttpServices,
        auths: &ListenerAuths,
        limits: &SharedLimits,
    ) -> Result<Self, StartError> {
        let settings = &config.listeners;
        let gateway = services.gateway.clone();
        let tls = |listener| encryption.of(listener).cloned();
        let smtp = SmtpContext::new(settings.smtp.clone(), &hostname(), gateway.clone(), limits)
            .with_auth(auths.smtp())
            .with_anonymous(auths.mail(Listener::Smtp))
            .with_store(&services.store)
            .with_tls(tls(Listener::Smtp));
        let smtp = Arc::new(smtp);
        let lmtp = SmtpContext::lmtp(settings.lmtp.clone(), &hostname(), gateway.clone(), limits)
            .with_anonymous(auths.mail(Listener::Lmtp))
            .with_store(&services.store)
            .with_tls(tls(Listener::Lmtp));
        let lmtp = Arc::new(lmtp);
        let routes = Arc::new(ReleaseRoutes {
            smtp: smtp.clone(),
            lmtp: lmtp.clone(),
        });
        if let Some(operations) = &mut services.operations {
            operations.mail_routes = Some(routes.clone());
        }
        let milter = settings.milter.clone();
        let milter = MilterContext::new(milter, &hostname(), gateway.clone(), limits);
        let spamd = SpamdContext::new(settings.spamd.clone(), gateway.clone(), limits);
        let call = CallContext::new(settings.call.clone(), gateway.clone(), limits);
        let pop3 = Pop3Context::new(
            settings.pop3.clone(),
            services.store.clone(),
            auths.pop3(),
            tls(Listener::Pop3),
            limits,
        );
        let pop3 = pop3.with_routes(routes);
        let broker = services.broker.clone();
        let mqtt = MqttContext::new(settings.mqtt.clone(), broker, Some(gateway), limits);
        let mqtt = Arc::new(mqtt.with_auths(auths.mqtt(), auths.mqtt_over_websocket()));
        let http = open_http(config, services, limits, websocket_to(&mqtt), auths.http())?;
        Ok(Self {
            smtp: Protocol::new(&smtp, smtp::serve),
            lmtp: Protocol::new(&lmtp, smtp::serve),
            milter: Protocol::new(&Arc::new(milter), milter::serve),
            spamd: Protocol::new(&Arc::new(spamd), spamd::serve),
            call: Protocol::new(&Arc::new(call), call::serve),
            mqtt: Protocol::new(&mqtt, mqtt::serve),
            pop3: Protocol::new(&Arc::new(pop3), pop3::serve),
            http: Protocol::new(&http, http::serve),
            http_context: http,
        })
    }

    const fn of(&self, listener: Listener) -> &Protocol {
        match listener {
            Listener::Smtp => &self.smtp,
            Listener::Lmtp => &self.lmtp,
            Listener::Milter => &self.milter,
            Listener::Spamd => &self.spamd,
            Listener::Call => &self.call,
            Listener::Mqtt => &self.mqtt,
            Listener::Http => &self.http,
            Listener::Pop3 => &self.pop3,
        }
    }
}

impl OpenListeners {
    pub(super) fn open(
        config: &Config,
        encryption: Encryption,
        bound: Vec<BoundListener>,
        services: HttpServices,
        users: &Users,
        limits: &SharedLimits,
        workers: &Workers,
    ) -> Result<Self, StartError> {
        encryption.follow();
        let stats = services.stats.clone();
        let auths = ListenerAuths::new(config, users);
        let protocols = Protocols::new(config, &encryption, services, &auths, limits)?;
        let (shutdown, down) = watch::channel(false);
        let mut addresses = Vec::new();
        for bound in bound {
            let mut acceptor = bound.acceptor;
            if let Some(bans) = &limits.bans {
                acceptor = acceptor.with_bans(bans.clone());
            }
            let protocol = protocols.of(bound.listener);
            let bind = acceptor.local().clone();
            let counted = protocol.connections.clone();
            stats.add_address(OpenAddress {
                listener: bound.listener,
                bind: bind.to_string(),
                connections: Box::new(move || counted()),
            });
            addresses.push(ListenerAddress {
                listener: bound.listener,
                speaks_tls: bound.speaks_tls,
                bind,
            });
            gatepost_tasks::spawn((protocol.serve)(acceptor, workers.clone(), down.clone()));
        }
        Ok(Self {
            http: protocols.http_context,
            encryption,
            addresses,
            shutdown,
        })
    }

    /// Each open address.
    pub(super) fn addresses(&self) -> &[ListenerAddress] {
        &self.addresses
    }

    /// The URL of the dashboard for a browser.
    pub(super) fn dashboard(&self) -> Option<String> {
        self.addresses
            .iter()
            .find_map(|address| match (address.listener, &address.bind) {
                (Listener::Http, Bind::Tcp(at)) => {
                    let scheme = if address.speaks_tls { "https" } else { "http" };
                    Some(format!("{scheme}://{at}/"))
                }
                _ => None,
            })
    }

    /// The operations of administrators, with the routes of the mail listeners.
    pub(super) fn operations(&self) -> Option<&Operations> {
        self.http.operations()
    }

    pub(super) fn reload(&self) {
        self.http.reload();
        self.encryption.reload();
    }

    /// Stops accepting connections.
    pub(super) fn close(&self) {
        self.shutdown.send_replace(true);
    }

    /// Resolves when every connection has finished its work: each holds a receiver of the shutdown
    /// until then.
    pub(super) async fn closed(self) {
        if tokio::time::timeout(DRAIN_TIME_MAX, self.shutdown.closed())
            .await
            .is_err()
        {
            tracing::warn!("some connections did not end in time and are closed");
        }
    }
}

/// Passes connections to MQTT after the HTTP listener has completed their WebSocket handshake.
fn websocket_to(mqtt: &Arc<MqttContext>) -> WebSocketHandler {
    let mqtt = mqtt.clone();
    Arc::new(move |upgraded: UpgradedConnection| {
        let mqtt = mqtt.clone();
        Box::pin(async move {
            let start = WebSocketStart {
                is_local: upgraded.is_local,
                identity: upgraded.identity.as_ref(),
                certified: upgraded.certified.as_deref(),
                received: &upgraded.received,
            };
            mqtt::serve_websocket(upgraded.stream, upgraded.peer, start, mqtt).await;
        })
    })
}

fn open_http(
    config: &Config,
    services: HttpServices,
    limits: &SharedLimits,
    websocket: WebSocketHandler,
    auth: gatepost_users::ListenerAuth,
) -> Result<Arc<HttpContext>, StartError> {
    let settings = config.listeners.http.clone();
    HttpContext::new(
        settings,
        &config.pages,
        &config.access_log,
        services,
        limits,
    )
    .map(|context| Arc::new(context.with_websocket(websocket).with_auth(auth)))
    .map_err(|cause| StartError::AccessLog {
        path: config.access_log.path.display().to_string(),
        cause,
    })
}

/// The host's own name, as in SMTP's greeting.
fn hostname() -> String {
    let name = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    if name.is_empty() {
        "localhost".to_owned()
    } else {
        name
    }
}
