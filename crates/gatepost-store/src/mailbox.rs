//! Mailboxes: each user's mail, complete, until a client deletes it.
//!
//! A mail is a record of the space `mailbox`; its key is the user's name, a NUL, and the message's
//! id, so that a user's mail sorts by arrival.
//!
//! Without a cluster, the database decides. In a cluster, [`SharedMailboxes`] does, and the records
//! are what this server has read of the cluster's mailboxes.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use gatepost_message::MessageId;
use rusqlite::params;

use crate::shared_mailboxes::{MailboxClaim, MailboxDelivery, SharedMailboxes};
use crate::{Store, StoreChange, StoreError, Ticket};

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

/// The limits between which all keys of a user are, neither included.
fn keys_of(user: &str) -> (Vec<u8>, Vec<u8>) {
    let user = user.as_bytes();
    ([user, &[0]].concat(), [user, &[1]].concat())
}

/// The user and the message's id that a key names.
fn parts_of(key: &[u8]) -> Option<(String, MessageId)> {
    let (user, id) = key.split_last_chunk()?;
    let user = std::str::from_utf8(user.strip_suffix(&[0])?).ok()?;
    let id = MessageId::from_number(u64::from_be_bytes(*id));
    Some((user.to_owned(), id))
}

impl StoreChange {
    /// Puts a mail into a user's mailbox in this server's database.
    pub fn add_mail(user: &str, id: MessageId, mail: Bytes) -> Self {
        Self::AddRecord {
            space: SPACE,
            key: key(user, id),
            value: mail,
        }
    }

    /// Removes a mail from a user's mailbox in this server's database.
    pub fn remove_mail(user: &str, id: MessageId) -> Self {
        Self::DeleteRecord {
            space: SPACE,
            key: key(user, id),
        }
    }
}

/// The changes of the database that put a mail into mailboxes.
fn changes_of(delivery: &MailboxDelivery) -> impl Iterator<Item = StoreChange> {
    let MailboxDelivery { users, id, mail } = delivery;
    users
        .iter()
        .map(|user| StoreChange::add_mail(user, *id, mail.clone()))
}

impl Store {
    /// Leaves the decision about mailboxes to a cluster, for as long as the store is open. Only the
    /// first call has an effect.
    pub fn share_mailboxes(&self, cluster: Arc<dyn SharedMailboxes>) {
        let _ = self.inner.mailboxes.set(cluster);
    }

    /// Puts a mail into mailboxes: all of them or none.
    pub fn deliver(&self, delivery: MailboxDelivery) -> Result<Ticket, StoreError> {
        self.count_delivery(&delivery);
        match self.inner.mailboxes.get() {
            None => self.submit(changes_of(&delivery)),
            Some(cluster) => Ok(cluster.deliver(delivery)),
        }
    }

