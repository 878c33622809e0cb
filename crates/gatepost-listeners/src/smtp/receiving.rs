//! Reception of a message, by DATA or in BDAT's chunks, and the check of recipients before it.

use std::io;

use bytes::Buf;

use super::connection::SmtpConnection;
use super::data::{self, DataProgress, DataReceiver};
use super::delivery;
use super::recipients::Destination;
use super::replies;
use super::reply::{self, SmtpReply};
use super::session::SmtpSession;
use super::transaction::{Chunk, Recipient, Transaction};
use crate::forward::{BodyEncoding, HopError, HopTransaction, RelayClient, RelayMail, RelayStart};

impl SmtpConnection<'_> {
    /// Receives a message after DATA, has it judged, and sends the replies that end the
    /// transaction.
    pub(super) async fn data(&mut self, session: &mut SmtpSession<'_>) -> io::Result<()> {
        // The connection holds the reservation until the message is delivered.
        let received = self.receive(session).await?;
        self.end_of_message(session, received).await
    }

    /// Reads a message up to its end. A message that does not fit the memory budget is read and
    /// refused.
    async fn receive(
        &mut self,
        session: &SmtpSession<'_>,
    ) -> io::Result<Result<Vec<u8>, SmtpReply>> {
        let settings = &self.context.settings;
        let mut receiver = DataReceiver::new(
            settings.message_max.as_usize(),
            settings.line_max.as_usize(),
        );
        let before = session.transaction().map_or(0, Transaction::held_bytes);
        let mut arrival = self.begin_message();
        loop {
            match receiver.receive(&self.input) {
                DataProgress::End { consumed } => {
                    self.input.advance(consumed);
                    return Ok(receiver.finish());
                }
                DataProgress::More if self.input.is_empty() => {}
                DataProgress::More => {
                    self.input.clear();
                    if !self.has_room(session.peer(), before + receiver.held_bytes()) {
                        receiver.refuse(replies::NO_ROOM);
                    }
                    self.acknowledge_now();
                }
            }
            self.fill_message(&mut arrival).await?;
        }
    }

    /// Reads one chunk (RFC 3030, section 2); with the last one the message is complete. A refused
    /// chunk is read nevertheless, since a command follows it.
    pub(super) async fn chunk(
        &mut self,
        session: &mut SmtpSession<'_>,
        chunk: Chunk,
    ) -> io::Result<()> {
        let Chunk {
            size,
            last,
            mut refusal,
            replies,
        } = chunk;
        let mut arrival = self.begin_message();
        let mut left = size;
        while left > 0 {
            if self.input.is_empty() {
                self.fill_message(&mut arrival).await?;
            }
            let count = self
                .input
                .len()
                .min(usize::try_from(left).unwrap_or(usize::MAX));
            if refusal.is_none()
                && let Some(chunks) = session.chunks()
            {
                chunks.extend_from_slice(&self.input[..count]);
                let held = session.transaction().map_or(0, Transaction::held_bytes);
                if !self.has_room(session.peer(), held) {
                    // RFC 3030, section 2: after a failed chunk the transaction is over.
                    session.take_transaction();
                    refusal = Some(replies::NO_ROOM);
                }
            }
            self.input.advance(count);
            left -= count as u64;
        }
        if let Some(refusal) = refusal {
            self.answer(&refusal);
            // The further ones of LMTP report the same error.
            for _ in 1..replies {
                self.push_reply(&refusal);
            }
            return Ok(());
        }
        let message = session.chunks();
        if !last {
            let text = format!("{size} octets received");
            self.answer(&SmtpReply::with(250, "2.0.0", text));
            return Ok(());
        }
        let message = message.map(std::mem::take).unwrap_or_default();
        let is_binary = session
            .transaction()
            .is_some_and(|it| it.body == BodyEncoding::Binary);
        let line_max = self.context.settings.line_max.as_usize();
        let received = match data::check_lines(&message, line_max) {
            Err(refusal) if !is_binary => Err(refusal),
            _ => Ok(message),
        };
        self.end_of_message(session, received).await
    }

    /// Reads and discards further input, until the client ends or has sent this many bytes.
    pub(super) async fn discard_input(&mut self, bytes_max: u64) -> io::Result<()> {
        self.flush().await?;
        let mut arrival = self.begin_message();
        let mut discarded = 0;
        while discarded < bytes_max {
            discarded += self.input.len() as u64;
            self.input.clear();
            if self.fill_message(&mut arrival).await.is_err() {
                break;
            }
        }
        Ok(())
    }

    async fn end_of_message(
        &mut self,
        session: &mut SmtpSession<'_>,
        received: Result<Vec<u8>, SmtpReply>,
    ) -> io::Result<()> {
        let transaction = session.take_transaction();
        let refusal = match received {
            Err(refusal) => refusal,
            Ok(body) => match self
                .check_fields(&body)
                .and_then(|()| session.check_from(&body))
            {
                Err(refusal) => refusal,
                Ok(()) => return delivery::deliver(self, session, transaction, body).await,
            },
        };
        for _ in 0..self.context.dialect.replies_for(transaction.to.len()) {
            self.push_reply(&refusal);
        }
        Ok(())
    }

    /// Whether the message is refused for the number of its header fields.
    fn check_fields(&self, message: &[u8]) -> Result<(), SmtpReply> {
        let settings = &self.context.settings;
        let counts = data::count_fields(message);
        if counts.received > settings.received_max {
            return Err(replies::LOOP);
        }
        if counts.all > settings.header_fields_max {
            return Err(replies::TOO_MANY_FIELDS);
        }
        Ok(())
    }

    /// Checks whether there is memory for a recipient, and whether the next hop or the recipient's
    /// mailbox accepts its mail.
    pub(super) async fn verify_recipient(
        &mut self,
        session: &mut SmtpSession<'_>,
        recipient: Recipient,
    ) -> SmtpReply {
        let held = session.transaction().map_or(0, Transaction::held_bytes);
        if !self.has_room(session.peer(), held + recipient.held_bytes()) {
            return replies::NO_ROOM;
        }
        match &recipient.destination {
            Destination::Topic(_) => session.accept(recipient),
            // RFC 5321, section 3.3: a recipient that does not exist is refused at RCPT, or the
            // mail would be stored without an owner.
            Destination::Mailbox(user) if !self.has_mailbox(user) => replies::NO_SUCH_USER,
            Destination::Mailbox(user) => {
                let room = self.context.settings.mailbox_max.bytes();
                match self.context.gateway.mailbox_bytes(user.clone()).await {
                    Ok(held) if held >= room => replies::MAILBOX_FULL,
                    Ok(_) => session.accept(recipient),
                    Err(error) => {
                        tracing::error!(target: "smtp", %error, "a mailbox could not be read");
                        replies::NOT_NOW
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
                    tracing::warn!(
                        target: "smtp",
                        %next_hop,
                        "a recipient could not be verified: {cause}",
                    );
                    if error.is_about_trust() {
                        let recipient = &recipient.mailbox.address;
                        delivery::journal_distrust(self, session, recipient, &error);
                    }
                    // Recipients that the next hop had accepted are lost with the connection; the
                    // reply to the message reports that.
                    self.relay = None;
                    reply::of_hop_error(&error)
                }
            },
        }
    }

    /// Whether a user of this name could read its mailbox. Without access rules there are no users
    /// to compare with.
    fn has_mailbox(&self, user: &str) -> bool {
        let auth = self.context.anonymous.as_ref();
        auth.is_none_or(|auth| auth.users().can_log_in(user))
    }

    async fn ask_next_hop(
        &mut self,
        session: &SmtpSession<'_>,
        recipient: &Recipient,
    ) -> Result<SmtpReply, HopError> {
        let (Destination::Forward(next_hop), Some(transaction)) =
            (&recipient.destination, session.transaction())
        else {
            return Ok(replies::NOT_NOW);
        };
        if self
            .relay
            .as_ref()
            .is_some_and(|relay| relay.next_hop() != next_hop)
        {
            return Ok(replies::ONE_NEXT_HOP);
        }
        if self.relay.is_none() {
            let from = transaction.from.as_ref();
            let mail = RelayMail {
                from: from.map(|from| from.address.clone()).unwrap_or_default(),
                body: transaction.body,
                utf8: transaction.utf8,
                size: transaction.size,
                parameters: transaction.dsn.clone(),
            };
            let origin = RelayClient {
                address: session.peer().ip(),
                helo: session.helo().map(str::to_owned),
                protocol: "ESMTP",
            };
            let forward = &self.context.forward;
            let hostname = &self.context.hostname;
            match HopTransaction::begin(next_hop, forward, hostname, &origin, mail).await? {
                RelayStart::Open(relay) => self.relay = Some(relay),
                RelayStart::Refused(refusal) => return Ok(reply::of_hop(&refusal)),
            }
        }
        let Some(relay) = &mut self.relay else {
            return Ok(replies::NOT_NOW);
        };
        let answer = relay
            .recipient(&recipient.mailbox.address, &recipient.dsn)
            .await?;
        Ok(reply::of_hop(&answer))
    }
}
