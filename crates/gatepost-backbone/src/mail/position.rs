//! Notes of the database about the stream: the position up to which it was read, and for each
//! mail, the stream that has it.
//!
//! Mail without this note is this server's own: it was stored before the server joined the cluster,
//! or by a server without one.

use std::collections::HashMap;

use bytes::Bytes;
use gatepost_message::MessageId;
use gatepost_store::{JournalEntry, QuarantineEntry, Store, StoreChange, StoreError};

use super::piece::{MailName, MailPlace};

/// The key space of the position.
const POSITION_SPACE: &str = "backbone.mail";
/// The key space of the notes about mail in mailboxes.
const MAIL_SPACE: &str = "backbone.mail.stream";
/// The key space of the notes about mail in quarantine.
const QUARANTINE_SPACE: &str = "backbone.quarantine.stream";

/// A place in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MailPosition {
    /// The number of the stream.
    pub(super) stream: u64,
    /// The sequence up to which the database has its mail.
    pub(super) sequence: u64,
}

impl MailPosition {
    /// The position in the database, if it has one.
    pub(super) fn stored(store: &Store) -> Result<Option<Self>, StoreError> {
        let found = store.record(POSITION_SPACE, b"")?;
        Ok(found.as_deref().and_then(Self::of))
    }

    fn of(value: &[u8]) -> Option<Self> {
        let (stream, sequence) = value.split_first_chunk()?;
        Some(Self {
            stream: u64::from_be_bytes(*stream),
            sequence: u64::from_be_bytes(sequence.try_into().ok()?),
        })
    }

    /// The change that stores it.
    pub(super) fn put(self) -> StoreChange {
        let value = [self.stream.to_be_bytes(), self.sequence.to_be_bytes()].concat();
        StoreChange::PutRecord {
            space: POSITION_SPACE,
            key: Bytes::new(),
            value: value.into(),
        }
    }
}

/// The key space and the key of the note about a mail.
fn note_of(name: &MailName) -> (&'static str, Bytes) {
    let id = name.id.number().to_be_bytes();
    match &name.place {
        MailPlace::Mailbox(user) => (MAIL_SPACE, [&id[..], user.as_bytes()].concat().into()),
        MailPlace::Quarantine => (QUARANTINE_SPACE, Bytes::copy_from_slice(&id)),
    }
}

/// The changes that put a mail into the database, and note the stream that has it; `None` if this
/// version cannot read it.
pub(super) fn add_mail(name: &MailName, mail: Bytes, stream: u64) -> Option<Vec<StoreChange>> {
    let mut changes = match &name.place {
        MailPlace::Mailbox(user) => vec![
            // An earlier one of the same id is replaced.
            StoreChange::remove_mail(user, name.id),
            StoreChange::add_mail(user, name.id, mail),
        ],
        MailPlace::Quarantine => {
            let entry = QuarantineEntry::from_bytes(mail)?;
            let is_named = entry.journal.id == name.id;
            is_named
                .then(|| StoreChange::add_quarantined(entry))?
                .into()
        }
    };
    let (space, key) = note_of(name);
    changes.push(StoreChange::PutRecord {
        space,
        key,
        value: Bytes::copy_from_slice(&stream.to_be_bytes()),
    });
    Some(changes)
}

/// The changes that remove a mail from the database. `bytes` are those of its removal.
pub(super) fn remove_mail(name: &MailName, bytes: &[u8]) -> Vec<StoreChange> {
    let mut changes = match &name.place {
        MailPlace::Mailbox(user) => vec![StoreChange::remove_mail(user, name.id)],
        MailPlace::Quarantine => {
            let entry = JournalEntry::from_bytes(bytes);
            let entry = entry.filter(|entry| entry.id == name.id);
            StoreChange::remove_quarantined(name.id, entry)
        }
    };
    let (space, key) = note_of(name);
    changes.push(StoreChange::DeleteRecord { space, key });
    changes
}

/// The content of a mail; `None` if it was removed. Blocks.
pub(super) fn content(store: &Store, name: &MailName) -> Result<Option<Bytes>, StoreError> {
    match &name.place {
        MailPlace::Mailbox(user) => store.mailbox_mail(user, name.id),
        MailPlace::Quarantine => {
            let entry = store.quarantined(name.id)?;
            Ok(entry.map(|entry| entry.to_bytes()))
        }
    }
}

/// All mail in the database, each with the number of the stream that has it; `None` for this
/// server's own. Blocks.
pub(super) fn stored_mail(store: &Store) -> Result<Vec<(MailName, Option<u64>)>, StoreError> {
    let (in_mailboxes, in_quarantine) = (notes(store, MAIL_SPACE)?, quarantine_notes(store)?);
    let keys = store.mailbox_keys()?.into_iter();
    let mailboxes = keys.map(|(user, id)| {
        let name = MailName::in_mailbox(user, id);
        let stream = in_mailboxes.get(&note_of(&name).1).copied();
        (name, stream)
    });
    let ids = store.quarantine_ids()?.into_iter();
    let quarantine = ids.map(|id| (MailName::in_quarantine(id), in_quarantine.get(&id).copied()));
    Ok(mailboxes.chain(quarantine).collect())
}

