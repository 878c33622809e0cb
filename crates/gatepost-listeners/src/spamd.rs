//! The spamd listener: SPAMC/SPAMD 1.5, so that spamc, Exim and whatever else asks SpamAssassin's
//! daemon can ask Gatepost instead.
//!
//! A connection carries one request, as the protocol has it. The rules judge on the judge threads, which answer too;
//! where a scope names this listener, its verdict decides what counts as spam, and the report is
//! still the rules'.

use std::sync::Arc;

use gatepost_message::Peer;
use tokio::sync::watch;

use crate::acceptor::{Accepted, Acceptor};
use crate::admission::Admission;
use crate::gateway::Gateway;
use crate::service;
use crate::workers::Workers;

mod answer;
mod connection;
mod inflate;
mod request;
mod settings;

pub use request::{Command, Head, HeadError, Targets, Version};
pub use settings::SpamdSettings;

/// What all connections share.
pub struct SpamdContext {
    settings: SpamdSettings,
    gateway: Gateway,
    admission: Admission,
}

impl SpamdContext {
    /// A context for one or more sockets.
    pub fn new(settings: SpamdSettings, gateway: Gateway) -> Self {
        Self {
            admission: Admission::new(
                settings.connections_max,
                settings.connections_per_address_max,
            ),
            settings,
            gateway,
        }
    }

    /// Who is connected.
    pub const fn admission(&self) -> &Admission {
        &self.admission
    }
}

/// Serves connections until `shutdown` becomes true; requests in progress are answered.
pub async fn serve(
    acceptor: Acceptor,
    context: Arc<SpamdContext>,
    workers: Workers,
    shutdown: watch::Receiver<bool>,
) {
    acceptor.defer_until_first_bytes();
    let down = shutdown.clone();
    let take = move |accepted: Accepted, peer: Peer| {
        let admitted = context.admission.admit(peer);
        let (context, shutdown) = (Arc::clone(&context), shutdown.clone());
        Some(async move {
            let served = connection::serve(accepted, (peer, admitted), context, shutdown).await;
            if let Err(error) = served {
                connection::note_broken(peer, &error);
            }
        })
    };
    service::on_every_worker("spamd", acceptor, &workers, down, take).await;
}
