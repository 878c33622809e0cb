//! Recipients who want no digests.
//!
//! Each digest has a link that stops them. It is signed like the links that release messages, but
//! with a key of its own, so that no ticket of one kind is valid as the other. It does not expire,
//! since mail programs offer it for as long as they keep the mail (RFC 8058). Messages that are
//! quarantined meanwhile are not listed later.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use gatepost_store::{Store, StoreChange};
use serde::Serialize;

use super::ticket::TicketKey;
use crate::error::OperationError;
use crate::operations::Operations;

/// The recipients who want no digests, among the records of the database, with the time at which
/// they stopped them, in seconds since 1970.
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

/// A recipient who wants no digests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StoppedDigests {
    /// `mailbox` for a user, `address` for an address at a next hop.
    pub kind: String,
    /// The user or the address.
    pub name: String,
    /// The time since which no digests are sent, in milliseconds since 1970.
    pub since_unix_ms: Option<u64>,
}

impl Operations {
    /// The recipients who want no digests, sorted: `count` of them after the first `skip`, and the
    /// number of all.
    pub async fn stopped_digests(
        &self,
        (skip, count): (usize, usize),
    ) -> Result<(Vec<StoppedDigests>, usize), OperationError> {
        self.blocking(move |operations| {
            let (mut page, mut total) = (Vec::new(), 0);
            operations.store.each_record(SPACE, b"", |key, value| {
                if total >= skip && page.len() < count {
                    page.push(StoppedDigests::of(&key, &value));
                }
                total += 1;
            })?;
            Ok((page, total))
        })
        .await
    }

    /// Sends digests to a recipient again. [`OperationError::NotFound`] if they were not stopped.
    pub async fn restart_digests(&self, kind: &str, name: &str) -> Result<(), OperationError> {
        let key = Bytes::from(format!("{kind} {name}"));
        let of_record = key.clone();
        let record =
            self.blocking(move |operations| Ok(operations.store.record(SPACE, &of_record)?));
        if record.await?.is_none() {
            return Err(OperationError::NotFound);
        }
        let change = StoreChange::DeleteRecord { space: SPACE, key };
        Ok(self.store.submit([change])?.committed().await?)
    }

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
            let name = StoppedDigests::of(&key, &[]).name;
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
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            let now = now.unwrap_or_default().as_secs();
            let value = Bytes::copy_from_slice(&now.to_be_bytes());
            StoreChange::PutRecord { space, key, value }
        };
        Ok(self.store.submit([change])?.committed().await?)
    }
}

impl StoppedDigests {
    /// The key of a record is the kind of the recipient and its name.
    fn of(key: &[u8], value: &[u8]) -> Self {
        let key = String::from_utf8_lossy(key);
        let (kind, name) = key.split_once(' ').unwrap_or(("", &key));
        let since = <[u8; size_of::<u64>()]>::try_from(value).ok();
        let since = since.map(|bytes| Duration::from_secs(u64::from_be_bytes(bytes)));
        Self {
            kind: kind.to_owned(),
            name: name.to_owned(),
            since_unix_ms: since.map(|since| since.as_millis() as u64),
        }
    }
}

/// The keys of the recipients who want no digests. Blocks.
pub(super) fn stopped(store: &Store) -> Result<BTreeSet<Bytes>, OperationError> {
    let records = store.records(SPACE, b"")?;
    Ok(records.into_iter().map(|(key, _)| key).collect())
}
