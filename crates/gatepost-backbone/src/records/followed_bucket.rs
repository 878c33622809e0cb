//! The bucket that the database follows, which the database notes.
//!
//! Records of a database that follows no bucket yet are its own: they are added to the bucket. In a
//! database that follows the bucket, records that the bucket does not have were removed from it.

use bytes::Bytes;
use gatepost_store::{Store, StoreChange, StoreError};

/// The key space of the note.
const SPACE: &str = "backbone.records";
const KEY: &[u8] = b"bucket";

/// The identity of the bucket that the database follows, if it follows one.
pub(super) fn followed(store: &Store) -> Result<Option<Bytes>, StoreError> {
    store.record(SPACE, KEY)
}

/// The change by which the database follows this bucket from now on.
pub(super) fn follow(identity: &str) -> StoreChange {
    StoreChange::PutRecord {
        space: SPACE,
        key: Bytes::from_static(KEY),
        value: Bytes::copy_from_slice(identity.as_bytes()),
    }
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
    let removal = StoreChange::DeleteRecord {
        space: SPACE,
        key: Bytes::from_static(KEY),
    };
    store.submit([removal])?.committed().await
}
