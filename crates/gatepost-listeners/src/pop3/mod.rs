//! POP3 (RFC 1939) with CAPA (2449), STLS (2595), AUTH (5034), UIDL and TOP: a user's mailbox, and
//! for the login `NAME+quarantine` the user's quarantined mail, read-only.
//!
//! `command` parses a line, `login` is the AUTHORIZATION state, `maildrop` the messages,
//! `connection` the conversation.

mod command;
mod connection;
mod login;
mod maildrop;
mod settings;

use std::collections::HashSet;
use std::sync::Arc;

use gatepost_operations::MailRoutes;
use gatepost_store::{MailboxClaim, Store, StoreError};
use gatepost_tasks::Task;
use gatepost_users::ListenerAuth;
use parking_lot::Mutex;
use tokio::sync::watch;

pub use settings::Pop3Settings;

use crate::acceptor::Acceptor;
use crate::listener_context::{ClientLimits, ListenerContext, SharedLimits};
use crate::service::{self, NewConnection};
use crate::tls::ServerTls;
use crate::workers::Workers;
use maildrop::MaildropKind;

/// Runs the parser, for fuzzing: describes the parsed line as text.
#[doc(hidden)]
pub fn fuzz_command(line: &[u8]) -> String {
    format!("{:?}", command::parse(line))
}

/// State that all connections share.
pub struct Pop3Context {
    settings: Pop3Settings,
    store: Store,
    auth: ListenerAuth,
    tls: Option<ServerTls>,
    /// The routes of mail, which decide whose mail is in quarantine.
    routes: Option<Arc<dyn MailRoutes>>,
    limits: ClientLimits,
    /// The open maildrops: one client has each exclusively (RFC 1939, section 4).
    open: Arc<Mutex<HashSet<(String, MaildropKind)>>>,
}

impl Pop3Context {
    /// With `tls`, clients may request it by STLS.
    pub fn new(
        settings: Pop3Settings,
        store: Store,
        auth: ListenerAuth,
        tls: Option<ServerTls>,
        shared: &SharedLimits,
    ) -> Self {
        Self {
            limits: ClientLimits::new(
                settings.connections_max,
                settings.connections_per_address_max,
                shared,
            ),
            settings,
            store,
            auth,
            tls,
            routes: None,
            open: Arc::default(),
        }
    }

    /// Decides by these routes whose mail is in quarantine.
    #[must_use]
    pub fn with_routes(self, routes: Arc<dyn MailRoutes>) -> Self {
        Self {
            routes: Some(routes),
            ..self
        }
    }

    /// Locks a maildrop for one client; returns `None` while another client has it.
    fn take(&self, user: &str, kind: MaildropKind) -> Option<MaildropLock> {
        let name = (user.to_owned(), kind);
        let is_free = self.open.lock().insert(name.clone());
        is_free.then(|| MaildropLock {
            open: Arc::clone(&self.open),
            name,
            claim: None,
        })
    }

    /// Locks a maildrop for one client of the whole cluster; `None` while another client has it.
    /// The quarantine is read-only, and each server has its own.
    async fn lock(
        &self,
        user: &str,
        kind: MaildropKind,
    ) -> Result<Option<MaildropLock>, StoreError> {
        let Some(mut lock) = self.take(user, kind) else {
            return Ok(None);
        };
        if kind == MaildropKind::Mailbox {
            lock.claim = self.store.claim_mailbox(user).await?;
            if lock.claim.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(lock))
    }
}

impl ListenerContext for Pop3Context {
    fn limits(&self) -> &ClientLimits {
        &self.limits
    }
}

/// The lock of a maildrop, held until this value is dropped.
struct MaildropLock {
    open: Arc<Mutex<HashSet<(String, MaildropKind)>>>,
    name: (String, MaildropKind),
    /// The claim to the mailbox, which excludes clients of other servers.
    claim: Option<MailboxClaim>,
}

impl MaildropLock {
    /// Gives the mailbox back to the other servers.
    async fn release(&mut self) {
        if let Some(claim) = &mut self.claim
            && let Err(error) = claim.release().await
        {
            // The claim ends by itself.
            tracing::debug!(target: "pop3", %error, "a mailbox was not given back");
        }
    }
}

impl Drop for MaildropLock {
    fn drop(&mut self) {
        self.open.lock().remove(&self.name);
    }
}

/// Serves connections until `shutdown` becomes true; open connections end after their present
/// command.
pub fn serve(
    acceptor: Acceptor,
    context: Arc<Pop3Context>,
    workers: Workers,
    shutdown: watch::Receiver<bool>,
) -> Task {
    Box::pin(async move {
        let admission = context.limits.admission.clone();
        let connection = move |arrival| Box::pin(serve_connection(arrival, Arc::clone(&context)));
        service::accept("pop3", acceptor, workers, admission, shutdown, connection).await;
    })
}

async fn serve_connection(arrival: NewConnection, context: Arc<Pop3Context>) {
    let peer = arrival.peer;
    if let Err(error) = connection::serve(arrival, &context).await {
        tracing::debug!(target: "pop3", %peer, %error, "the connection was closed unexpectedly");
    }
}
