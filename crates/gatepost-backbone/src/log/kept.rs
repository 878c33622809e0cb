//! Publications in the database until they were read back from the log.
//!
//! A publication that its sender does not repeat (QoS 2 after its packet identifier was recorded, a
//! will) is stored in the same commit as that record. The record of the publication is removed in
//! the commit of the position after it. So after a crash at any moment it is in the log, or it is
//! here.

use bytes::Bytes;
use gatepost_broker::LoggedPublication;
use gatepost_store::{Store, StoreChange, StoreError};

use super::entry;
use super::identity::LogIdentity;
use crate::encoding;

/// The key space of these records; keys are the identities of the publications.
pub(crate) const KEPT_SPACE: &str = "backbone.kept";

/// The change that stores a publication.
pub(crate) fn put(logged: &LoggedPublication) -> StoreChange {
    let mut value = encoding::begin(entry::NO_ORIGIN);
    entry::push(&mut value, logged, true);
    StoreChange::PutRecord {
        space: KEPT_SPACE,
        key: LogIdentity::of(logged).key(),
        value: value.freeze(),
    }
}

/// The change that removes a publication.
pub(crate) fn remove(identity: &LogIdentity) -> StoreChange {
    StoreChange::DeleteRecord {
        space: KEPT_SPACE,
        key: identity.key(),
    }
}

/// All publications, in the order of their ids.
pub(crate) fn read(store: &Store) -> Result<Vec<LoggedPublication>, StoreError> {
    let mut found = Vec::new();
    store.each_record(KEPT_SPACE, b"", |_, value| found.extend(read_value(value)))?;
    Ok(found)
}

/// The publication of a record.
pub(crate) fn read_value(value: Bytes) -> impl Iterator<Item = LoggedPublication> {
    let publications = match entry::read(value) {
        Ok((_, content)) => content.publications(),
        Err(error) => {
            tracing::error!(target: "backbone", %error,
                "a publication that was kept for the cluster cannot be read");
            Vec::new()
        }
    };
    publications.into_iter().map(|one| one.logged)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gatepost_message::{Publication, Topic};

    use super::*;

    #[tokio::test]
    async fn a_kept_publication_is_found_until_it_is_removed() {
        let store = Store::in_memory().expect("a store");
        let one = LoggedPublication {
            publication: Arc::new(Publication::new(Topic::new("a").expect("a topic"), "x")),
            session: Some(7),
            passed_on: None,
        };
        let stored = store.submit([put(&one)]).expect("accepted");
        stored.committed().await.expect("stored");
        assert_eq!(read(&store).expect("read"), std::slice::from_ref(&one));
        let removed = store
            .submit([remove(&LogIdentity::of(&one))])
            .expect("accepted");
        removed.committed().await.expect("stored");
        assert_eq!(read(&store).expect("read"), []);
    }
}
