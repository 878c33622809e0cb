//! Milter: the protocol by which sendmail and Postfix ask a filter about a mail before they take
//! it. Version 6 with 2 to 4 understood, many messages and clients on a connection.
//!
//! The mail server keeps the message and does what we say with it: nothing is published here.
//! `packet` reads and writes packets, `negotiation` agrees on what is spoken, `session` takes them
//! one by one, `transaction` gathers a message, `verdicts` makes one of several, `answer` says it,
//! `connection` does the I/O.

mod answer;
mod connection;
mod macros;
mod negotiation;
mod packet;
mod session;
mod settings;
mod transaction;
mod verdicts;

use std::sync::Arc;

use tokio::sync::watch;

pub use settings::{Keeper, MilterSettings};

use crate::acceptor::Acceptor;
use crate::admission::Admission;
use crate::gateway::Gateway;
use crate::mail;
use crate::service::{self, Arrival};
use crate::workers::Workers;

/// The parser alone, for fuzzing: what a mail server's bytes come to, in words.
#[doc(hidden)]
pub fn fuzz(input: &[u8]) -> Vec<String> {
    let mut session = session::Session::new(transaction::Limits {
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

/// What all connections share.
pub struct MilterContext {
    settings: MilterSettings,
    hostname: String,
    admission: Admission,
    gateway: Gateway,
}

impl MilterContext {
    /// `hostname` is the host's own name, for where the settings give none.
    pub fn new(settings: MilterSettings, hostname: &str, gateway: Gateway) -> Self {
        Self {
            admission: Admission::new(
                settings.connections_max,
                settings.connections_per_address_max,
            ),
            hostname: mail::own_name(&settings.hostname, hostname),
            settings,
            gateway,
        }
    }

    /// Who is connected.
    pub const fn admission(&self) -> &Admission {
        &self.admission
    }
}

/// Serves connections until `shutdown` becomes true; those open by then end with their present
/// message.
pub async fn serve(
    acceptor: Acceptor,
    context: Arc<MilterContext>,
    workers: Workers,
    shutdown: watch::Receiver<bool>,
) {
    let admission = context.admission.clone();
    let connection = move |arrival| Box::pin(serve_connection(arrival, Arc::clone(&context)));
    service::accept("milter", acceptor, workers, admission, shutdown, connection).await;
}

async fn serve_connection(arrival: Arrival, context: Arc<MilterContext>) {
    let peer = arrival.peer;
    let served = match arrival.admitted {
        Ok(_place) => connection::serve(arrival.stream, &context, arrival.shutdown).await,
        // The protocol has no word for it: the mail server does what its settings say of a
        // filter that is away.
        Err(refusal) => {
            tracing::warn!(target: "milter", %peer, "closed at once: {refusal}");
            Ok(())
        }
    };
    if let Err(error) = served {
        tracing::info!(target: "milter", %peer, %error, "the connection broke off");
    }
}
