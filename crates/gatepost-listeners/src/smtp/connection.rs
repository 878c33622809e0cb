//! One connection: reads, hands lines to the session and messages to the gateway, writes replies.
//!
//! All commands of a read are answered with one write, as PIPELINING wants it (RFC 2920 § 3.2);
//! the reply to a message is written when its promise is kept, and what follows waits for it.

use std::io;
use std::time::Duration;

use bytes::BytesMut;
use gatepost_message::{Envelope, Format, Listener, Message, MessageId, Peer, Qos};
use memchr::memchr;
use tokio::sync::watch;
use tokio::time::Instant;

use super::SmtpContext;
use super::data::{self, DataReceiver, Received};
use super::reply::{self, Reply};
use super::session::{Next, Session};
use super::trace;
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
        peer,
        context,
        shutdown,
        input: BytesMut::new(),
        output: Vec::new(),
        errors: 0,
    };
    let mut session = Session::new(&context.settings, &context.recipients, &context.hostname);
    session.greeting().write_to(&mut connection.output);
    let outcome = connection.converse(&mut session).await;
    // What was answered is said, also when the conversation ended with an error.
    connection.flush().await?;
    outcome
}

struct Connection<'a> {
    stream: Stream,
    peer: Peer,
    context: &'a SmtpContext,
    shutdown: watch::Receiver<bool>,
    /// Read, and not yet understood.
    input: BytesMut,
    /// Answered, and not yet written.
    output: Vec<u8>,
    errors: usize,
}

impl Connection<'_> {
    async fn converse(&mut self, session: &mut Session<'_>) -> io::Result<()> {
        loop {
            while let Some(line) = self.take_line() {
                let next = match line {
                    Ok(line) => session.line(&line),
                    Err(reply) => Next::Reply(reply),
                };
                match next {
                    Next::Reply(reply) => self.answer(&reply),
                    Next::End(reply) => {
                        self.answer(&reply);
                        return Ok(());
                    }
                    Next::Data(reply) => {
                        self.answer(&reply);
                        let answer = self.message(session).await?;
                        self.answer(&answer);
                    }
                }
                if self.errors > self.context.settings.errors_max {
                    reply::TOO_MANY_ERRORS.write_to(&mut self.output);
                    return Ok(());
                }
            }
            if !self
                .fill(self.context.settings.command_timeout.duration())
                .await?
            {
                return Ok(());
            }
        }
    }

    fn answer(&mut self, reply: &Reply) {
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

    /// Receives a message and has it judged; the reply that ends the transaction.
    async fn message(&mut self, session: &mut Session<'_>) -> io::Result<Reply> {
        let settings = &self.context.settings;
        let mut receiver = DataReceiver::new(
            settings.message_max.as_usize(),
            settings.line_max.as_usize(),
        );
        loop {
            match receiver.receive(&self.input) {
                Received::End { consumed } => {
                    let _ = self.input.split_to(consumed);
                    break;
                }
                Received::More => self.input.clear(),
            }
            if !self.fill(settings.data_timeout.duration()).await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let transaction = session.take_transaction();
        let body = match receiver.finish() {
            Ok(body) => body,
            Err(refusal) => return Ok(refusal),
        };
        if data::received_fields(&body) > settings.received_max {
            return Ok(reply::LOOP);
        }
        let id = MessageId::next();
        let client = session.client();
        let mut field =
            trace::received_field(&self.context.hostname, client, self.peer, &transaction, id)
                .into_bytes();
        field.extend_from_slice(&body);
        let envelope = Envelope {
            client: client.map(|client| client.name.clone()),
            sender: Some(
                transaction
                    .from
                    .map(|from| from.address)
                    .unwrap_or_default(),
            ),
            recipients: transaction
                .to
                .iter()
                .map(|(to, _)| to.address.clone())
                .collect(),
            ..Envelope::new(Listener::Smtp, self.peer)
        };
        let mut topics: Vec<_> = transaction.to.into_iter().map(|(_, topic)| topic).collect();
        topics.sort();
        topics.dedup();
        let mut message = Message::new(envelope, None, Format::Mail, field.into());
        message.id = id;
        message.qos = Qos::AtLeastOnce;
        // What was answered before is said while the judges think.
        self.flush().await?;
        let outcome = self
            .context
            .gateway
            .submit_mail(message, &topics, settings.payload)
            .await;
        Ok(reply::of_verdict(id, &outcome.verdict))
    }

    /// Writes what was answered and reads what comes; false at the client's end.
    async fn fill(&mut self, patience: Duration) -> io::Result<bool> {
        self.flush().await?;
        let deadline = Instant::now() + patience;
        let read = tokio::select! {
            biased;
            read = wire::read(&self.stream, &mut self.input, deadline) => read,
            _ = self.shutdown.wait_for(|&down| down) => {
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

    async fn flush(&mut self) -> io::Result<()> {
        if !self.output.is_empty() {
            let deadline = Instant::now() + self.context.settings.command_timeout.duration();
            wire::write(&self.stream, &self.output, deadline).await?;
            self.output.clear();
        }
        Ok(())
    }
}
