//! The state of a session: the commands that are valid in it, and their replies. Without I/O.

mod mail;

use std::net::{IpAddr, SocketAddr};

use gatepost_message::{Listener, Peer};
use gatepost_users::Identity;

use super::command::{self, GreetingVerb, SmtpCommand};
use super::dialect::{Dialect, Transmission};
use super::recipients::Recipients;
use super::replies;
use super::reply::SmtpReply;
use super::settings::SmtpSettings;
use super::transaction::{ClientGreeting, CommandOutcome, Transaction};
use super::xclient::{self, ForwardedClient};
use crate::forward::BodyEncoding;
use crate::sasl;

/// Facts about the connection; a change of them resets the session.
#[derive(Debug, Clone, Copy)]
#[allow(clippy::struct_excessive_bools)] // independent facts
pub(super) struct ConnectionFacts {
    pub(super) peer: Peer,
    /// The server's address, as the client knows it.
    pub(super) local_ip: Option<IpAddr>,
    pub(super) is_encrypted: bool,
    /// Whether TLS can begin.
    pub(super) has_tls: bool,
    /// Whether there is a user that could log in.
    pub(super) has_login: bool,
}

/// One client's conversation.
pub(super) struct SmtpSession<'a> {
    dialect: Dialect,
    settings: &'a SmtpSettings,
    recipients: &'a Recipients,
    hostname: &'a str,
    connection: ConnectionFacts,
    /// The user that has logged in.
    identity: Option<Box<Identity>>,
    /// The rights of a client without a login, if access rules apply.
    anonymous: Option<&'a Identity>,
    /// Whether the peer may name another client by XCLIENT and XFORWARD.
    is_trusted: bool,
    forwarded: ForwardedClient,
    client: Option<ClientGreeting>,
    transaction: Option<Transaction>,
}

impl<'a> SmtpSession<'a> {
    pub(super) fn new(
        dialect: Dialect,
        settings: &'a SmtpSettings,
        recipients: &'a Recipients,
        hostname: &'a str,
        connection: ConnectionFacts,
        anonymous: Option<&'a Identity>,
    ) -> Self {
        Self {
            dialect,
            settings,
            recipients,
            hostname,
            connection,
            identity: None,
            anonymous,
            is_trusted: settings
                .trusted
                .iter()
                .any(|network| network.holds(connection.peer.ip())),
            forwarded: ForwardedClient::default(),
            client: None,
            transaction: None,
        }
    }

    pub(super) fn greeting(&self) -> SmtpReply {
        SmtpReply::with(
            220,
            "",
            format!("{} {} Gatepost", self.hostname, self.dialect.banner()),
        )
    }

    /// One command line, without its CR LF.
    pub(super) fn line(&mut self, line: &[u8]) -> CommandOutcome {
        match command::parse(line) {
            Err(reply) => CommandOutcome::Reply(reply),
            Ok(SmtpCommand::Quit) => CommandOutcome::End(replies::GOOD_BYE),
            Ok(SmtpCommand::Data) => match &self.transaction {
                None => CommandOutcome::Reply(replies::MAIL_FIRST),
                Some(transaction) if transaction.to.is_empty() => {
                    CommandOutcome::Reply(replies::RCPT_FIRST)
                }
                Some(transaction) if transaction.chunks.is_some() => {
                    CommandOutcome::Reply(replies::CHUNKS_BEGUN)
                }
                // RFC 3030, section 3: lines and dots mean nothing in such a message.
                Some(transaction) if transaction.body == BodyEncoding::Binary => {
                    CommandOutcome::Reply(replies::BINARY_NEEDS_CHUNKS)
                }
                Some(_) => CommandOutcome::Data(replies::GO_AHEAD),
            },
            Ok(SmtpCommand::Rcpt { to, parameters }) => self.rcpt(to, parameters),
            Ok(SmtpCommand::Chunk { size, last }) => self.chunk(size, last),
            Ok(SmtpCommand::StartTls) => self.start_tls(),
            Ok(SmtpCommand::Auth { mechanism, initial }) => self.auth(mechanism, initial),
            Ok(command) => CommandOutcome::Reply(self.reply_to(command)),
        }
    }

    /// RFC 3207, section 4.
    fn start_tls(&self) -> CommandOutcome {
        CommandOutcome::Reply(match self.connection {
            ConnectionFacts {
                is_encrypted: true, ..
            } => replies::IS_ENCRYPTED,
            ConnectionFacts { has_tls: false, .. } => replies::NOT_OFFERED,
            _ if self.transaction.is_some() => replies::WITHIN_TRANSACTION,
            _ => return CommandOutcome::StartTls(replies::BEGIN_TLS),
        })
    }

    /// RFC 4954, section 4.
    fn auth(&self, mechanism: String, initial: Option<String>) -> CommandOutcome {
        CommandOutcome::Reply(match &self.client {
            _ if !self.connection.has_login => replies::NOT_OFFERED,
            None => replies::HELLO_FIRST,
            Some(_) if self.identity.is_some() => replies::LOGGED_IN,
            Some(_) if self.transaction.is_some() => replies::WITHIN_TRANSACTION,
            Some(_) if !self.may_login() => replies::NOT_IN_PLAIN,
            Some(_) => return CommandOutcome::Auth { mechanism, initial },
        })
    }

