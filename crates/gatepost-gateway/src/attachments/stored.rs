//! The record of a file in the database, as JSON. Its key is the file's id.

use bytes::Bytes;
use gatepost_store::{Store, StoreChange, StoreError};
use serde::{Deserialize, Serialize};

/// The key space of the records.
const SPACE: &str = "attachment";

/// The facts about a file that is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredAttachment {
    #[serde(skip)]
    pub(super) id: String,
    pub(super) name: String,
    pub(super) content_type: String,
    pub(super) extension: String,
    pub(super) size: u64,
    pub(super) expires_unix_s: u64,
    /// The user or network that sent it.
    pub(super) client: String,
    pub(super) is_anonymous: bool,
}

/// The change that adds the record. It is refused while the disk is nearly full.
pub(super) fn addition(file: &StoredAttachment) -> StoreChange {
    StoreChange::AddRecord {
        space: SPACE,
        key: Bytes::copy_from_slice(file.id.as_bytes()),
        // An object of numbers and text can always be written.
        value: serde_json::to_vec(file).unwrap_or_default().into(),
    }
}

/// The change that removes the record.
pub(super) fn removal(id: &str) -> StoreChange {
    StoreChange::DeleteRecord {
        space: SPACE,
        key: Bytes::copy_from_slice(id.as_bytes()),
    }
}

/// All records. Unreadable ones are left out.
pub(super) fn all(store: &Store) -> Result<Vec<StoredAttachment>, StoreError> {
    let records = store.records(SPACE, b"")?.into_iter();
    let files = records.filter_map(|(key, value)| {
        let mut file: StoredAttachment = serde_json::from_slice(&value).ok()?;
        file.id = String::from_utf8_lossy(&key).into_owned();
        Some(file)
    });
    Ok(files.collect())
}
