//! Changes that the writer applies.

use std::sync::Arc;

use bytes::Bytes;
use gatepost_message::{MessageId, Publication, Topic};

use crate::journal::{JournalEntry, QuarantineEntry};
use crate::series::SeriesSample;
use crate::session::SessionChange;

/// One change. Changes submitted together are committed together or not at all.
#[derive(Debug, Clone)]
pub enum StoreChange {
    /// Sets the retained message of the topic.
    Retain(Arc<Publication>),
    /// Removes the retained message of the topic.
    Unretain(Topic),
    /// Adds to the history of its topic, at the position of its id.
    History(Arc<Publication>),
    /// Adds to the history of its topic, at another position, because messages overtook each other.
    HistoryAt(MessageId, Arc<Publication>),
    /// As `HistoryAt`, unless the history has this message of the topic.
    RestoreHistory(MessageId, Arc<Publication>),
    /// Puts a message into quarantine.
    Quarantine(Box<QuarantineEntry>),
    /// Removes a message from quarantine, released or deleted.
    Unquarantine(MessageId),
    /// Appends to the journal of verdicts.
    Journal(Box<JournalEntry>),
    /// Replaces a journal entry, because the message got another verdict.
    ReplaceJournal(Box<JournalEntry>),
    /// A change of the sessions that outlive their connections.
    Session(SessionChange),
    /// Appends a sample to the time series, and removes the oldest beyond its limit.
    Sample(Box<SeriesSample>),
    /// Adds a record whose key must be new.
    AddRecord {
        /// The key space.
        space: &'static str,
        /// The key within it.
        key: Bytes,
        /// The value.
        value: Bytes,
    },
    /// Sets a record that another crate keeps, such as a user. `space` names that crate's key
    /// space; keys sort bytewise within it.
    PutRecord {
        /// The key space.
        space: &'static str,
        /// The key within it.
        key: Bytes,
        /// The new value.
        value: Bytes,
    },
    /// Refuses the changes that are submitted with it ([`StoreError::Outdated`]) unless a record
    /// has this value. So changes that were computed from stored records are not stored if another
    /// process was first.
    ///
    /// [`StoreError::Outdated`]: crate::StoreError::Outdated
    ExpectRecord {
        /// The key space.
        space: &'static str,
        /// The key within it.
        key: Bytes,
        /// The value; `None` if there must be no such record.
        value: Option<Bytes>,
    },
    /// Removes a record; no error if there is none.
    DeleteRecord {
        /// The key space.
        space: &'static str,
        /// The key within it.
        key: Bytes,
    },
    /// Removes all records whose key starts with `prefix`.
    DeleteRecords {
        /// The key space.
        space: &'static str,
        /// The first bytes of the keys.
        prefix: Bytes,
    },
}

impl StoreChange {
    /// Whether it stores a message, or data of less importance: such changes are refused while the
    /// disk is nearly full; changes that only remove data are not.
    pub fn stores_message(&self) -> bool {
        matches!(
            self,
            Self::Retain(_)
                | Self::History(_)
                | Self::HistoryAt(..)
                | Self::RestoreHistory(..)
                | Self::Quarantine(_)
                | Self::AddRecord { .. }
                | Self::Sample(_)
                | Self::Session(SessionChange::Message { .. })
        )
    }

    /// Roughly the memory it takes while waiting, in bytes.
    pub fn weight(&self) -> usize {
        const OVERHEAD_BYTES: usize = 128;
        OVERHEAD_BYTES
            + match self {
                Self::Retain(publication)
                | Self::History(publication)
                | Self::HistoryAt(_, publication)
                | Self::RestoreHistory(_, publication) => publication.payload.len(),
                Self::Quarantine(entry) => entry.body.len(),
                Self::AddRecord { key, value, .. } | Self::PutRecord { key, value, .. } => {
                    key.len() + value.len()
                }
                Self::ExpectRecord { key, value, .. } => {
                    key.len() + value.as_ref().map_or(0, Bytes::len)
                }
                Self::Session(change) => change.weight(),
                Self::Sample(sample) => sample.weight(),
                Self::Unretain(_)
                | Self::Unquarantine(_)
                | Self::Journal(_)
                | Self::ReplaceJournal(_)
                | Self::DeleteRecord { .. }
                | Self::DeleteRecords { .. } => 0,
            }
    }
}