    /// Without TLS, passwords are accepted from this machine only, unless `plain_login` is set.
    fn may_login(&self) -> bool {
        let address = self.connection.peer.ip();
        let is_here = address.is_none_or(|address| address.to_canonical().is_loopback());
        self.connection.is_encrypted || is_here || self.settings.plain_login
    }

    /// Whether the client has greeted.
    pub(super) const fn has_greeted(&self) -> bool {
        self.client.is_some()
    }

    /// Continues as a user that has logged in.
    pub(super) fn admit(&mut self, identity: Box<Identity>) {
        self.identity = Some(identity);
    }

    fn reply_to(&mut self, command: SmtpCommand) -> SmtpReply {
        match command {
            SmtpCommand::Hello { verb, name } => self.hello(verb, name),
            SmtpCommand::Mail(command) => self.mail(command),
            SmtpCommand::Reset => {
                self.transaction = None;
                replies::OK
            }
            SmtpCommand::Verify => replies::CANNOT_VERIFY,
            SmtpCommand::Help => SmtpReply::new(214, "2.0.0", self.dialect.help()),
            SmtpCommand::XForward(client) => self.xforward(*client),
            SmtpCommand::XClient(client) => self.xclient(*client),
            // These commands have been answered.
            SmtpCommand::Noop
            | SmtpCommand::Data
            | SmtpCommand::Quit
            | SmtpCommand::Rcpt { .. }
            | SmtpCommand::StartTls
            | SmtpCommand::Auth { .. }
            | SmtpCommand::Chunk { .. } => replies::OK,
        }
    }

    fn hello(&mut self, verb: GreetingVerb, name: String) -> SmtpReply {
        if !self.dialect.speaks(verb) {
            return self.dialect.wrong_hello();
        }
        let extended = verb != GreetingVerb::Helo;
        // RFC 5321, section 4.1.4: a new greeting resets the session.
        self.transaction = None;
        let text = if extended {
            self.extensions(&name)
        } else {
            format!("{} greets {name}", self.hostname)
        };
        self.client = Some(ClientGreeting { name, extended });
        SmtpReply::with(250, "", text)
    }

    fn extensions(&self, name: &str) -> String {
        let settings = self.settings;
        let mut text = format!(
            "{} greets {name}\nPIPELINING\nSIZE {}\n8BITMIME\nBINARYMIME\nCHUNKING\nSMTPUTF8\n\
             ENHANCEDSTATUSCODES\nLIMITS RCPTMAX={}",
            self.hostname,
            settings.message_max.bytes(),
            settings.recipients_max,
        );
        // A server that delivers must send the reports that DSN requests; one that forwards passes
        // the request on.
        if self.recipients.forwards() {
            text += "\nDSN";
        }
        if self.connection.has_tls && !self.connection.is_encrypted {
            text += "\nSTARTTLS";
        }
        if self.connection.has_login && self.may_login() {
            text += "\nAUTH ";
            text += sasl::MECHANISMS;
        }
        if self.is_trusted {
            text += "\nXFORWARD ";
            text += xclient::FORWARD_NAMES;
            text += "\nXCLIENT ";
            text += xclient::CLIENT_NAMES;
        }
        text + "\nHELP"
    }

    fn xforward(&mut self, client: ForwardedClient) -> SmtpReply {
        if !self.is_trusted {
            return replies::NOT_TRUSTED;
        }
        if self.transaction.is_some() {
            return replies::WITHIN_TRANSACTION;
        }
        self.forwarded.update(client);
        replies::OK
    }

    /// The session starts again as another client's, which must greet again.
    fn xclient(&mut self, client: ForwardedClient) -> SmtpReply {
        if !self.is_trusted {
            return replies::NOT_TRUSTED;
        }
        if self.transaction.is_some() {
            return replies::WITHIN_TRANSACTION;
        }
        self.forwarded.update(client);
        self.client = None;
        self.greeting()
    }

    /// The client: the one that a trusted peer named, or the peer itself.
    pub(super) fn peer(&self) -> Peer {
        match self.forwarded.address {
            Some(address) => {
                Peer::Address(SocketAddr::new(address, self.forwarded.port.unwrap_or(0)))
            }
            None => self.connection.peer,
        }
    }

    /// The name in the client's greeting.
    pub(super) fn helo(&self) -> Option<&str> {
        let own = self.client.as_ref().map(|client| client.name.as_str());
        self.forwarded.helo.as_deref().or(own)
    }

    /// The authenticated user.
    pub(super) fn user(&self) -> Option<&str> {
        let own = self.identity.as_ref().and_then(|identity| identity.user());
        own.or(self.forwarded.user.as_deref())
    }

    pub(super) const fn listener(&self) -> Listener {
        self.dialect.listener()
    }

    /// The protocol's name in a Received field.
    pub(super) fn protocol(&self, utf8: bool) -> &'static str {
        self.dialect.trace_name(Transmission {
            is_utf8: utf8,
            is_extended: self.client.as_ref().is_some_and(|client| client.extended),
            is_encrypted: self.connection.is_encrypted,
            is_authenticated: self.identity.is_some(),
        })
    }
}
