//! The commands that build a transaction: MAIL, RCPT, and the chunks of BDAT.

use super::super::parameters::MailCommand;
use super::super::path::Mailbox;
use super::super::recipients::{ClientTrust, Destination};
use super::super::replies;
use super::super::reply::SmtpReply;
use super::super::senders;
use super::super::transaction::{Chunk, CommandOutcome, Recipient, Transaction};
use super::SmtpSession;

/// A refused chunk of up to this many times `message_max` is read to its end. A larger one is
/// refused immediately, and the connection ends after this many bytes of it.
const CHUNK_READ_MAX: u64 = 4;

impl SmtpSession<'_> {
    pub(super) fn mail(&mut self, command: MailCommand) -> SmtpReply {
        if self.client.is_none() {
            return replies::HELLO_FIRST;
        }
        if self.transaction.is_some() {
            return replies::NESTED_MAIL;
        }
        if self.settings.login_required && self.user().is_none() {
            return replies::LOGIN_FIRST;
        }
        if let Some(identity) = &self.identity {
            let (settings, from) = (self.settings, command.from.as_ref());
            let checked = senders::check_envelope(settings, self.recipients, identity, from);
            if let Err(refusal) = checked {
                return refusal;
            }
        }
        // RFC 1870, section 6.1: refused before a byte of it is sent.
        if command
            .size
            .is_some_and(|size| size > self.settings.message_max.bytes())
        {
            return replies::MESSAGE_TOO_LARGE;
        }
        let ascii = command
            .from
            .as_ref()
            .is_none_or(|from| from.address.is_ascii());
        if !ascii && !command.utf8 {
            return replies::NEEDS_UTF8;
        }
        self.transaction = Some(Transaction {
            from: command.from,
            utf8: command.utf8,
            body: command.body,
            size: command.size,
            dsn: command.dsn,
            ..Transaction::default()
        });
        replies::OK
    }

    pub(super) fn rcpt(&mut self, to: Mailbox, dsn: Vec<String>) -> CommandOutcome {
        let Some(transaction) = &self.transaction else {
            return CommandOutcome::Reply(replies::MAIL_FIRST);
        };
        if transaction.to.len() >= self.settings.recipients_max {
            return CommandOutcome::Reply(replies::TOO_MANY_RECIPIENTS);
        }
        if !to.address.is_ascii() && !transaction.utf8 {
            return CommandOutcome::Reply(replies::NEEDS_UTF8);
        }
        let client = ClientTrust {
            has_logged_in: self.identity.is_some(),
            is_trusted: self.is_trusted,
            connected_to: self.connection.local_ip,
        };
        let destination = match self.recipients.destination(&to, client) {
            Ok(destination) => destination,
            Err(reply) => return CommandOutcome::Reply(reply),
        };
        // Mail without a login is subject to the rules of `anonymous`, like any other publication.
        let identity = self.identity.as_deref().or(self.anonymous);
        if let (Destination::Topic(topic), Some(identity)) = (&destination, identity)
            && !identity.may_publish(topic.as_str(), false).is_allowed()
        {
            return CommandOutcome::Reply(replies::MAY_NOT_PUBLISH);
        }
        let recipient = Recipient {
            mailbox: to,
            destination,
            dsn,
        };
        CommandOutcome::Ask(Box::new(recipient))
    }

    /// Whether the client may send this message, by its From field.
    pub(in super::super) fn check_from(&self, message: &[u8]) -> Result<(), SmtpReply> {
        match &self.identity {
            Some(identity) => {
                senders::check_from(self.settings, self.recipients, identity, message)
            }
            None => Ok(()),
        }
    }

    /// Adds a recipient that was verified.
    pub(in super::super) fn accept(&mut self, recipient: Recipient) -> SmtpReply {
        if let Some(transaction) = &mut self.transaction {
            transaction.recipient_bytes += recipient.held_bytes();
            transaction.to.push(recipient);
        }
        replies::OK
    }

    /// The present transaction.
    pub(in super::super) const fn transaction(&self) -> Option<&Transaction> {
        self.transaction.as_ref()
    }

    /// The destination of BDAT's bytes.
    pub(in super::super) fn chunks(&mut self) -> Option<&mut Vec<u8>> {
        let transaction = self.transaction.as_mut()?;
        Some(transaction.chunks.get_or_insert_default())
    }

    /// The transaction that DATA completed; the next command starts without one.
    pub(in super::super) fn take_transaction(&mut self) -> Transaction {
        self.transaction.take().unwrap_or_default()
    }

    /// The octets of a chunk follow the command, so a refused chunk is read as well: a client that
    /// is still sending would lose the reply if the connection were closed.
    pub(super) fn chunk(&mut self, size: u64, last: bool) -> CommandOutcome {
        let read_max = self
            .settings
            .message_max
            .bytes()
            .saturating_mul(CHUNK_READ_MAX);
        if size > read_max {
            return CommandOutcome::EndDiscarding(replies::MESSAGE_TOO_LARGE, read_max);
        }
        let replies = match &self.transaction {
            Some(transaction) if last => self.dialect.replies_for(transaction.to.len()),
            _ => 1,
        };
        let refusal = match &self.transaction {
            None => Some(replies::MAIL_FIRST),
            Some(transaction) if transaction.to.is_empty() => Some(replies::RCPT_FIRST),
            Some(transaction) => {
                let held = transaction.chunks.as_ref().map_or(0, Vec::len) as u64;
                let whole = held.saturating_add(size);
                (whole > self.settings.message_max.bytes()).then_some(replies::MESSAGE_TOO_LARGE)
            }
        };
        if refusal.is_some() {
            // RFC 3030, section 2: after a failed chunk the transaction is over.
            self.transaction = None;
        }
        CommandOutcome::Chunk(Chunk {
            size,
            last,
            refusal,
            replies,
        })
    }
}
