//! The listeners: every configured address is opened before the first is served, so that a start
//! either has all its doors or none.

use std::sync::Arc;

use gatepost_listeners::http::{self, HttpContext};
use gatepost_listeners::smtp::{self, SmtpContext};
use gatepost_listeners::stream::Acceptor;
use gatepost_listeners::workers::Workers;
use gatepost_message::Listener;
use gatepost_settings::Bind;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::error::StartError;
use super::rooms::Behind;
use super::stats::Door;
use crate::config::Config;

/// All open listeners.
pub(super) struct Listening {
    http: Arc<HttpContext>,
    addresses: Vec<(Listener, Bind)>,
    shutdown: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl Listening {
    pub(super) fn open(
        config: &Config,
        behind: Arc<Behind>,
        workers: &Workers,
    ) -> Result<Self, StartError> {
        let mut acceptors = Vec::new();
        for (listener, binds) in config.listeners.binds() {
            for bind in binds {
                let acceptor = Acceptor::bind(bind).map_err(|cause| StartError::Bind {
                    listener,
                    bind: bind.clone(),
                    cause,
                })?;
                acceptors.push((listener, acceptor));
            }
        }
        let settings = &config.listeners;
        let gateway = behind.gateway.clone();
        let stats = behind.stats.clone();
        let smtp = Arc::new(SmtpContext::new(
            settings.smtp.clone(),
            &hostname(),
            gateway,
        ));
        let http = HttpContext::new(
            settings.http.clone(),
            &config.pages,
            &config.access_log,
            behind,
        )
        .map(Arc::new)
        .map_err(|cause| StartError::AccessLog {
            path: config.access_log.path.display().to_string(),
            cause,
        })?;

        let (shutdown, down) = watch::channel(false);
        let mut tasks = JoinSet::new();
        let mut addresses = Vec::new();
        for (listener, acceptor) in acceptors {
            addresses.push((listener, acceptor.local().clone()));
            let bind = acceptor.local().to_string();
            let (workers, down) = (workers.clone(), down.clone());
            let connections: Box<dyn Fn() -> u64 + Send + Sync> = match listener {
                Listener::Smtp => {
                    tasks.spawn(smtp::serve(acceptor, smtp.clone(), workers, down));
                    let smtp = smtp.clone();
                    Box::new(move || u64::from(smtp.admission().open()))
                }
                Listener::Http => {
                    tasks.spawn(http::serve(acceptor, http.clone(), workers, down));
                    let http = http.clone();
                    Box::new(move || http.connections() as u64)
                }
                // `binds` names no other.
                _ => continue,
            };
            stats.add_door(Door {
                listener,
                bind,
                connections,
            });
        }
        Ok(Self {
            http,
            addresses,
            shutdown,
            tasks,
        })
    }

    /// Each open address.
    pub(super) fn addresses(&self) -> impl Iterator<Item = (Listener, &Bind)> {
        self.addresses
            .iter()
            .map(|(listener, bind)| (*listener, bind))
    }

    /// Where a browser finds the dashboard.
    pub(super) fn dashboard(&self) -> Option<String> {
        self.addresses
            .iter()
            .find_map(|(listener, bind)| match (listener, bind) {
                (Listener::Http, Bind::Tcp(address)) => Some(format!("http://{address}/")),
                _ => None,
            })
    }

    pub(super) fn reload(&self) {
        self.http.reload();
    }

    /// No new connections from here on.
    pub(super) fn close(&self) {
        self.shutdown.send_replace(true);
    }

    /// Resolves when every listener has finished what it had begun.
    pub(super) async fn closed(mut self) {
        while self.tasks.join_next().await.is_some() {}
    }
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
