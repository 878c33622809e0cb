//! The AUTHORIZATION state: USER and PASS, AUTH (RFC 5034), and STLS (RFC 2595) before them.

use std::fmt::Write as _;
use std::io;

use gatepost_users::{Credentials, Identity, LoginRefusal, Secret};

use super::MaildropLock;
use super::command::Pop3Command;
use super::connection::{Pop3Connection, blocking};
use super::maildrop::{self, Maildrop, MaildropKind};
use crate::sasl::{self, SaslExchange, SaslStep};

impl Pop3Connection<'_> {
    /// Handles a command before the login; returns the maildrop of a login that succeeded.
    pub(super) async fn authorize(
        &mut self,
        command: Pop3Command,
        named: Option<String>,
        next: &mut Option<String>,
    ) -> io::Result<Option<(Maildrop, MaildropLock)>> {
        match command {
            Pop3Command::Capabilities => self.capabilities(),
            Pop3Command::StartTls => self.start_tls().await?,
            Pop3Command::User(_) | Pop3Command::Pass(_) | Pop3Command::Auth { .. }
                if !self.may_login() =>
            {
                self.refuse("-ERR [AUTH] a login needs TLS; send STLS first");
            }
            Pop3Command::User(name) => {
                *next = Some(name);
                self.push_reply("+OK");
            }
            Pop3Command::Pass(password) => match named {
                None => self.refuse("-ERR send the user name first: USER anna"),
                Some(name) => {
                    let (user, kind) = maildrop::user_and_maildrop(&name);
                    let credentials = Credentials::Password {
                        user: user.to_owned(),
                        password: Secret::from(password.as_str()),
                    };
                    let auth = &self.context.auth;
                    let identity = auth.authenticate(credentials, self.peer, None).await;
                    return Ok(self.admit(identity, kind).await);
                }
            },
            Pop3Command::Auth { mechanism, initial } => {
                return match self.authenticate(&mechanism, initial).await? {
                    Some(identity) => Ok(self.admit(identity, MaildropKind::Mailbox).await),
                    None => Ok(None),
                };
            }
            _ => self.refuse("-ERR log in first"),
        }
        Ok(None)
    }

    /// Without TLS, passwords are accepted from this machine only, unless `plain_login` is set.
    fn may_login(&self) -> bool {
        let is_here = self
            .peer
            .ip()
            .is_none_or(|address| address.to_canonical().is_loopback());
        let is_encrypted = self
            .stream
            .as_ref()
            .is_some_and(|stream| stream.tls().is_some());
        is_encrypted || is_here || self.context.settings.plain_login
    }

    fn may_start_tls(&self) -> bool {
        let is_plain = self
            .stream
            .as_ref()
            .is_some_and(|stream| stream.tls().is_none());
        is_plain && self.context.tls.is_some()
    }

    pub(super) fn capabilities(&mut self) {
        let mut text =
            String::from("+OK\r\nTOP\r\nUIDL\r\nRESP-CODES\r\nAUTH-RESP-CODE\r\nPIPELINING\r\n");
        if self.may_login() {
            // Writing to a string cannot fail.
            let _ = write!(text, "USER\r\nSASL {}\r\n", sasl::MECHANISMS);
        }
        if self.may_start_tls() {
            text += "STLS\r\n";
        }
        let version = env!("CARGO_PKG_VERSION");
        let _ = write!(text, "IMPLEMENTATION Gatepost-{version}\r\n.");
        self.push_reply(&text);
    }

    /// RFC 2595, section 4. Plain text after the command is discarded: anyone on the way could have
    /// put it there.
    async fn start_tls(&mut self) -> io::Result<()> {
        let Some(tls) = self.context.tls.clone().filter(|_| self.may_start_tls()) else {
            self.refuse("-ERR TLS is not offered");
            return Ok(());
        };
        self.push_reply("+OK begin TLS");
        self.flush().await?;
        self.input.clear();
        if let Some(stream) = self.stream.take() {
            self.stream = Some(tls.accept(stream).await?);
        }
        Ok(())
    }

    /// RFC 5034; `None` if it failed before credentials were complete.
    async fn authenticate(
        &mut self,
        mechanism: &str,
        initial: Option<String>,
    ) -> io::Result<Option<Result<Identity, LoginRefusal>>> {
        let auth = &self.context.auth;
        let Some(mut exchange) = SaslExchange::begin(mechanism, auth, self.peer) else {
            self.refuse("-ERR the mechanism is not supported; see CAPA");
            return Ok(None);
        };
        let mut response = initial;
        loop {
            let text = if let Some(text) = response.take() {
                text
            } else {
                let invitation = exchange.initial_challenge();
                match self.challenge(&invitation).await? {
                    Some(text) => text,
                    None => return Ok(None),
                }
            };
            match exchange.respond(&text, auth, self.peer).await {
                Ok(SaslStep::Done(identity)) => return Ok(Some(Ok(*identity))),
                Err(denied) => return Ok(Some(Err(denied))),
                Ok(SaslStep::Challenge(challenge, next)) => {
                    exchange = next;
                    response = self.challenge(&challenge).await?;
                    if response.is_none() {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Sends a challenge and waits for the response; returns `None` if the client cancels.
    async fn challenge(&mut self, challenge: &str) -> io::Result<Option<String>> {
        self.push_reply(&format!("+ {challenge}"));
        let Some(line) = self.line().await? else {
            return Ok(None);
        };
        let text = String::from_utf8_lossy(&line).into_owned();
        if text == "*" || text.len() > sasl::RESPONSE_BYTES_MAX {
            self.refuse("-ERR [AUTH] given up");
            return Ok(None);
        }
        Ok(Some(text))
    }

    /// Opens the maildrop of the user that logged in.
    async fn admit(
        &mut self,
        identity: Result<Identity, LoginRefusal>,
        kind: MaildropKind,
    ) -> Option<(Maildrop, MaildropLock)> {
        let identity = match identity {
            Ok(identity) => identity,
            Err(denied) => {
                let code = match denied {
                    LoginRefusal::Busy | LoginRefusal::TooMany { .. } => "SYS/TEMP",
                    _ => "AUTH",
                };
                self.refuse(&format!("-ERR [{code}] {denied}"));
                return None;
            }
        };
        let Some(user) = identity.user().map(str::to_lowercase) else {
            self.refuse("-ERR [AUTH] log in as a user");
            return None;
        };
        let taken = match self.context.lock(&user, kind).await {
            Ok(Some(taken)) => taken,
            Ok(None) => {
                self.refuse("-ERR [IN-USE] another client has the mailbox open");
                return None;
            }
            Err(error) => {
                self.failed(&error);
                return None;
            }
        };
        let store = self.context.store.clone();
        let routes = self.context.routes.clone();
        let opened = blocking(move || Maildrop::open(store, &user, kind, routes.as_deref())).await;
        match opened {
            Ok(maildrop) => Some((maildrop, taken)),
            Err(error) => {
                self.failed(&error);
                None
            }
        }
    }
}
