//! One connection: reads, passes lines to the session and messages to `delivery`, writes replies.
//!
//! All commands of a read are answered with one write (PIPELINING, RFC 2920, section 3.2). The
//! reply to a message is written when the message is durable, and later commands wait for it.

use std::io;

use bytes::{Buf, BytesMut};
use gatepost_bans::Offence;
use gatepost_message::Peer;
use gatepost_users::{Credentials, Identity, ListenerAuth, PeerAccount};
use memchr::memchr;
use tokio::sync::watch;
use tokio::time::Instant;

use super::SmtpContext;
use super::dialect::Dialect;
use super::replies;
use super::reply::SmtpReply;
use super::session::{ConnectionFacts, SmtpSession};
use super::transaction::CommandOutcome;
use crate::foreign_protocol::{self, spoke_before_greeting};
use crate::forward::HopTransaction;
use crate::in_flight::InFlightLease;
use crate::minimum_rate::MinimumRate;
use crate::stream::Stream;
use crate::wire;

/// Serves one client until it ends, errs too often or is too slow.
pub(super) async fn serve(
    stream: Stream,
    peer: Peer,
    context: &SmtpContext,
    shutdown: watch::Receiver<bool>,
) -> io::Result<()> {
    let anonymous = match &context.anonymous {
        Some(auth) => Some(anonymous_identity(auth, peer, &stream).await?),
        None => None,
    };
    let anonymous = anonymous.as_ref();
    let mut connection = SmtpConnection {
        stream,
        peer,
        awaits_hello_since: Instant::now(),
        context,
        shutdown,
        input: BytesMut::new(),
        skips_line: false,
        output: Vec::new(),
        errors: 0,
        lease: None,
        relay: None,
    };
    let mut session = connection.session(peer, anonymous);
    if spoke_before_greeting(&connection.stream) {
        connection.note(Offence::ProtocolFault);
        connection.push_reply(&replies::TOO_EARLY);
        return connection.flush().await;
    }
    session.greeting().write_to(&mut connection.output);
    loop {
        let ended = connection.converse(&mut session).await;
        // Replies are sent even if the conversation ended with an error.
        connection.flush().await?;
        if ended? == ConversationEnd::Connection {
            return Ok(());
        }
        let Some(tls) = &context.tls else {
            return Ok(());
        };
        // RFC 3207, section 4.2: the session starts again without knowledge of the client. Plain
        // text that arrived after the command is discarded: an attacker could have inserted it.
        connection.input.clear();
        connection.stream = tls.accept(connection.stream).await?;
        connection.awaits_hello_since = Instant::now();
        session = connection.session(peer, anonymous);
    }
}

/// The rights of a client without a login.
async fn anonymous_identity(
    auth: &ListenerAuth,
    peer: Peer,
    stream: &Stream,
) -> io::Result<Identity> {
    let auth = auth.for_account(peer, || PeerAccount::of(peer, stream.descriptor()));
    let identity = auth.authenticate(Credentials::Anonymous, peer, None).await;
    identity.map_err(io::Error::other)
}

/// The reason why a conversation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConversationEnd {
    Connection,
    /// It continues in TLS.
    StartTls,
}

/// The time limits of a message that is arriving.
pub(super) struct MessageDeadline {
    rate: MinimumRate,
    ends: Instant,
}

pub(super) struct SmtpConnection<'a> {
    stream: Stream,
    /// The peer itself, even if it names another client for a message.
    peer: Peer,
    /// The instant since which the server waits for the client's greeting.
    awaits_hello_since: Instant,
    pub(super) context: &'a SmtpContext,
    shutdown: watch::Receiver<bool>,
    /// Received and not yet parsed.
    pub(super) input: BytesMut,
    /// The rest of a line that was too long is discarded when it arrives.
    skips_line: bool,
    /// Replies that are not yet written.
    output: Vec<u8>,
    errors: usize,
    /// The part of the process's budget that the unfinished transaction uses.
    lease: Option<InFlightLease>,
    /// The transaction at the next hop, parallel to the client's.
    pub(super) relay: Option<Box<HopTransaction>>,
}

