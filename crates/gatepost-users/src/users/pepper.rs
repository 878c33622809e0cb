//! The key of an installation's keyed hashes.

use gatepost_store::{Store, StoreChange};

use crate::{UsersError, random, record};

/// The key of this installation, generated at the first start.
pub(super) fn of(store: &Store) -> Result<[u8; 32], UsersError> {
    if let Some(pepper) = stored(store)? {
        return Ok(pepper);
    }
    let pepper = random::bytes::<32>();
    // The commit is not awaited: if it is lost, the next start generates another key.
    store.submit([StoreChange::PutRecord {
        space: record::ACCESS,
        key: record::PEPPER.into(),
        value: pepper.to_vec().into(),
    }])?;
    Ok(pepper)
}

/// The key, if there is one.
pub(super) fn stored(store: &Store) -> Result<Option<[u8; 32]>, UsersError> {
    let kept = store.record(record::ACCESS, record::PEPPER)?;
    Ok(kept.and_then(|kept| <[u8; 32]>::try_from(&kept[..]).ok()))
}