/// Mail that this stream has in quarantine, and that has left the quarantine of the database beside
/// the stream: by age, by the limits, or by a command of another process. Blocks.
pub(super) fn left_quarantine(store: &Store, stream: u64) -> Result<Vec<MailName>, StoreError> {
    // The notes come first: mail that is added afterwards has none among them.
    let mut noted = quarantine_notes(store)?;
    noted.retain(|_, number| *number == stream);
    for id in store.quarantine_ids()? {
        noted.remove(&id);
    }
    Ok(noted.into_keys().map(MailName::in_quarantine).collect())
}

fn quarantine_notes(store: &Store) -> Result<HashMap<MessageId, u64>, StoreError> {
    let notes = notes(store, QUARANTINE_SPACE)?.into_iter();
    let numbered = notes.filter_map(|(key, stream)| {
        let id = u64::from_be_bytes(key.as_ref().try_into().ok()?);
        Some((MessageId::from_number(id), stream))
    });
    Ok(numbered.collect())
}

/// The numbers of streams that a key space notes.
fn notes(store: &Store, space: &'static str) -> Result<HashMap<Bytes, u64>, StoreError> {
    let mut streams = HashMap::new();
    store.each_record(space, b"", |key, value| {
        if let Ok(number) = value.as_ref().try_into() {
            streams.insert(key, u64::from_be_bytes(number));
        }
    })?;
    Ok(streams)
}

/// The server is part of no cluster any more. When it joins one again, it reads the whole stream,
/// and mail that came meanwhile is its own.
pub(crate) async fn leave(store: &Store) -> Result<(), StoreError> {
    if MailPosition::stored(store)?.is_none() {
        return Ok(());
    }
    let removal = StoreChange::DeleteRecord {
        space: POSITION_SPACE,
        key: Bytes::new(),
    };
    store.submit([removal])?.committed().await
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn quarantined(id: u64) -> QuarantineEntry {
        let journal = json!({
            "id": id, "listener": "smtp", "recipients": [], "topics": [], "size": 4,
            "action": "quarantine", "hits": [], "reason": "", "procedure": "/judge",
            "duration_us": 0, "deliveries": 0,
        });
        let text = json!({ "journal": journal, "retain": false }).to_string();
        let length = (text.len() as u32).to_be_bytes();
        let bytes = [&length[..], text.as_bytes(), b"mail"].concat();
        QuarantineEntry::from_bytes(bytes.into()).expect("an entry")
    }

    #[tokio::test]
    async fn the_database_notes_which_mail_a_stream_has() {
        let store = Store::in_memory().expect("memory");
        let name = |user: &str, id| MailName::in_mailbox(user, MessageId::from_number(id));
        let commit = async |changes: Vec<StoreChange>| {
            let ticket = store.submit(changes).expect("taken");
            ticket.committed().await.expect("stored");
        };
        let (own, shared) = (name("anna", 1), name("anna", 2));
        commit(vec![StoreChange::add_mail("anna", own.id, "own".into())]).await;
        commit(add_mail(&shared, "first".into(), 7).expect("mail")).await;
        commit(add_mail(&shared, "second".into(), 7).expect("mail")).await;
        let position = MailPosition {
            stream: 7,
            sequence: 12,
        };
        commit(vec![position.put()]).await;
        assert_eq!(MailPosition::stored(&store).expect("read"), Some(position));
        let expected = [(own.clone(), None), (shared.clone(), Some(7))];
        assert_eq!(stored_mail(&store).expect("read"), expected);
        let mail = store.mailbox_mail("anna", shared.id).expect("read");
        assert_eq!(mail.as_deref(), Some(&b"second"[..]));
        commit(remove_mail(&shared, b"")).await;
        leave(&store).await.expect("stored");
        assert_eq!(stored_mail(&store).expect("read"), [(own, None)]);
        assert_eq!(MailPosition::stored(&store).expect("read"), None);
    }

    #[tokio::test]
    async fn the_database_notes_what_is_in_quarantine_and_what_has_left_it() {
        let store = Store::in_memory().expect("memory");
        let commit = async |changes: Vec<StoreChange>| {
            let ticket = store.submit(changes).expect("taken");
            ticket.committed().await.expect("stored");
        };
        let name = |id| MailName::in_quarantine(MessageId::from_number(id));
        let bytes = |id| quarantined(id).to_bytes();
        commit(StoreChange::add_quarantined(quarantined(1)).into()).await;
        for id in [2, 3, 4] {
            commit(add_mail(&name(id), bytes(id), 7).expect("read")).await;
        }
        assert!(add_mail(&name(2), bytes(3), 7).is_none(), "of another id");
        let mut stored = stored_mail(&store).expect("read");
        stored.sort_by_key(|(name, _)| name.id);
        let expected = [
            (name(1), None),
            (name(2), Some(7)),
            (name(3), Some(7)),
            (name(4), Some(7)),
        ];
        assert_eq!(stored, expected);
        assert_eq!(content(&store, &name(1)).expect("read"), Some(bytes(1)));
        // As a limit removes it, and as the cluster does.
        commit(vec![StoreChange::Unquarantine(name(3).id)]).await;
        commit(remove_mail(&name(4), b"")).await;
        let left = left_quarantine(&store, 7).expect("read");
        assert_eq!(left, [name(3)]);
        assert_eq!(left_quarantine(&store, 6).expect("read"), []);
    }
}
