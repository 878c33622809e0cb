//! Recipients who want no digests.
//!
//! Each digest has a link that stops them. It is signed like the links that release messages, but
//! with a key of its own, so that no ticket of one kind is valid as the other. It does not expire,
//! since mail programs offer it for as long as they keep the mail (RFC 8058). Messages that are
//! quarantined meanwhile are not listed later.

use std::collections::BTreeSet;

use bytes::Bytes;
use gatepost_store::{Store, StoreChange};

use super::ticket::TicketKey;
use crate::error::OperationError;
use crate::operations::Operations;

/// The recipients who want no digests, among the records of the database.
const SPACE: &str = "quarantine_digest_off";

/// The recipient of digests that a link is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestRecipient {
    /// The user or the address.
    pub name: String,
    /// Whether digests are sent.
    pub is_on: bool,
    key: Bytes,
}

impl Operations {
    /// The recipient whose link this server signed as `text`; `None` if it did not sign it.
    pub async fn digest_recipient(
        &self,
        text: String,
    ) -> Result<Option<DigestRecipient>, OperationError> {
        self.blocking(move |operations| {
            let store = &operations.store;
            let key = TicketKey::read(store)?.and_then(|key| key.verify_recipient(&text));
            let Some(key) = key.map(Bytes::from) else {
                return Ok(None);
            };
            // The key is the kind of the recipient and its name.
            let text = String::from_utf8_lossy(&key);
            let name = text.split_once(' ').map_or("", |(_, name)| name).to_owned();
            let is_on = store.record(SPACE, &key)?.is_none();
            Ok(Some(DigestRecipient { name, is_on, key }))
        })
        .await
    }

    /// Stops the digests for a recipient, or sends them again.
    pub async fn switch_digests(
        &self,
        recipient: &DigestRecipient,
        is_on: bool,
    ) -> Result<(), OperationError> {
        let (space, key) = (SPACE, recipient.key.clone());
        let change = if is_on {
            StoreChange::DeleteRecord { space, key }
        } else {
            let value = Bytes::new();
            StoreChange::PutRecord { space, key, value }
        };
        Ok(self.store.submit([change])?.committed().await?)
    }
}

/// The keys of the recipients who want no digests. Blocks.
pub(super) fn stopped(store: &Store) -> Result<BTreeSet<Bytes>, OperationError> {
    let records = store.records(SPACE, b"")?;
    Ok(records.into_iter().map(|(key, _)| key).collect())
}
