//! Mailboxes: each user's mail, complete, until a client deletes it.
//!
//! A mail is a record of the space `mailbox`; its key is the user's name, a NUL, and the message's
//! id, so that a user's mail sorts by arrival. It is submitted together with its journal entry, so
//! that either both are stored or neither.

use bytes::Bytes;
use gatepost_message::MessageId;
use rusqlite::params;

use crate::{Store, StoreChange, StoreError};

const SPACE: &str = "mailbox";

/// One mail of a mailbox, without its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MailboxEntry {
    /// The message's id.
    pub id: MessageId,
    /// Its size in bytes.
    pub size: u64,
}

fn key(user: &str, id: MessageId) -> Bytes {
    [user.as_bytes(), &[0], &id.number().to_be_bytes()]
        .concat()
        .into()
}

impl StoreChange {
    /// Puts a mail into a user's mailbox.
    pub fn deliver(user: &str, id: MessageId, mail: Bytes) -> Self {
        Self::AddRecord {
            space: SPACE,
            key: key(user, id),
            value: mail,
        }
    }

    /// Removes a mail from a user's mailbox.
    pub fn take_out(user: &str, id: MessageId) -> Self {
        Self::DeleteRecord {
            space: SPACE,
            key: key(user, id),
        }
    }
}

impl Store {
    /// A user's mail, oldest first.
    pub fn mailbox(&self, user: &str) -> Result<Vec<MailboxEntry>, StoreError> {
        let prefix = [user.as_bytes(), &[0]].concat();
        let end = [user.as_bytes(), &[1]].concat();
        let connection = self.reader();
        let mut statement = connection.prepare_cached(
            "SELECT substr(key, -8), length(value) FROM record
             WHERE space = ?1 AND key > ?2 AND key < ?3 ORDER BY key",
        )?;
        let entries = statement
            .query_map(params![SPACE, prefix, end], |row| {
                let (id, size): (Vec<u8>, i64) = (row.get(0)?, row.get(1)?);
                let id = <[u8; 8]>::try_from(id).map(u64::from_be_bytes).ok();
                Ok(id.map(|id| MailboxEntry {
                    id: MessageId::from_number(id),
                    size: size as u64,
                }))
            })?
            .collect::<rusqlite::Result<Vec<_>>>()?;
        Ok(entries.into_iter().flatten().collect())
    }

    /// The content of one mail; `None` if it was removed.
    pub fn mailbox_mail(&self, user: &str, id: MessageId) -> Result<Option<Bytes>, StoreError> {
        self.record(SPACE, &key(user, id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits for the writer.
    fn commit(store: &Store, changes: Vec<StoreChange>) {
        let ticket = store.submit(changes).expect("taken");
        while ticket.outcome().is_none() {
            std::thread::yield_now();
        }
        assert!(matches!(ticket.outcome(), Some(Ok(()))));
    }

    #[test]
    fn mail_is_kept_by_user_and_in_order() {
        let store = Store::in_memory().expect("memory");
        let (first, second) = (MessageId::next(), MessageId::next());
        let changes = vec![
            StoreChange::deliver("anna", second, Bytes::from("two!")),
            StoreChange::deliver("anna", first, Bytes::from("one")),
            StoreChange::deliver("ann", first, Bytes::from("other")),
            StoreChange::deliver("anna1", first, Bytes::from("other")),
        ];
        commit(&store, changes);
        let sizes = |user: &str| -> Vec<(MessageId, u64)> {
            let entries = store.mailbox(user).expect("read");
            entries.iter().map(|entry| (entry.id, entry.size)).collect()
        };
        assert_eq!(sizes("anna"), [(first, 3), (second, 4)]);
        let mail = store.mailbox_mail("anna", second).expect("read");
        assert_eq!(mail.as_deref(), Some(&b"two!"[..]));
        commit(&store, vec![StoreChange::take_out("anna", first)]);
        assert_eq!(sizes("anna"), [(second, 4)]);
        assert_eq!(sizes("ann"), [(first, 5)]);
    }
}
