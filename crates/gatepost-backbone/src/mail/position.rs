//! Notes of the database about the stream: the position up to which it was read, and for each
//! mail, the stream that has it.
//!
//! Mail without this note is this server's own: it was stored before the server joined the cluster,
//! or by a server without one.

use std::collections::HashMap;

use bytes::Bytes;
use gatepost_message::MessageId;
use gatepost_store::{Store, StoreChange, StoreError};

use super::piece::MailName;

/// The key space of the position.
const POSITION_SPACE: &str = "backbone.mail";
/// The key space of the notes about mail.
const MAIL_SPACE: &str = "backbone.mail.stream";

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

fn key(name: &MailName) -> Bytes {
    let id = name.id.number().to_be_bytes();
    [&id[..], name.user.as_bytes()].concat().into()
}

/// The changes that put a mail into the database, and note the stream that has it.
pub(super) fn add_mail(name: &MailName, mail: Bytes, stream: u64) -> [StoreChange; 3] {
    [
        // An earlier one of the same id is replaced.
        StoreChange::remove_mail(&name.user, name.id),
        StoreChange::add_mail(&name.user, name.id, mail),
        StoreChange::PutRecord {
            space: MAIL_SPACE,
            key: key(name),
            value: Bytes::copy_from_slice(&stream.to_be_bytes()),
        },
    ]
}

/// The changes that remove a mail from the database.
pub(super) fn remove_mail(name: &MailName) -> [StoreChange; 2] {
    let note = StoreChange::DeleteRecord {
        space: MAIL_SPACE,
        key: key(name),
    };
    [StoreChange::remove_mail(&name.user, name.id), note]
}

/// All mail in the database, each with the number of the stream that has it; `None` for this
/// server's own. Blocks.
pub(super) fn stored_mail(store: &Store) -> Result<Vec<(MailName, Option<u64>)>, StoreError> {
    let mut streams = HashMap::new();
    store.each_record(MAIL_SPACE, b"", |key, value| {
        if let Ok(number) = value.as_ref().try_into() {
            streams.insert(key, u64::from_be_bytes(number));
        }
    })?;
    let named = |(user, id): (String, MessageId)| {
        let name = MailName { user, id };
        let stream = streams.get(&key(&name)).copied();
        (name, stream)
    };
    Ok(store.mailbox_keys()?.into_iter().map(named).collect())
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
    use super::*;

    #[tokio::test]
    async fn the_database_notes_which_mail_a_stream_has() {
        let store = Store::in_memory().expect("memory");
        let name = |user: &str, id| MailName {
            user: user.to_owned(),
            id: MessageId::from_number(id),
        };
        let commit = async |changes: Vec<StoreChange>| {
            let ticket = store.submit(changes).expect("taken");
            ticket.committed().await.expect("stored");
        };
        let (own, shared) = (name("anna", 1), name("anna", 2));
        commit(vec![StoreChange::add_mail("anna", own.id, "own".into())]).await;
        commit(add_mail(&shared, "first".into(), 7).into()).await;
        commit(add_mail(&shared, "second".into(), 7).into()).await;
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
        commit(remove_mail(&shared).into()).await;
        leave(&store).await.expect("stored");
        assert_eq!(stored_mail(&store).expect("read"), [(own, None)]);
        assert_eq!(MailPosition::stored(&store).expect("read"), None);
    }
}