    /// Puts a mail into mailboxes, and then makes changes of the database: in one commit, or, if a
    /// cluster has the mailboxes, after it has stored the mail. After a crash between the two, the
    /// caller may repeat both: the cluster has a mail of the same id once.
    pub fn deliver_with(
        &self,
        delivery: MailboxDelivery,
        changes: Vec<StoreChange>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send + use<> {
        let is_shared = !delivery.users.is_empty() && self.inner.mailboxes.get().is_some();
        let (begun, later) = if is_shared {
            (self.deliver(delivery), Some(changes))
        } else {
            self.count_delivery(&delivery);
            let all: Vec<StoreChange> = changes_of(&delivery).chain(changes).collect();
            (self.submit(all), None)
        };
        let store = self.clone();
        async move {
            begun?.committed().await?;
            match later {
                None => Ok(()),
                Some(changes) => store.submit(changes)?.committed().await,
            }
        }
    }

    /// Claims a user's mailbox for one client of the cluster, and waits until the database has all
    /// mail that was delivered before. `None` if a client of another server has it.
    ///
    /// Without a cluster, the claim excludes no client.
    pub async fn claim_mailbox(&self, user: &str) -> Result<Option<MailboxClaim>, StoreError> {
        match self.inner.mailboxes.get() {
            None => Ok(Some(MailboxClaim::local())),
            Some(cluster) => cluster.claim(user.to_owned()).await,
        }
    }

    /// Removes mail from a user's mailbox.
    pub fn take_out(&self, user: &str, ids: Vec<MessageId>) -> Result<Ticket, StoreError> {
        self.inner.mailbox_sizes.forget(user);
        let Some(cluster) = self.inner.mailboxes.get() else {
            let changes = ids.into_iter().map(|id| StoreChange::remove_mail(user, id));
            return self.submit(changes);
        };
        Ok(cluster.take_out(user.to_owned(), ids))
    }

    /// The users and ids of all mail in the database.
    pub fn mailbox_keys(&self) -> Result<Vec<(String, MessageId)>, StoreError> {
        let keys = self.record_keys(SPACE)?;
        Ok(keys.iter().filter_map(|key| parts_of(key)).collect())
    }

    /// The bytes that a user's mailbox holds, if they are remembered from a moment ago.
    pub fn remembered_mailbox_bytes(&self, user: &str) -> Option<u64> {
        self.inner.mailbox_sizes.remembered(user, Instant::now())
    }

    /// The bytes that a user's mailbox holds: exact for a single server when they are counted, and
    /// for a short time afterwards the mail that it delivers is added. Counting reads much of the
    /// mailbox.
    pub fn mailbox_bytes(&self, user: &str) -> Result<u64, StoreError> {
        self.inner.mailbox_sizes.get_or_count(user, || {
            let (after, end) = keys_of(user);
            let connection = self.reader();
            let mut statement = connection.prepare_cached(
                "SELECT coalesce(sum(length(value)), 0) FROM record
                 WHERE space = ?1 AND key > ?2 AND key < ?3",
            )?;
            let bytes = statement.query_row(params![SPACE, after, end], |row| row.get(0))?;
            Ok(bytes)
        })
    }

    fn count_delivery(&self, delivery: &MailboxDelivery) {
        let MailboxDelivery { users, mail, .. } = delivery;
        self.inner.mailbox_sizes.add(users, mail.len() as u64);
    }

    /// A user's mail, oldest first.
    pub fn mailbox(&self, user: &str) -> Result<Vec<MailboxEntry>, StoreError> {
        let (after, end) = keys_of(user);
        let connection = self.reader();
        let mut statement = connection.prepare_cached(
            "SELECT substr(key, -8), length(value) FROM record
             WHERE space = ?1 AND key > ?2 AND key < ?3 ORDER BY key",
        )?;
        let entries = statement
            .query_map(params![SPACE, after, end], |row| {
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

    fn commit(store: &Store, changes: Vec<StoreChange>) {
        wait_for(&store.submit(changes).expect("taken"));
    }

    fn wait_for(ticket: &Ticket) {
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
            StoreChange::add_mail("anna", second, Bytes::from("two!")),
            StoreChange::add_mail("anna", first, Bytes::from("one")),
            StoreChange::add_mail("ann", first, Bytes::from("other")),
            StoreChange::add_mail("anna1", first, Bytes::from("other")),
        ];
        commit(&store, changes);
        let sizes = |user: &str| -> Vec<(MessageId, u64)> {
            let entries = store.mailbox(user).expect("read");
            entries.iter().map(|entry| (entry.id, entry.size)).collect()
        };
        assert_eq!(sizes("anna"), [(first, 3), (second, 4)]);
        let mail = store.mailbox_mail("anna", second).expect("read");
        assert_eq!(mail.as_deref(), Some(&b"two!"[..]));
        commit(&store, vec![StoreChange::remove_mail("anna", first)]);
        assert_eq!(sizes("anna"), [(second, 4)]);
        assert_eq!(sizes("ann"), [(first, 5)]);
        let all = [("ann", first), ("anna", second), ("anna1", first)];
        let all = all.map(|(user, id)| (user.to_owned(), id));
        assert_eq!(store.mailbox_keys().expect("read"), all);
    }

    #[test]
    fn the_size_of_a_mailbox_follows_deliveries_and_removals() {
        let store = Store::in_memory().expect("memory");
        let first = MessageId::next();
        commit(
            &store,
            vec![StoreChange::add_mail("anna", first, "one".into())],
        );
        let size = || store.mailbox_bytes("anna").expect("read");
        assert_eq!(size(), 3);
        let delivery = MailboxDelivery {
            users: vec!["anna".to_owned(), "bert".to_owned()],
            id: MessageId::next(),
            mail: "four".into(),
        };
        let ticket = store.deliver(delivery).expect("taken");
        wait_for(&ticket);
        assert_eq!(size(), 7);
        assert_eq!(store.mailbox_bytes("bert").expect("read"), 4);
        let removed = store.take_out("anna", vec![first]).expect("taken");
        wait_for(&removed);
        assert_eq!(size(), 4);
    }
}
