//! SMTP (RFC 5321), with PIPELINING (2920), SIZE (1870), 8BITMIME (6152), CHUNKING and BINARYMIME
//! (3030), SMTPUTF8 (6531), ENHANCEDSTATUSCODES (2034), DSN (3461) for forwarded mail, LIMITS
//! (9422), STARTTLS (3207), AUTH (4954), XCLIENT and XFORWARD; and LMTP (2033), which differs in
//! its greeting and in replying for each recipient.
//!
//! Mail is accepted for local domains only. Each recipient's mail goes to a topic, a mailbox or the
//! next hop. The reply is sent when the mail has been judged and is durable: a `250` is never taken
//! back. Reading is split so that each part is tested without a socket: `command`, `parameters`,
//! `path` and `xclient` read a line, `data` a message, `session` decides, `connection` and
//! `receiving` and `login` do the I/O, `delivery` carries out the verdicts.

mod command;
mod connection;
mod data;
mod delivery;
mod dialect;
mod lmtp;
mod login;
mod mailbox_lists;
mod parameters;
mod path;
mod receiving;
mod recipient_group;
mod recipients;
mod release;
mod replies;
mod reply;
mod route;
mod senders;
mod session;
mod settings;
mod trace;
mod transaction;
mod xclient;

use std::sync::Arc;

use gatepost_gateway::Gateway;
use gatepost_store::Store;
use gatepost_tasks::Task;
use gatepost_users::ListenerAuth;
use tokio::sync::watch;
use tokio::time::Instant;

pub use lmtp::LmtpSettings;
pub use release::ReleaseRoutes;
pub use route::{RecipientRoute, RouteTarget};
pub use settings::{SenderLogin, SmtpSettings};

use crate::acceptor::Acceptor;
use crate::forward::ForwardContext;
use crate::listener_context::{ClientLimits, ListenerContext, SharedLimits};
use crate::mail;
use crate::service::{self, NewConnection};
use crate::tls::ServerTls;
use crate::wire;
use crate::workers::Workers;
use dialect::Dialect;
use recipients::Recipients;

/// The parsers, for fuzzing: they describe the parsed bytes as text.
#[doc(hidden)]
pub mod parsers {
    use super::data::{DataProgress, DataReceiver};

    /// One command line, without its line end.
    pub fn command(line: &[u8]) -> Result<String, String> {
        let parsed = super::command::parse(line);
        parsed
            .map(|command| format!("{command:?}"))
            .map_err(|reply| format!("{reply:?}"))
    }

    /// A message after DATA, in two pieces: the number of bytes consumed, and the outcome.
    pub fn data(first: &[u8], second: &[u8]) -> (Option<usize>, Result<Vec<u8>, String>) {
        let mut receiver = DataReceiver::new(1 << 20, 1 << 10);
        let end = match receiver.receive(first) {
            DataProgress::End { consumed } => Some(consumed),
            DataProgress::More => match receiver.receive(second) {
                DataProgress::End { consumed } => Some(first.len() + consumed),
                DataProgress::More => None,
            },
        };
        (end, receiver.finish().map_err(|reply| format!("{reply:?}")))
    }
}

/// State that all connections share.
pub struct SmtpContext {
    dialect: Dialect,
    settings: SmtpSettings,
    hostname: String,
    recipients: Recipients,
    limits: ClientLimits,
    gateway: Gateway,
    auth: Option<ListenerAuth>,
    anonymous: Option<ListenerAuth>,
    tls: Option<ServerTls>,
    forward: ForwardContext,
}

impl SmtpContext {
    /// `hostname` is the host's own name, used if the settings give none.
    pub fn new(
        settings: SmtpSettings,
        hostname: &str,
        gateway: Gateway,
        shared: &SharedLimits,
    ) -> Self {
        Self::with(Dialect::Smtp, settings, hostname, gateway, shared)
    }

    /// The same for LMTP.
    pub fn lmtp(
        settings: LmtpSettings,
        hostname: &str,
        gateway: Gateway,
        shared: &SharedLimits,
    ) -> Self {
        Self::with(Dialect::Lmtp, settings.into(), hostname, gateway, shared)
    }

    fn with(
        dialect: Dialect,
        settings: SmtpSettings,
        hostname: &str,
        gateway: Gateway,
        shared: &SharedLimits,
    ) -> Self {
        let hostname = mail::own_name(&settings.hostname, hostname);
        Self {
            dialect,
            recipients: Recipients::new(&settings, &hostname),
            limits: ClientLimits::new(
                settings.connections_max,
                settings.connections_per_address_max,
                shared,
            ),
            forward: ForwardContext::new(settings.forward.clone()).except(&settings.bind),
            settings,
            hostname,
            gateway,
            auth: None,
            anonymous: None,
            tls: None,
        }
    }

    /// Offers AUTH while there is a user.
    #[must_use]
    pub fn with_auth(mut self, auth: ListenerAuth) -> Self {
        self.auth = Some(auth);
        self
    }

    /// Applies the access rules to mail without a login: the topics that `anonymous` may publish
    /// to, and the users with mailboxes.
    #[must_use]
    pub fn with_anonymous(mut self, anonymous: ListenerAuth) -> Self {
        self.anonymous = Some(anonymous);
        self
    }

    /// Stores the MTA-STS policies of other domains in this database.
    #[must_use]
    pub fn with_store(mut self, store: &Store) -> Self {
        self.forward.keep_policies(store);
        self
    }

    /// Offers STARTTLS if there is a certificate.
    #[must_use]
    pub fn with_tls(mut self, tls: Option<ServerTls>) -> Self {
        self.tls = tls;
        self
    }
}

impl ListenerContext for SmtpContext {
    fn limits(&self) -> &ClientLimits {
        &self.limits
    }
}

/// Serves connections until `shutdown` becomes true; open connections receive a 421 at their next
/// command.
pub fn serve(
    acceptor: Acceptor,
    context: Arc<SmtpContext>,
    workers: Workers,
    shutdown: watch::Receiver<bool>,
) -> Task {
    Box::pin(async move {
        let admission = context.limits.admission.clone();
        let name = context.dialect.listener().name();
        let connection = move |arrival| Box::pin(serve_connection(arrival, Arc::clone(&context)));
        service::accept(name, acceptor, workers, admission, shutdown, connection).await;
    })
}

async fn serve_connection(arrival: NewConnection, context: Arc<SmtpContext>) {
    let NewConnection {
        stream,
        peer,
        admitted,
        shutdown,
    } = arrival;
    let served = if let Ok(_place) = admitted {
        connection::serve(stream, peer, &context, shutdown).await
    } else {
        let mut output = Vec::new();
        replies::TOO_MANY_CONNECTIONS.write_to(&mut output);
        let deadline = Instant::now() + context.settings.command_timeout.duration();
        wire::write(&stream, &output, deadline).await
    };
    if let Err(error) = served {
        tracing::debug!(target: "smtp", %peer, %error, "the connection was closed unexpectedly");
    }
}
