//! The spamd listener: SPAMC/SPAMD 1.5, for spamc, Exim and other clients of SpamAssassin's daemon.
//!
//! A connection carries one request. The rules run on the judge threads, which write the answer
//! too. If a scope names this listener, its verdict decides whether a message counts as spam; the
//! report is still that of the rules.

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
mod connection;
mod inflate;
mod request;
mod settings;

pub use request::{SpamdCommand, SpamdHead, SpamdHeadError, SpamdVersion, TellTargets};
pub use settings::SpamdSettings;

/// State that all connections share.
pub struct SpamdContext {
    settings: SpamdSettings,
    gateway: Gateway,
    limits: ClientLimits,
}

impl SpamdContext {
    /// A context for one or more sockets.
    pub fn new(settings: SpamdSettings, gateway: Gateway, shared: &SharedLimits) -> Self {
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

impl ListenerContext for SpamdContext {
    fn limits(&self) -> &ClientLimits {
        &self.limits
    }
}

/// Serves connections until `shutdown` becomes true; requests in progress are answered.
pub fn serve(
    acceptor: Acceptor,
    context: Arc<SpamdContext>,
    workers: Workers,
    shutdown: watch::Receiver<bool>,
) -> Task {
    Box::pin(async move {
        acceptor.defer_until_first_bytes();
        let down = shutdown.clone();
        let take = move |accepted: AcceptedSocket, peer: Peer| {
            let admitted = context.limits.admission.admit_accepted(&accepted, peer)?;
            let (context, shutdown) = (Arc::clone(&context), shutdown.clone());
            let serving: Task = Box::pin(async move {
                let served = connection::serve(accepted, (peer, admitted), context, shutdown).await;
                if let Err(error) = served {
                    connection::note_broken(peer, &error);
                }
            });
            Some(serving)
        };
        service::on_every_worker("spamd", acceptor, &workers, down, Arc::new(take)).await;
    })
}
