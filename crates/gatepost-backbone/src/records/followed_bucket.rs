//! The bucket that the database follows, which the database notes.
//!
//! Records of a database that follows no bucket yet are its own: they are added to the bucket. In a
//! database that follows the bucket, records that the bucket does not have were removed from it.
//! Both hold for each set: a later version of Gatepost shares sets that an earlier one did not.

use bytes::Bytes;
use gatepost_store::{SharedSet, Store, StoreChange, StoreError};

use super::entry::SharedSets;

/// The key space of the note.
const SPACE: &str = "backbone.records";
const KEY: &[u8] = b"bucket";
/// The key of the names of the followed sets, which have a space between them.
const SETS: &[u8] = b"sets";
/// The sets of a database that has no such names: it was written before the names were noted.
const FIRST_SETS: &[u8] = b"access pepper allowed_sender";

/// The identity of the bucket that the database follows, if it follows one.
fn followed(store: &Store) -> Result<Option<Bytes>, StoreError> {
    store.record(SPACE, KEY)
}

/// The sets in which the database does not follow the bucket with this identity yet.
pub(super) fn new_sets(
    store: &Store,
    identity: &str,
    sets: SharedSets,
) -> Result<Vec<&'static SharedSet>, StoreError> {
    let names = match followed(store)? {
        Some(followed) if followed == identity => {
            let noted = store.record(SPACE, SETS)?;
            noted.unwrap_or(Bytes::from_static(FIRST_SETS))
        }
        _ => Bytes::new(),
    };
    let followed = names.split(|byte| *byte == b' ');
    let is_new = |set: &&SharedSet| !followed.clone().any(|name| name == set.name.as_bytes());
    Ok(sets.iter().copied().filter(is_new).collect())
}

/// The changes by which the database follows this bucket in these sets from now on.
pub(super) fn follow(identity: &str, sets: SharedSets) -> [StoreChange; 2] {
    let names: Vec<&str> = sets.iter().map(|set| set.name).collect();
    [(KEY, identity.to_owned()), (SETS, names.join(" "))].map(|(key, value)| {
        StoreChange::PutRecord {
            space: SPACE,
            key: Bytes::from_static(key),
            value: Bytes::from(value),
        }
    })
}

/// Whether the users in this database are those of a cluster.
pub fn follows_cluster(store: &Store) -> Result<bool, StoreError> {
    Ok(followed(store)?.is_some())
}

/// The server is part of no cluster any more: the users in its database are its own.
pub(crate) async fn leave(store: &Store) -> Result<(), StoreError> {
    if !follows_cluster(store)? {
        return Ok(());
    }
    let removal = StoreChange::DeleteRecords {
        space: SPACE,
        prefix: Bytes::new(),
    };
    store.submit([removal])?.committed().await
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn set(name: &'static str) -> SharedSet {
        SharedSet {
            name,
            is_generated: false,
            spaces: &[],
            entry_of: |_, _, _| None,
        }
    }

    static ACCESS: SharedSet = set("access");
    static LISTS: SharedSet = set("sender_list");
    const BEFORE: SharedSets = &[&ACCESS];
    const NOW: SharedSets = &[&ACCESS, &LISTS];

    fn new_names(store: &Store, identity: &str) -> Vec<&'static str> {
        let new = new_sets(store, identity, NOW).expect("read");
        new.iter().map(|set| set.name).collect()
    }

    async fn store_all(store: &Store, changes: impl IntoIterator<Item = StoreChange>) {
        let ticket = store.submit(changes).expect("submitted");
        ticket.committed().await.expect("stored");
    }

    #[tokio::test]
    async fn a_set_is_new_until_the_database_follows_the_bucket_in_it() {
        let store = Store::in_memory().expect("a store");
        assert_eq!(new_names(&store, "one"), ["access", "sender_list"]);
        store_all(&store, follow("one", BEFORE)).await;
        assert_eq!(new_names(&store, "one"), ["sender_list"]);
        store_all(&store, follow("one", NOW)).await;
        assert!(new_names(&store, "one").is_empty());
        assert_eq!(new_names(&store, "two"), ["access", "sender_list"]);
        leave(&store).await.expect("left");
        assert_eq!(new_names(&store, "one"), ["access", "sender_list"]);
        assert!(!follows_cluster(&store).expect("read"));
    }

    #[tokio::test]
    async fn a_database_that_notes_no_sets_follows_those_of_before() {
        let store = Store::in_memory().expect("a store");
        let [bucket, _] = follow("one", BEFORE);
        store_all(&store, [bucket]).await;
        assert_eq!(new_names(&store, "one"), ["sender_list"]);
    }
}
