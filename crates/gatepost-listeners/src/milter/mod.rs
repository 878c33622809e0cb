//! Milter: the protocol by which sendmail and Postfix consult a filter about a mail before they
//! accept it. Version 6, and versions 2 to 5; a connection carries many messages and clients.
//!
//! The mail server keeps the message and acts on the answer; this listener publishes nothing.
//! `packet` reads and writes packets, `negotiation` agrees on a version and steps, `session` holds
//! the state, `transaction` collects a message, `verdicts` combines the verdicts of several scopes,
//! `answer` writes the result (`substitute` counts its fields), `connection` does the I/O.

mod answer;
mod connection;
mod macros;
mod negotiation;
mod packet;
mod session;
mod settings;
mod substitute;
mod transaction;
mod verdicts;

use std::sync::Arc;

use gatepost_gateway::Gateway;
use gatepost_tasks::Task;
use tokio::sync::watch;

pub use settings::{MilterSettings, QuarantinePlace};

use crate::acceptor::Acceptor;
use crate::listener_context::{ClientLimits, ListenerContext, SharedLimits};
use crate::mail;
use crate::service::{self, NewConnection};
use crate::workers::Workers;

/// Runs the parser, for fuzzing: describes the outcome of a mail server's bytes as text.
#[doc(hidden)]
pub fn fuzz(input: &[u8]) -> Vec<String> {
    let mut session = session::MilterSession::new(transaction::MilterLimits {
        message_bytes_max: 1 << 16,
        recipients_max: 100,
    });
    let mut input = bytes::BytesMut::from(input);
    let mut seen = Vec::new();
    while let Ok(Some(packet)) = packet::take(&mut input, 1 << 16) {
        match session.take(&packet) {
            Ok(next) => seen.push(format!("{next:?}")),
            Err(error) => {
                seen.push(error.to_string());
                break;
            }
        }
    }
    seen
}

/// State that all connections share.
pub struct MilterContext {
    settings: MilterSettings,
    hostname: String,
    limits: ClientLimits,
    gateway: Gateway,
}

impl MilterContext {
    /// `hostname` is the host's own name, used if the settings give none.
    pub fn new(
        settings: MilterSettings,
        hostname: &str,
        gateway: Gateway,
        shared: &SharedLimits,
    ) -> Self {
        Self {
            limits: ClientLimits::new(
                settings.connections_max,
                settings.connections_per_address_max,
                shared,
            ),
            hostname: mail::own_name(&settings.hostname, hostname),
            settings,
            gateway,
        }
    }
}

impl ListenerContext for MilterContext {
    fn limits(&self) -> &ClientLimits {
        &self.limits
    }
}

/// Serves connections until `shutdown` becomes true; open connections end after their present
/// message.
pub fn serve(
    acceptor: Acceptor,
    context: Arc<MilterContext>,
    workers: Workers,
    shutdown: watch::Receiver<bool>,
) -> Task {
    Box::pin(async move {
        let admission = context.limits.admission.clone();
        let connection = move |arrival| Box::pin(serve_connection(arrival, Arc::clone(&context)));
        service::accept("milter", acceptor, workers, admission, shutdown, connection).await;
    })
}

async fn serve_connection(arrival: NewConnection, context: Arc<MilterContext>) {
    let peer = arrival.peer;
    let served = match arrival.admitted {
        Ok(_place) => connection::serve(arrival.stream, &context, arrival.shutdown).await,
        // The protocol has no reply for this: the mail server applies its setting for a filter that
        // is unavailable.
        Err(refusal) => {
            tracing::warn!(target: "milter", %peer, "closed immediately: {refusal}");
            Ok(())
        }
    };
    if let Err(error) = served {
        tracing::info!(target: "milter", %peer, %error, "the connection was closed unexpectedly");
    }
}
