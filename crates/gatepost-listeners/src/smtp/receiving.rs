//! Reading a message, by DATA or in BDAT's chunks, and asking about recipients before it.

use std::io;

use bytes::Buf;
use tokio::time::Instant;

use super::connection::Connection;
use super::data::{self, DataReceiver, Received};
use super::delivery;
use super::dialect::Dialect;
use super::recipients::Destination;
use super::reply::{self, Reply};
use super::session::Session;
use super::transaction::Recipient;
use crate::forward::{Begun, Body, HopError, Mail, Origin, Relay};

impl Connection<'_> {
    /// Receives a message after DATA, has it judged, and answers what ends the transaction.
    pub(super) async fn data(&mut self, session: &mut Session<'_>) -> io::Result<()> {
        let received = self.receive().await?;
        self.end_of_message(session, received).await
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
                    self.input.advance(consumed);
                    return Ok(receiver.finish());
                }
                Received::More if self.input.is_empty() => {}
                Received::More => {
                    self.input.clear();
                    self.acknowledge_now();
                }
            }
            self.fill_message(whole).await?;
        }
    }

    /// Reads one chunk (RFC 3030 § 2); with the last one the message is whole. A chunk that is
    /// refused is read all the same, since a command follows it.
    pub(super) async fn chunk(
        &mut self,
        session: &mut Session<'_>,
        size: u64,
        last: bool,
        refusal: Option<Reply>,
    ) -> io::Result<()> {
        let whole = Instant::now() + self.context.settings.message_timeout.duration();
        let mut left = size;
        while left > 0 {
            if self.input.is_empty() {
                self.fill_message(whole).await?;
            }
            let count = self
                .input
                .len()
                .min(usize::try_from(left).unwrap_or(usize::MAX));
            if refusal.is_none()
                && let Some(chunks) = session.chunks()
            {
                chunks.extend_from_slice(&self.input[..count]);
            }
            self.input.advance(count);
            left -= count as u64;
        }
        if let Some(refusal) = refusal {
            self.answer(&refusal);
            return Ok(());
        }
        let message = session.chunks();
        if !last {
            let text = format!("{size} octets received");
            self.answer(&Reply::with(250, "2.0.0", text));
            return Ok(());
        }
        let message = message.map(std::mem::take).unwrap_or_default();
        let is_binary = session
            .transaction()
            .is_some_and(|it| it.body == Body::Binary);
        let line_max = self.context.settings.line_max.as_usize();
        let received = match data::check_lines(&message, line_max) {
            Err(refusal) if !is_binary => Err(refusal),
            _ => Ok(message),
        };
        self.end_of_message(session, received).await
    }

    async fn end_of_message(
        &mut self,
        session: &mut Session<'_>,
        received: Result<Vec<u8>, Reply>,
    ) -> io::Result<()> {
        let transaction = session.take_transaction();
        let received_max = self.context.settings.received_max;
        let refusal = match received {
            Err(refusal) => refusal,
            Ok(body) if data::received_fields(&body) > received_max => reply::LOOP,
            Ok(body) => return delivery::deliver(self, session, transaction, body).await,
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

    /// Asks whether a recipient's mail is taken: the next hop, or the recipient's mailbox.
    pub(super) async fn ask(&mut self, session: &mut Session<'_>, recipient: Recipient) -> Reply {
        match &recipient.destination {
            Destination::Topic(_) => session.accept(recipient),
            Destination::Mailbox(user) => {
                let room = self.context.settings.mailbox_max.bytes();
                match self.context.gateway.mailbox_bytes(user.clone()).await {
                    Ok(held) if held >= room => reply::MAILBOX_FULL,
                    Ok(_) => session.accept(recipient),
                    Err(error) => {
                        tracing::error!(target: "smtp", %error, "a mailbox could not be read");
                        reply::NOT_NOW
                    }
                }
            }
            Destination::Forward(next_hop) => match self.ask_next_hop(session, &recipient).await {
                Ok(reply) if reply.code < 300 => {
                    session.accept(recipient);
                    reply
                }
                Ok(reply) => reply,
                Err(error) => {
                    let cause = error.with_cause();
                    tracing::warn!(target: "smtp", %next_hop, "not asked about a recipient: {cause}");
                    // Recipients that it had accepted are lost with it; the end will say so.
                    self.relay = None;
                    reply::of_hop_error(&error)
                }
            },
        }
    }

    async fn ask_next_hop(
        &mut self,
        session: &Session<'_>,
        recipient: &Recipient,
    ) -> Result<Reply, HopError> {
        let (Destination::Forward(next_hop), Some(transaction)) =
            (&recipient.destination, session.transaction())
        else {
            return Ok(reply::NOT_NOW);
        };
        if self
            .relay
            .as_ref()
            .is_some_and(|relay| relay.next_hop() != next_hop)
        {
            return Ok(reply::ONE_NEXT_HOP);
        }
        if self.relay.is_none() {
            let from = transaction.from.as_ref();
            let mail = Mail {
                from: from.map(|from| from.address.clone()).unwrap_or_default(),
                body: transaction.body,
                utf8: transaction.utf8,
                size: transaction.size,
                parameters: transaction.dsn.clone(),
            };
            let origin = Origin {
                address: session.peer().ip(),
                helo: session.helo().map(str::to_owned),
                protocol: "ESMTP",
            };
            let forward = &self.context.forward;
            let hostname = &self.context.hostname;
            match Relay::begin(next_hop, forward, hostname, &origin, mail).await? {
                Begun::Open(relay) => self.relay = Some(relay),
                Begun::Refused(refusal) => return Ok(reply::of_hop(&refusal)),
            }
        }
        let Some(relay) = &mut self.relay else {
            return Ok(reply::NOT_NOW);
        };
        let answer = relay
            .recipient(&recipient.mailbox.address, &recipient.dsn)
            .await?;
        Ok(reply::of_hop(&answer))
    }
}
