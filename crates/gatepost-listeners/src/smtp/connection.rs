//! One connection: reads, hands lines to the session and messages to `delivery`, writes replies.
//!
//! All commands of a read are answered with one write, as PIPELINING wants it (RFC 2920 § 3.2);
//! the reply to a message is written when its promise is kept, and what follows waits for it.

use std::io;

use bytes::BytesMut;
use gatepost_message::Peer;
use memchr::memchr;
use tokio::sync::watch;
use tokio::time::Instant;

use super::SmtpContext;
use super::reply::{self, Reply};
use super::session::{Next, Session};
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
        output: Vec::new(),
        errors: 0,
        relay: None,
    };
    let mut session = Session::new(
        context.dialect,
        &context.settings,
        &context.recipients,
        &context.hostname,
        peer,
    );
    session.greeting().write_to(&mut connection.output);
    let outcome = connection.converse(&mut session).await;
    // What was answered is said, also when the conversation ended with an error.
    connection.flush().await?;
    outcome
}

pub(super) struct Connection<'a> {
    stream: Stream,
    pub(super) context: &'a SmtpContext,
    shutdown: watch::Receiver<bool>,
    /// Read, and not yet understood.
    pub(super) input: BytesMut,
    /// Answered, and not yet written.
    output: Vec<u8>,
    errors: usize,
    /// The transaction at the next hop beside the client's.
    pub(super) relay: Option<Box<Relay>>,
}

impl Connection<'_> {
    async fn converse(&mut self, session: &mut Session<'_>) -> io::Result<()> {
        let command_timeout = self.context.settings.command_timeout.duration();
        // A whole command must come in time, whatever the drops in which it comes.
        let mut deadline = Instant::now() + command_timeout;
        loop {
            while let Some(line) = self.take_line() {
                let next = match line {
                    Ok(line) => session.line(&line),
                    Err(reply) => Next::Reply(reply),
                };
                if !self.act(session, next).await? {
                    return Ok(());
                }
                if self.errors > self.context.settings.errors_max {
                    reply::TOO_MANY_ERRORS.write_to(&mut self.output);
                    return Ok(());
                }
                deadline = Instant::now() + command_timeout;
            }
            if !self.fill(deadline, Interrupt::ByShutdown).await? {
                return Ok(());
            }
        }
    }

    /// Does what a command asks for; false where the connection ends.
    async fn act(&mut self, session: &mut Session<'_>, next: Next) -> io::Result<bool> {
        match next {
            Next::Reply(reply) => self.answer(&reply),
            Next::End(reply) => {
                self.answer(&reply);
                return Ok(false);
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
        Ok(true)
    }

    pub(super) fn answer(&mut self, reply: &Reply) {
        self.errors += usize::from(reply.is_error());
        reply.write_to(&mut self.output);
    }

    /// Takes a line off the input. Only CR LF ends a command; a lone LF is told, and what stands
    /// before it is not executed.
    fn take_line(&mut self) -> Option<Result<BytesMut, Reply>> {
        let limit = self.context.settings.command_max.as_usize();
        let Some(end) = memchr(b'\n', &self.input) else {
            if self.input.len() <= limit {
                return None;
            }
            // The rest of the line will come, and be another error; the count ends it.
            self.input.clear();
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
