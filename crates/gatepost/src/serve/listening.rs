//! The listeners: every configured address is opened before the first is served, so that a start
//! either has all its doors or none.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use gatepost_listeners::acceptor::Acceptor;
use gatepost_listeners::call::{self, CallContext};
use gatepost_listeners::http::{self, HttpContext, WebSocketHandler};
use gatepost_listeners::milter::{self, MilterContext};
use gatepost_listeners::mqtt::{self, MqttContext};
use gatepost_listeners::pop3::{self, Pop3Context};
use gatepost_listeners::smtp::{self, SmtpContext};
use gatepost_listeners::spamd::{self, SpamdContext};
use gatepost_listeners::workers::Workers;
use gatepost_message::Listener;
use gatepost_settings::Bind;
use tokio::sync::watch;

use super::doors::Doors;
use super::encryption::Encryption;
use super::error::StartError;
use super::operations::Operator;
use super::rooms::Behind;
use super::stats::Door;
use crate::config::Config;

/// How long connections may take to finish what they had begun when the server ends.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(20);

/// All open listeners.
pub(super) struct Listening {
    http: Arc<HttpContext>,
    encryption: Encryption,
    addresses: Vec<Address>,
    shutdown: watch::Sender<bool>,
}

/// Where a listener is reached.
pub(super) struct Address {
    listener: Listener,
    speaks_tls: bool,
    bind: Bind,
}

impl std::fmt::Display for Address {
    /// A line for those who started us: `mqtt/tls 127.0.0.1:8883`.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tls = if self.speaks_tls { "/tls" } else { "" };
        let name = format!("{}{tls}", self.listener);
        write!(formatter, "{name:<10} {}", self.bind)
    }
}

type Served = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One protocol: how a socket of it is served, and how many are connected.
struct Protocol {
    serve: Box<dyn Fn(Acceptor, Workers, watch::Receiver<bool>) -> Served>,
    connections: Arc<dyn Fn() -> u64 + Send + Sync>,
}

impl Protocol {
    fn new<C, F>(
        context: &Arc<C>,
        serve: fn(Acceptor, Arc<C>, Workers, watch::Receiver<bool>) -> F,
        connections: fn(&C) -> u64,
    ) -> Self
    where
        C: Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let (served, counted) = (context.clone(), context.clone());
        Self {
            serve: Box::new(move |acceptor, workers, down| {
                Box::pin(serve(acceptor, served.clone(), workers, down))
            }),
            connections: Arc::new(move || connections(&counted)),
        }
    }
}

impl Listening {
    pub(super) fn open(
        config: &Config,
        behind: Arc<Behind>,
        operator: Operator,
        workers: &Workers,
    ) -> Result<Self, StartError> {
        let encryption = Encryption::open(config)?;
        let bound = bind_all(config, &encryption)?;
        encryption.follow();
        let settings = &config.listeners;
        let gateway = behind.gateway.clone();
        let stats = behind.stats.clone();
        let doors = Doors::new(config, &behind.users);
        let smtp = SmtpContext::new(settings.smtp.clone(), &hostname(), gateway.clone())
            .with_door(doors.smtp())
            .with_tls(encryption.of(Listener::Smtp).cloned());
        let smtp = Protocol::new(&Arc::new(smtp), smtp::serve, |c| {
            c.admission().open().into()
        });
        let lmtp = SmtpContext::lmtp(settings.lmtp.clone(), &hostname(), gateway.clone())
            .with_tls(encryption.of(Listener::Lmtp).cloned());
        let lmtp = Protocol::new(&Arc::new(lmtp), smtp::serve, |c| {
            c.admission().open().into()
        });
        let milter = MilterContext::new(settings.milter.clone(), &hostname(), gateway.clone());
        let milter = Protocol::new(&Arc::new(milter), milter::serve, |c| {
            c.admission().open().into()
        });
        let spamd = SpamdContext::new(settings.spamd.clone(), gateway.clone());
        let spamd = Protocol::new(&Arc::new(spamd), spamd::serve, |c| {
            c.admission().open().into()
        });
        let call = CallContext::new(settings.call.clone(), gateway.clone());
        let call = Protocol::new(&Arc::new(call), call::serve, |c| {
            c.admission().open().into()
        });
        let broker = behind.broker.clone();
        let store = behind.store.clone();
        let pop3 = Pop3Context::new(
            settings.pop3.clone(),
            store,
            doors.pop3(),
            encryption.of(Listener::Pop3).cloned(),
        );
        let pop3 = Protocol::new(&Arc::new(pop3), pop3::serve, |c| {
            c.admission().open().into()
        });
        let mqtt = MqttContext::new(settings.mqtt.clone(), broker, Some(gateway));
        let mqtt = Arc::new(mqtt.with_doors(doors.mqtt(), doors.mqtt_in_websocket()));
        let door = doors.http();
        let context = open_http(config, behind, operator, websocket_to(&mqtt), door)?;
        let mqtt = Protocol::new(&mqtt, mqtt::serve, |c| c.admission().open().into());
        let http = Protocol::new(&context, http::serve, |c| c.connections().into());

        let (shutdown, down) = watch::channel(false);
        let mut addresses = Vec::new();
        for bound in bound {
            let acceptor = bound.acceptor;
            let protocol = match bound.listener {
                Listener::Smtp => &smtp,
                Listener::Lmtp => &lmtp,
                Listener::Milter => &milter,
                Listener::Spamd => &spamd,
                Listener::Call => &call,
                Listener::Mqtt => &mqtt,
                Listener::Http => &http,
                Listener::Pop3 => &pop3,
            };
            let bind = acceptor.local().clone();
            let counted = protocol.connections.clone();
            stats.add_door(Door {
                listener: bound.listener,
                bind: bind.to_string(),
                connections: Box::new(move || counted()),
            });
            addresses.push(Address {
                listener: bound.listener,
                speaks_tls: bound.speaks_tls,
                bind,
            });
            tokio::spawn((protocol.serve)(acceptor, workers.clone(), down.clone()));
        }
        Ok(Self {
            http: context,
            encryption,
            addresses,
            shutdown,
        })
    }

