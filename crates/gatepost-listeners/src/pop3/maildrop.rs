//! A maildrop: the messages of one user as they are at login (RFC 1939, section 3: the numbers are
//! assigned then and do not change).
//!
//! A user's mailbox can be emptied; the quarantine is another, read-only maildrop, since its mail
//! is released or deleted by other means.

use bytes::Bytes;
use gatepost_message::{Envelope, MessageId};
use gatepost_operations::MailRoutes;
use gatepost_store::{Store, StoreError};

/// The suffix of a user's name that selects the maildrop of quarantined mail.
const QUARANTINE: &str = "+quarantine";

/// The maildrop that a login requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum MaildropKind {
    Mailbox,
    Quarantine,
}

/// Splits a login name into the user's name and the requested maildrop.
pub(super) fn user_and_maildrop(name: &str) -> (&str, MaildropKind) {
    match name.strip_suffix(QUARANTINE) {
        Some(user) => (user, MaildropKind::Quarantine),
        None => (name, MaildropKind::Mailbox),
    }
}

/// One message.
#[derive(Debug, Clone)]
pub(super) struct MaildropEntry {
    pub(super) id: MessageId,
    pub(super) size: u64,
    pub(super) is_deleted: bool,
}

/// The messages of one login.
pub(super) struct Maildrop {
    source: MaildropSource,
    entries: Vec<MaildropEntry>,
}

/// The location of the messages' contents.
#[derive(Clone)]
pub(super) struct MaildropSource {
    store: Store,
    user: String,
    kind: MaildropKind,
}

impl Maildrop {
    /// Lists the messages; waits for the disk. The routes decide which quarantined mail is the
    /// user's.
    pub(super) fn open(
        store: Store,
        user: &str,
        kind: MaildropKind,
        routes: Option<&dyn MailRoutes>,
    ) -> Result<Self, StoreError> {
        let entries = match kind {
            MaildropKind::Mailbox => store
                .mailbox(user)?
                .into_iter()
                .map(|entry| (entry.id, entry.size))
                .collect(),
            MaildropKind::Quarantine => quarantined(&store, user, routes)?,
        };
        let entry = |(id, size)| MaildropEntry {
            id,
            size,
            is_deleted: false,
        };
        let source = MaildropSource {
            store,
            user: user.to_owned(),
            kind,
        };
        Ok(Self {
            source,
            entries: entries.into_iter().map(entry).collect(),
        })
    }

    pub(super) const fn is_read_only(&self) -> bool {
        matches!(self.source.kind, MaildropKind::Quarantine)
    }

    /// The message of this number, from 1, unless it is marked as deleted.
    pub(super) fn entry(&self, number: usize) -> Option<&MaildropEntry> {
        let entry = self.entries.get(number.checked_sub(1)?)?;
        (!entry.is_deleted).then_some(entry)
    }

    /// Every message that is not marked as deleted, with its number.
    pub(super) fn entries(&self) -> impl Iterator<Item = (usize, &MaildropEntry)> {
        let numbered = self.entries.iter().enumerate();
        numbered
            .filter(|(_, entry)| !entry.is_deleted)
            .map(|(place, entry)| (place + 1, entry))
    }

    /// The number of messages and of their bytes.
    pub(super) fn sum(&self) -> (usize, u64) {
        let entries = self.entries();
        entries.fold((0, 0), |(count, size), (_, entry)| {
            (count + 1, size + entry.size)
        })
    }

    /// Marks a message as deleted; returns false if there is none.
    pub(super) fn delete(&mut self, number: usize) -> bool {
        let exists = self.entry(number).is_some();
        if let Some(entry) = self.entries.get_mut(number.wrapping_sub(1)) {
            entry.is_deleted = true;
        }
        exists
    }

    /// Clears all deletion marks.
    pub(super) fn reset(&mut self) {
        for entry in &mut self.entries {
            entry.is_deleted = false;
        }
    }

    /// The data for a thread that waits for the disk.
    pub(super) const fn source(&self) -> &MaildropSource {
        &self.source
    }

    /// Deletes the marked messages; returns when that is on disk, or stored by the
    /// cluster.
    pub(super) async fn update(&self) -> Result<(), StoreError> {
        let marked = self.entries.iter().filter(|entry| entry.is_deleted);
        let ids: Vec<MessageId> = marked.map(|entry| entry.id).collect();
        let MaildropSource { store, user, .. } = &self.source;
        store.take_out(user, ids)?.committed().await
    }
}

impl MaildropSource {
    /// A message's content; waits for the disk. `None` if the message was deleted meanwhile.
    pub(super) fn content(&self, id: MessageId) -> Result<Option<Bytes>, StoreError> {
        match self.kind {
            MaildropKind::Mailbox => self.store.mailbox_mail(&self.user, id),
            MaildropKind::Quarantine => Ok(self.store.quarantined(id)?.map(|entry| entry.body)),
        }
    }
}

fn quarantined(
    store: &Store,
    user: &str,
    routes: Option<&dyn MailRoutes>,
) -> Result<Vec<(MessageId, u64)>, StoreError> {
    // Without routes, a user has only the mail whose recipient is the user's name.
    let is_theirs = |envelope: &Envelope, recipient: &str| match routes {
        Some(routes) => routes.is_recipient(envelope, recipient, user),
        None => recipient.eq_ignore_ascii_case(user),
    };
    let mut entries = Vec::new();
    for story in store.quarantine_of(is_theirs)? {
        if let Some(size) = store.quarantined_size(story.id)? {
            entries.push((story.id, size));
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suffix_of_the_name_requests_the_quarantine() {
        assert_eq!(
            user_and_maildrop("anna+quarantine"),
            ("anna", MaildropKind::Quarantine)
        );
        assert_eq!(user_and_maildrop("anna"), ("anna", MaildropKind::Mailbox));
    }
}