impl<'a> SmtpConnection<'a> {
    /// A session in its initial state.
    fn session(&self, peer: Peer, anonymous: Option<&'a Identity>) -> SmtpSession<'a> {
        let context = self.context;
        let facts = ConnectionFacts {
            peer,
            local_ip: self.stream.local_ip(),
            is_encrypted: self.stream.tls().is_some(),
            has_tls: context.tls.is_some(),
            has_login: context.auth.as_ref().is_some_and(ListenerAuth::any_user),
        };
        SmtpSession::new(
            context.dialect,
            &context.settings,
            &context.recipients,
            &context.hostname,
            facts,
            anonymous,
        )
    }

    async fn converse(&mut self, session: &mut SmtpSession<'_>) -> io::Result<ConversationEnd> {
        let settings = &self.context.settings;
        while let Some(line) = self.next_command(session).await? {
            let next = match line {
                Ok(line) if foreign_protocol::is_http(&line) => {
                    self.note(Offence::ProtocolFault);
                    CommandOutcome::End(replies::NOT_HTTP)
                }
                Ok(line) => session.line(&line),
                Err(reply) => CommandOutcome::Reply(reply),
            };
            let had_greeted = session.has_greeted();
            if let Some(end) = self.act(session, next).await? {
                return Ok(end);
            }
            if had_greeted && !session.has_greeted() {
                // XCLIENT: another client's session begins.
                self.awaits_hello_since = Instant::now();
                self.errors = 0;
            }
            let errors_max = if session.has_greeted() {
                settings.errors_max
            } else {
                settings.errors_before_hello_max.min(settings.errors_max)
            };
            if self.errors > errors_max {
                self.note(Offence::ProtocolFault);
                self.push_reply(&replies::TOO_MANY_ERRORS);
                break;
            }
        }
        Ok(ConversationEnd::Connection)
    }

    /// The next command line. A client that has not greeted has one time limit for all its lines.
    async fn next_command(
        &mut self,
        session: &SmtpSession<'_>,
    ) -> io::Result<Option<Result<BytesMut, SmtpReply>>> {
        let settings = &self.context.settings;
        let mut deadline = Instant::now() + settings.command_timeout.duration();
        if !session.has_greeted() {
            deadline = deadline.min(self.awaits_hello_since + settings.hello_timeout.duration());
        }
        self.line_before(deadline).await
    }

    /// The next line, or its error; `None` if the connection ends.
    pub(super) async fn next_line(&mut self) -> io::Result<Option<Result<BytesMut, SmtpReply>>> {
        let deadline = Instant::now() + self.context.settings.command_timeout.duration();
        self.line_before(deadline).await
    }

    /// The deadline is for the whole line, in however many pieces it arrives.
    async fn line_before(
        &mut self,
        deadline: Instant,
    ) -> io::Result<Option<Result<BytesMut, SmtpReply>>> {
        loop {
            if let Some(line) = self.take_line() {
                return Ok(Some(line));
            }
            if !self.fill(deadline, Interrupt::ByShutdown).await? {
                return Ok(None);
            }
        }
    }

    /// Executes a command, and returns whether the conversation ends with it.
    async fn act(
        &mut self,
        session: &mut SmtpSession<'_>,
        next: CommandOutcome,
    ) -> io::Result<Option<ConversationEnd>> {
        match next {
            CommandOutcome::Reply(reply) => {
                self.note_recipient(session, &reply);
                self.answer(&reply);
            }
            CommandOutcome::End(reply) => {
                self.answer(&reply);
                return Ok(Some(ConversationEnd::Connection));
            }
            CommandOutcome::EndDiscarding(reply, bytes_max) => {
                self.answer(&reply);
                self.discard_input(bytes_max).await?;
                return Ok(Some(ConversationEnd::Connection));
            }
            CommandOutcome::StartTls(reply) => {
                self.answer(&reply);
                return Ok(Some(ConversationEnd::StartTls));
            }
            CommandOutcome::Auth { mechanism, initial } => {
                if !self.login(session, &mechanism, initial).await? {
                    return Ok(Some(ConversationEnd::Connection));
                }
            }
            CommandOutcome::Ask(recipient) => {
                let reply = self.verify_recipient(session, *recipient).await;
                self.note_recipient(session, &reply);
                self.answer(&reply);
            }
            CommandOutcome::Data(reply) => {
                self.answer(&reply);
                self.data(session).await?;
            }
            CommandOutcome::Chunk(chunk) => self.chunk(session, chunk).await?,
        }
        if session.transaction().is_none() {
            self.lease = None;
            if let Some(relay) = self.relay.take() {
                relay.end().await;
            }
        }
        Ok(None)
    }

    /// Whether the process's budget has room for this many bytes of the client's transaction.
    pub(super) fn has_room(&mut self, client: Peer, bytes: u64) -> bool {
        let in_flight = &self.context.limits.in_flight;
        let lease = self.lease.get_or_insert_with(|| in_flight.lease(client));
        lease.reserve(bytes).is_ok()
    }

    /// Records an offence of the peer.
    pub(super) fn note(&self, offence: Offence) {
        self.context.limits.admission.offended(self.peer, offence);
    }

    /// Records a recipient that does not exist as an offence, except for LMTP peers, which are mail
    /// servers that forward the mail of others, and for users, who make mistakes.
    fn note_recipient(&self, session: &SmtpSession<'_>, reply: &SmtpReply) {
        let is_stranger = self.context.dialect == Dialect::Smtp && session.user().is_none();
        if is_stranger && reply.refuses_recipient() {
            self.note(Offence::UnknownRecipient);
        }
    }

    /// Replies to a command. A negative reply counts as a protocol error.
    pub(super) fn answer(&mut self, reply: &SmtpReply) {
        self.errors += usize::from(reply.is_error());
        self.push_reply(reply);
    }

    /// Replies without counting: a refused message is not a protocol error of the relay that
    /// brought it.
    pub(super) fn push_reply(&mut self, reply: &SmtpReply) {
        reply.write_to(&mut self.output);
    }

    /// Removes a line from the input. Only CR LF ends a command: a line that ends with a lone LF is
    /// refused and not executed, and no part of an overlong line is executed.
    fn take_line(&mut self) -> Option<Result<BytesMut, SmtpReply>> {
        let limit = self.context.settings.command_max.as_usize();
        if self.skips_line {
            let Some(end) = memchr(b'\n', &self.input) else {
                self.input.clear();
                return None;
            };
            self.input.advance(end + 1);
            self.skips_line = false;
        }
        let Some(end) = memchr(b'\n', &self.input) else {
            if self.input.len() <= limit {
                return None;
            }
            self.input.clear();
            self.skips_line = true;
            return Some(Err(replies::LINE_TOO_LONG));
        };
        let mut line = self.input.split_to(end + 1);
        if !line.ends_with(b"\r\n") {
            return Some(Err(replies::BARE_NEWLINE));
        }
        line.truncate(line.len() - 2);
        if line.len() > limit {
            return Some(Err(replies::LINE_TOO_LONG));
        }
        Some(Ok(line))
    }

    /// Acknowledges a part of a message immediately if the peer waits for that before it continues.
    pub(super) fn acknowledge_now(&self) {
        if self.output.is_empty() {
            self.stream.acknowledge_now();
        }
    }

    /// A message that begins to arrive now.
    pub(super) fn begin_message(&self) -> MessageDeadline {
        let settings = &self.context.settings;
        let began = Instant::now();
        MessageDeadline {
            rate: MinimumRate::new(
                began,
                settings.data_timeout.duration(),
                settings.data_rate_min.bytes(),
            ),
            ends: began + settings.message_timeout.duration(),
        }
    }

    /// Waits for more of a message. The client's end is an error, since the message is not whole.
    pub(super) async fn fill_message(&mut self, arrival: &mut MessageDeadline) -> io::Result<()> {
        let before = self.input.len();
        let deadline = arrival.rate.deadline(Instant::now()).min(arrival.ends);
        if self.fill(deadline, Interrupt::Never).await? {
            arrival.rate.add(self.input.len() - before);
            return Ok(());
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }

    /// Writes pending replies and reads some bytes; returns false at the end of input.
    async fn fill(&mut self, deadline: Instant, interrupt: Interrupt) -> io::Result<bool> {
        self.flush().await?;
        let interruptible = interrupt == Interrupt::ByShutdown;
        let read = tokio::select! {
            biased;
            read = wire::read(&self.stream, &mut self.input, deadline) => read,
            _ = self.shutdown.wait_for(|&down| down), if interruptible => {
                replies::SHUTTING_DOWN.write_to(&mut self.output);
                return Ok(false);
            }
        };
        match read {
            Ok(count) => Ok(count > 0),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                replies::TIMEOUT.write_to(&mut self.output);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    pub(super) async fn flush(&mut self) -> io::Result<()> {
        if !self.output.is_empty() {
            let deadline = Instant::now() + self.context.settings.command_timeout.duration();
            wire::write(&self.stream, &self.output, deadline).await?;
            self.output.clear();
        }
        Ok(())
    }
}

/// Whether a shutdown of the server interrupts waiting. A message that is being sent is still
/// received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Interrupt {
    ByShutdown,
    Never,
}
