//! Releases by a signed link.
//!
//! A message may have several recipients. It stays in quarantine until it is released to all of
//! those who could get it; until then, a record names the recipients who have it already.

use std::time::SystemTime;

use bytes::Bytes;
use gatepost_gateway::{SenderListing, SenderPattern};
use gatepost_message::{Action, MessageId};
use gatepost_store::{QuarantineEntry, Store, StoreChange};

use super::ticket::{ReleaseTicket, TicketKey, TicketRefusal};
use crate::error::OperationError;
use crate::mail_routes::MailDestination;
use crate::operations::Operations;
use crate::release::{ReleaseRequest, Released};
use crate::request::Quarantined;

/// Recipients who have a message that is still in quarantine: the key is the message's id and the
/// recipient.
const SPACE: &str = "quarantine_released";
/// The bytes of an id in a key.
const ID_BYTES: usize = 8;

/// The message that a ticket is for.
#[derive(Debug)]
pub struct TicketMessage {
    /// The message.
    pub message: Quarantined,
    /// The user whose mailbox it would be released to; `None` if it goes to a next hop.
    pub mailbox: Option<String>,
}

/// The outcome of a release by a ticket.
#[derive(Debug)]
pub struct TicketReleased {
    /// The outcome of the release.
    pub released: Released,
    /// The sender whose mail is accepted from now on, if the recipient wanted that.
    pub allowed_sender: Option<String>,
}

impl Operations {
    /// The ticket that this server signed as `text`.
    pub async fn release_ticket(
        &self,
        text: String,
    ) -> Result<Result<ReleaseTicket, TicketRefusal>, OperationError> {
        self.blocking(move |operations| {
            let Some(key) = TicketKey::read(&operations.store)? else {
                return Ok(Err(TicketRefusal::Forged));
            };
            Ok(key.verify(&text, SystemTime::now()))
        })
        .await
    }

    /// The message that a ticket is for. [`OperationError::NotFound`] if it is no longer in
    /// quarantine, or was released to this recipient before.
    pub async fn ticket_message(
        &self,
        ticket: &ReleaseTicket,
    ) -> Result<TicketMessage, OperationError> {
        let of_check = ticket.clone();
        self.blocking(move |operations| operations.kept_for(&of_check).map(drop))
            .await?;
        let message = self.quarantined(ticket.id).await?;
        let entry = self.kept_entry(ticket).await?;
        Ok(TicketMessage {
            message,
            mailbox: self.mailbox_of(&entry, &ticket.recipient),
        })
    }

    /// Releases the message of a ticket to its recipient, and allows its sender if `allows_sender`
    /// and the recipient is a user.
    pub async fn release_by_ticket(
        &self,
        ticket: &ReleaseTicket,
        allows_sender: bool,
    ) -> Result<TicketReleased, OperationError> {
        let _releasing = self.releases_by_ticket.lock().await;
        let entry = self.kept_entry(ticket).await?;
        let mailbox = self.mailbox_of(&entry, &ticket.recipient);
        let of_waiting = (entry.clone(), ticket.clone());
        let waiting = self.blocking(move |operations| {
            let (entry, ticket) = of_waiting;
            operations.others_wait(&entry, &ticket)
        });
        let others_wait = waiting.await?;
        let request = ReleaseRequest {
            recipients: Some(vec![ticket.recipient.clone()]),
            as_attachment: false,
            stays_quarantined: others_wait,
        };
        let released = self.release(ticket.id, request).await?;
        if released.verdict.action != Action::Accept {
            return Ok(TicketReleased {
                released,
                allowed_sender: None,
            });
        }
        let change = if others_wait {
            StoreChange::PutRecord {
                space: SPACE,
                key: key_of(ticket),
                value: Bytes::new(),
            }
        } else {
            StoreChange::DeleteRecords {
                space: SPACE,
                prefix: id_prefix(ticket.id),
            }
        };
        self.store.submit([change])?.committed().await?;
        let allowed_sender = match mailbox.filter(|_| allows_sender) {
            Some(user) => self.allow_sender_for(&user, &entry).await,
            None => None,
        };
        Ok(TicketReleased {
            released,
            allowed_sender,
        })
    }

    async fn kept_entry(&self, ticket: &ReleaseTicket) -> Result<QuarantineEntry, OperationError> {
        let ticket = ticket.clone();
        self.blocking(move |operations| operations.kept_for(&ticket))
            .await
    }

    /// The message in quarantine, unless this recipient has it already. Blocks.
    fn kept_for(&self, ticket: &ReleaseTicket) -> Result<QuarantineEntry, OperationError> {
        let entry = self.entry(ticket.id)?;
        match self.store.record(SPACE, &key_of(ticket))? {
            Some(_) => Err(OperationError::NotFound),
            None => Ok(entry),
        }
    }

    /// Whether another recipient of the message could still get it. Blocks.
    fn others_wait(
        &self,
        entry: &QuarantineEntry,
        ticket: &ReleaseTicket,
    ) -> Result<bool, OperationError> {
        let Some(routes) = &self.mail_routes else {
            return Ok(false);
        };
        let envelope = &entry.journal.envelope;
        let own = routes.destination(envelope, &ticket.recipient).ok();
        let own_mailbox = own.filter(|own| matches!(own, MailDestination::Mailbox(_)));
        for recipient in &envelope.recipients {
            if recipient.eq_ignore_ascii_case(&ticket.recipient) {
                continue;
            }
            let Ok(destination) = routes.destination(envelope, recipient) else {
                continue;
            };
            let other = ReleaseTicket {
                recipient: recipient.clone(),
                ..ticket.clone()
            };
            let has_it = self.store.record(SPACE, &key_of(&other))?.is_some();
            if !has_it && Some(&destination) != own_mailbox.as_ref() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn mailbox_of(&self, entry: &QuarantineEntry, recipient: &str) -> Option<String> {
        let routes = self.mail_routes.as_ref()?;
        match routes.destination(&entry.journal.envelope, recipient) {
            Ok(MailDestination::Mailbox(user)) => Some(user),
            _ => None,
        }
    }

    /// Adds the sender of a message to a user's list; `None` if there is no sender, or no room.
    async fn allow_sender_for(&self, user: &str, entry: &QuarantineEntry) -> Option<String> {
        let sender = entry.journal.envelope.sender.as_deref()?;
        let pattern: SenderPattern = sender.parse().ok()?;
        let listed = self
            .gateway
            .list_sender(user, &pattern, Some(SenderListing::Allow));
        listed.await.ok().map(|()| sender.to_owned())
    }
}

/// Removes the records of messages that are no longer in quarantine. Blocks.
pub(super) fn forget_ended(store: &Store) -> Result<(), OperationError> {
    let mut ids: Vec<MessageId> = Vec::new();
    store.each_record(SPACE, b"", |key, _| {
        let id = key.first_chunk::<ID_BYTES>().copied();
        let id = MessageId::from_number(id.map_or(0, u64::from_be_bytes));
        if ids.last() != Some(&id) {
            ids.push(id);
        }
    })?;
    for id in ids {
        if store.quarantined_size(id)?.is_none() {
            store.submit([StoreChange::DeleteRecords {
                space: SPACE,
                prefix: id_prefix(id),
            }])?;
        }
    }
    Ok(())
}

fn id_prefix(id: MessageId) -> Bytes {
    Bytes::copy_from_slice(&id.number().to_be_bytes())
}

fn key_of(ticket: &ReleaseTicket) -> Bytes {
    let id = ticket.id.number().to_be_bytes();
    [&id[..], ticket.recipient.to_lowercase().as_bytes()]
        .concat()
        .into()
}
