//! One connection: reads, hands lines to the session and messages to `delivery`, writes replies.
//!
//! All commands of a read are answered with one write, as PIPELINING wants it (RFC 2920 § 3.2);
//! the reply to a message is written when its promise is kept, and what follows waits for it.

use std::io;

use bytes::{Buf, BytesMut};
use gatepost_message::Peer;
use gatepost_users::Door;
use memchr::memchr;
use tokio::sync::watch;
use tokio::time::Instant;

use super::SmtpContext;
use super::reply::{self, Reply};
use super::session::{Ground, Session};
use super::transaction::Next;
use crate::forward::Relay;
use crate::stream::Stream;
use crate::wire;

/// Serves one client until it ends, errs too often or is too slow.
pub(super) async fn serve(
    stream: Stream,
    peer: Peer,
    context: &SmtpContext,
    shutdown: watch::Receiver<bool>,
) -> io::Result<()> {
    let mut connection = Connection {
        stream,
        context,
        shutdown,
        input: BytesMut::new(),
        is_passing_over: false,
        output: Vec::new(),
        errors: 0,
        relay: None,
    };
    let mut session = connection.session(peer);
    session.greeting().write_to(&mut connection.output);
    loop {
        let ended = connection.converse(&mut session).await;
        // What was answered is said, also when the conversation ended with an error.
        connection.flush().await?;
        if ended? == End::Connection {
            return Ok(());
        }
        let Some(tls) = &context.tls else {
            return Ok(());
        };
        // RFC 3207 § 4.2: nothing is known of the client any more; and what came in plain text
        // behind the command is forgotten, since anyone on the way could have put it there.
        connection.input.clear();
        connection.stream = tls.accept(connection.stream).await?;
        session = connection.session(peer);
    }
}

/// Why a conversation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Connection,
    /// It goes on in TLS.
    StartTls,
}

pub(super) struct Connection<'a> {
    stream: Stream,
    pub(super) context: &'a SmtpContext,
    shutdown: watch::Receiver<bool>,
    /// Read, and not yet understood.
    pub(super) input: BytesMut,
    /// The rest of a line that was too long is still to come.
    is_passing_over: bool,
    /// Answered, and not yet written.
    output: Vec<u8>,
    errors: usize,
    /// The transaction at the next hop beside the client's.
    pub(super) relay: Option<Box<Relay>>,
}

impl<'a> Connection<'a> {
    /// A conversation with nothing said yet.
    fn session(&self, peer: Peer) -> Session<'a> {
        let context = self.context;
        let door = context.door.as_ref();
        let ground = Ground {
            peer,
            is_encrypted: self.stream.tls().is_some(),
            has_tls: context.tls.is_some(),
            has_login: door.is_some_and(Door::any_user),
        };
        Session::new(
            context.dialect,
            &context.settings,
            &context.recipients,
            &context.hostname,
            ground,
        )
    }

    async fn converse(&mut self, session: &mut Session<'_>) -> io::Result<End> {
        while let Some(line) = self.next_line().await? {
            let next = match line {
                Ok(line) => session.line(&line),
                Err(reply) => Next::Reply(reply),
            };
            if let Some(end) = self.act(session, next).await? {
                return Ok(end);
            }
            if self.errors > self.context.settings.errors_max {
                reply::TOO_MANY_ERRORS.write_to(&mut self.output);
                break;
            }
        }
        Ok(End::Connection)
    }

    /// The next line, or what is wrong with it; `None` where the connection ends. A whole line must
    /// come in time, whatever the drops in which it comes.
    pub(super) async fn next_line(&mut self) -> io::Result<Option<Result<BytesMut, Reply>>> {
        let deadline = Instant::now() + self.context.settings.command_timeout.duration();
        loop {
            if let Some(line) = self.take_line() {
                return Ok(Some(line));
            }
            if !self.fill(deadline, Interrupt::ByShutdown).await? {
                return Ok(None);
            }
        }
    }

    /// Does what a command asks for, and says whether the conversation ends with it.
    async fn act(&mut self, session: &mut Session<'_>, next: Next) -> io::Result<Option<End>> {
        match next {
            Next::Reply(reply) => self.answer(&reply),
            Next::End(reply) => {
                self.answer(&reply);
                return Ok(Some(End::Connection));
            }
            Next::StartTls(reply) => {
                self.answer(&reply);
                return Ok(Some(End::StartTls));
            }
            Next::Auth { mechanism, initial } => {
                if !self.login(session, &mechanism, initial).await? {
                    return Ok(Some(End::Connection));
                }
            }
            Next::Ask(recipient) => {
                let reply = self.ask(session, *recipient).await;
                self.answer(&reply);
            }
            Next::Data(reply) => {
                self.answer(&reply);
                self.data(session).await?;
            }
            Next::Chunk {
                size,
                last,
                refusal,
            } => self.chunk(session, size, last, refusal).await?,
        }
        if session.transaction().is_none()
            && let Some(relay) = self.relay.take()
        {
            relay.end().await;
        }
        Ok(None)
    }

    pub(super) fn answer(&mut self, reply: &Reply) {
        self.errors += usize::from(reply.is_error());
        reply.write_to(&mut self.output);
    }

    /// Takes a line off the input. Only CR LF ends a command; a lone LF is told, and what stands
    /// before it is not executed. Of a line that is too long no part is, wherever the reads cut it.
    fn take_line(&mut self) -> Option<Result<BytesMut, Reply>> {
        let limit = self.context.settings.command_max.as_usize();
        if self.is_passing_over {
            let Some(end) = memchr(b'\n', &self.input) else {
                self.input.clear();
                return None;
            };
            self.input.advance(end + 1);
            self.is_passing_over = false;
        }
        let Some(end) = memchr(b'\n', &self.input) else {
            if self.input.len() <= limit {
                return None;
            }
            self.input.clear();
            self.is_passing_over = true;
            return Some(Err(reply::LINE_TOO_LONG));
        };
        let mut line = self.input.split_to(end + 1);
        if !line.ends_with(b"\r\n") {
            return Some(Err(reply::BARE_NEWLINE));
        }
        line.truncate(line.len() - 2);
        if line.len() > limit {
            return Some(Err(reply::LINE_TOO_LONG));
        }
        Some(Ok(line))
    }

    /// Lets the peer send on where it waits to hear that a part of a message has come.
    pub(super) fn acknowledge_now(&self) {
        if self.output.is_empty() {
            self.stream.acknowledge_now();
        }
    }

    /// Waits for more of a message; an error at the client's end, since it has broken off.
    pub(super) async fn fill_message(&mut self, whole: Instant) -> io::Result<()> {
        let pause = self.context.settings.data_timeout.duration();
        let deadline = whole.min(Instant::now() + pause);
        if self.fill(deadline, Interrupt::Never).await? {
            return Ok(());
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }

    /// Writes what was answered and reads what comes; false at the client's end.
    async fn fill(&mut self, deadline: Instant, interrupt: Interrupt) -> io::Result<bool> {
        self.flush().await?;
        let interruptible = interrupt == Interrupt::ByShutdown;
        let read = tokio::select! {
            biased;
            read = wire::read(&self.stream, &mut self.input, deadline) => read,
            _ = self.shutdown.wait_for(|&down| down), if interruptible => {
                reply::SHUTTING_DOWN.write_to(&mut self.output);
                return Ok(false);
            }
        };
        match read {
            Ok(count) => Ok(count > 0),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                reply::TIMEOUT.write_to(&mut self.output);
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

/// Whether waiting ends when the server does. A message that is being sent is still taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Interrupt {
    ByShutdown,
    Never,
}
