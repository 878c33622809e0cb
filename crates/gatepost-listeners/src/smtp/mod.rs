//! SMTP (RFC 5321), with PIPELINING (2920), SIZE (1870), 8BITMIME (6152), SMTPUTF8 (6531) and
//! ENHANCEDSTATUSCODES (2034).
//!
//! Mail is taken for our own domains only, each recipient's to a topic, and answered when it has
//! been judged and what was promised is durable: a `250` is never taken back. Reading is split so
//! that each part is tested without a socket: `command` and `path` read a line, `data` a message,
//! `session` decides, `connection` does the I/O.

mod command;
mod connection;
mod data;
mod path;
mod recipients;
mod reply;
mod session;
mod settings;
mod trace;

use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::watch;

pub use settings::{SmtpSettings, TopicRule};

use crate::admission::Admission;
use crate::gateway::Gateway;
use crate::stream::{Accepted, Acceptor};
use crate::workers::Workers;
use recipients::Recipients;

/// How long the listener rests when the system gives it no more descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What all connections share.
pub struct SmtpContext {
    settings: SmtpSettings,
    hostname: String,
    recipients: Recipients,
    admission: Admission,
    gateway: Gateway,
}

impl SmtpContext {
    /// `hostname` is the host's own name, for where the settings give none.
    pub fn new(settings: SmtpSettings, hostname: &str, gateway: Gateway) -> Self {
        let hostname = match settings.hostname.as_str() {
            "" => hostname.to_owned(),
            name => name.to_owned(),
        };
        Self {
            recipients: Recipients::new(&settings, &hostname),
            admission: Admission::new(
                settings.connections_max,
                settings.connections_per_address_max,
            ),
            settings,
            hostname,
            gateway,
        }
    }

    /// Who is connected.
    pub const fn admission(&self) -> &Admission {
        &self.admission
    }
}

/// Accepts connections until `shutdown` becomes true; those open by then are told at their next
/// command.
pub async fn serve(
    acceptor: Acceptor,
    context: Arc<SmtpContext>,
    workers: Workers,
    mut shutdown: watch::Receiver<bool>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = acceptor.accept() => accepted,
            _ = shutdown.wait_for(|&down| down) => return,
        };
        let (accepted, peer) = match accepted {
            Ok(connection) => connection,
            Err(error) => {
                // Out of descriptors, most likely: what is open may end meanwhile.
                tracing::warn!(target: "smtp", %error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let context = context.clone();
        let shutdown = shutdown.clone();
        workers.spawn(move || async move {
            let guard = context.admission.admit(peer);
            let served = match accepted {
                Accepted::Tcp(stream) => match TcpStream::from_std(stream) {
                    Ok(mut stream) if guard.is_err() => turn_away(&mut stream).await,
                    Ok(stream) => {
                        Box::pin(connection::serve(stream, peer, &context, shutdown)).await
                    }
                    Err(error) => Err(error),
                },
                Accepted::Unix(stream) => match UnixStream::from_std(stream) {
                    Ok(mut stream) if guard.is_err() => turn_away(&mut stream).await,
                    Ok(stream) => {
                        Box::pin(connection::serve(stream, peer, &context, shutdown)).await
                    }
                    Err(error) => Err(error),
                },
            };
            if let Err(error) = served {
                tracing::debug!(target: "smtp", %peer, %error, "the connection ended");
            }
        });
    }
}

async fn turn_away(stream: &mut (impl tokio::io::AsyncWrite + Unpin)) -> std::io::Result<()> {
    let mut output = Vec::new();
    reply::TOO_MANY_CONNECTIONS.write_to(&mut output);
    stream.write_all(&output).await
}