    /// Each open address.
    pub(super) fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Where a browser finds the dashboard.
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

    pub(super) fn reload(&self) {
        self.http.reload();
        self.encryption.reload();
    }

    /// No new connections from here on.
    pub(super) fn close(&self) {
        self.shutdown.send_replace(true);
    }

    /// Resolves when every connection has finished what it had begun: each holds a receiver of
    /// the shutdown until then.
    pub(super) async fn closed(self) {
        if tokio::time::timeout(DRAIN_TIME_MAX, self.shutdown.closed())
            .await
            .is_err()
        {
            tracing::warn!("some connections did not end in time; they are cut");
        }
    }
}

/// A socket that is listened on, before anybody accepts from it.
struct Bound {
    listener: Listener,
    speaks_tls: bool,
    acceptor: Acceptor,
}

fn bind_all(config: &Config, encryption: &Encryption) -> Result<Vec<Bound>, StartError> {
    let mut all = Vec::new();
    for place in config.listeners.places() {
        let listener = place.listener;
        for (bind, speaks_tls) in place.addresses() {
            let refused = |cause| StartError::Bind {
                listener,
                bind: bind.clone(),
                cause,
            };
            let acceptor = Acceptor::bind(bind).map_err(refused)?;
            let entry = encryption.entry(&place, speaks_tls);
            all.push(Bound {
                listener,
                speaks_tls,
                acceptor: acceptor.with_entry(entry),
            });
        }
    }
    Ok(all)
}

/// MQTT speaks on where the HTTP listener has ended a WebSocket handshake.
fn websocket_to(mqtt: &Arc<MqttContext>) -> WebSocketHandler {
    let mqtt = mqtt.clone();
    Arc::new(move |stream, peer, received| {
        let mqtt = mqtt.clone();
        Box::pin(async move { mqtt::serve_websocket(stream, peer, &received, mqtt).await })
    })
}

fn open_http(
    config: &Config,
    behind: Arc<Behind>,
    operator: Operator,
    websocket: WebSocketHandler,
    door: gatepost_users::Door,
) -> Result<Arc<HttpContext>, StartError> {
    let settings = config.listeners.http.clone();
    HttpContext::new(settings, &config.pages, &config.access_log, behind)
        .map(|context| context.with_websocket(websocket).with_door(door))
        .map(|context| Arc::new(context.with_operations(Arc::new(operator))))
        .map_err(|cause| StartError::AccessLog {
            path: config.access_log.path.display().to_string(),
            cause,
        })
}

/// The host's own name, as SMTP's greeting has it.
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
