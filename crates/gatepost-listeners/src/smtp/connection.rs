//! One connection: reads, hands lines to the session and messages to the gateway, writes replies.
//!
//! All commands of a read are answered with one write, as PIPELINING wants it (RFC 2920 § 3.2);
//! the reply to a message is written when its promise is kept, and what follows waits for it.

use std::cmp::Reverse;
use std::io;

use bytes::{Bytes, BytesMut};
use gatepost_message::{Envelope, Format, Message, MessageId, Peer, Qos, Topic};
use gatepost_procedures::ScopeId;
use memchr::memchr;
use tokio::sync::watch;
use tokio::time::Instant;

use super::SmtpContext;
use super::data::{self, DataReceiver, Received};
use super::dialect::Dialect;
use super::path::Mailbox;
use super::reply::{self, Reply};
use super::session::{Client, Next, Session, Transaction};
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
    let mut session = Session::new(
        context.dialect,
        &context.settings,
        &context.recipients,
        &context.hostname,
    );
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
        let command_timeout = self.context.settings.command_timeout.duration();
        // A whole command must come in time, whatever the drops in which it comes.
        let mut deadline = Instant::now() + command_timeout;
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
                        self.message(session).await?;
                    }
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

    /// Receives a message, has it judged, and answers what ends the transaction.
    async fn message(&mut self, session: &mut Session<'_>) -> io::Result<()> {
        let settings = &self.context.settings;
        let received = self.receive().await?;
        let transaction = session.take_transaction();
        let refusal = match received {
            Err(refusal) => refusal,
            Ok(body) if data::received_fields(&body) > settings.received_max => reply::LOOP,
            Ok(body) => return self.submit(session.client(), transaction, body).await,
        };
        let replies = match self.context.dialect {
            Dialect::Smtp => 1,
            Dialect::Lmtp => transaction.to.len(),
        };
        for _ in 0..replies {
            self.answer(&refusal);
        }
        Ok(())
    }

    /// Reads a message up to its end.
    async fn receive(&mut self) -> io::Result<Result<Vec<u8>, Reply>> {
        let settings = &self.context.settings;
        let mut receiver = DataReceiver::new(
            settings.message_max.as_usize(),
            settings.line_max.as_usize(),
        );
        let whole = Instant::now() + settings.message_timeout.duration();
        loop {
            match receiver.receive(&self.input) {
                Received::End { consumed } => {
                    let _ = self.input.split_to(consumed);
                    return Ok(receiver.finish());
                }
                Received::More => self.input.clear(),
            }
            let deadline = whole.min(Instant::now() + settings.data_timeout.duration());
            if !self.fill(deadline, Interrupt::Never).await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Has the message judged, once for each scope among its recipients, and answers: once, or in
    /// LMTP for each recipient.
    async fn submit(
        &mut self,
        client: Option<&Client>,
        transaction: Transaction,
        body: Vec<u8>,
    ) -> io::Result<()> {
        // What was answered before is said while the judges think.
        self.flush().await?;
        let body = self.traced(client, &transaction, body);
        let sender = transaction.from.map(|from| from.address);
        let sender = sender.unwrap_or_default();
        let gateway = &self.context.gateway;
        let (mut mails, mut places) = (Vec::new(), Vec::new());
        for group in self.groups(transaction.to) {
            let envelope = Envelope {
                client: client.map(|client| client.name.clone()),
                sender: Some(sender.clone()),
                recipients: group.recipients,
                ..Envelope::new(self.context.dialect.listener(), self.peer)
            };
            let mut message = Message::new(envelope, None, Format::Mail, body.clone());
            message.qos = Qos::AtLeastOnce;
            mails.push(gateway.judge_mail(message, group.topics).await);
            places.push(group.places);
        }
        if self.context.dialect == Dialect::Smtp {
            crate::together::agree(&mut mails);
        }
        let mut replies = Vec::new();
        for (mail, places) in mails.into_iter().zip(places) {
            let id = mail.message().id;
            let payload = self.context.settings.payload;
            let outcome = gateway.carry_out(mail, payload).await;
            let reply = reply::of_verdict(id, &outcome.verdict);
            replies.extend(places.iter().map(|&place| (place, reply.clone())));
        }
        match self.context.dialect {
            Dialect::Smtp => {
                // A disk that failed one group is told before another group's success.
                let one = replies.into_iter().max_by_key(|(place, reply)| {
                    (reply.code >= 400, reply.code < 500, Reverse(*place))
                });
                if let Some((_, reply)) = one {
                    self.answer(&reply);
                }
            }
            Dialect::Lmtp => {
                replies.sort_by_key(|(place, _)| *place);
                for (_, reply) in &replies {
                    self.answer(reply);
                }
            }
        }
        Ok(())
    }

    /// The message with our Received field in front.
    fn traced(&self, client: Option<&Client>, transaction: &Transaction, body: Vec<u8>) -> Bytes {
        let (dialect, hostname) = (self.context.dialect, &self.context.hostname);
        let id = MessageId::next();
        let field = trace::received_field(dialect, hostname, client, self.peer, transaction, id);
        let mut message = field.into_bytes();
        message.extend_from_slice(&body);
        message.into()
    }

    /// The recipients that are judged together.
    fn groups(&self, to: Vec<(Mailbox, Topic)>) -> Vec<Group> {
        let procedures = self.context.gateway.procedures();
        let mut groups: Vec<Group> = Vec::new();
        for (place, (mailbox, topic)) in to.into_iter().enumerate() {
            let recipient = [mailbox.address];
            let listener = self.context.dialect.listener();
            let scope = procedures.scope_for(listener, Some(topic.as_str()), &recipient);
            let known = groups.iter().position(|group| group.scope == scope);
            let place_of_group = known.unwrap_or_else(|| {
                groups.push(Group {
                    scope,
                    ..Group::default()
                });
                groups.len() - 1
            });
            if let Some(group) = groups.get_mut(place_of_group) {
                group.places.push(place);
                group.recipients.extend(recipient);
                if !group.topics.contains(&topic) {
                    group.topics.push(topic);
                }
            }
        }
        groups
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

    async fn flush(&mut self) -> io::Result<()> {
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

/// Recipients whose mail has one verdict.
#[derive(Debug, Default)]
struct Group {
    scope: Option<ScopeId>,
    /// Which of the accepted recipients they are.
    places: Vec<usize>,
    recipients: Vec<String>,
    topics: Vec<Topic>,
}
