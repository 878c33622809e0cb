//! Records that the servers of a cluster share, such as users.
//!
//! The records are in each server's database, and every query reads them there. Changes are decided
//! by the cluster, whose part is [`SharedRecords`]: a change becomes a change of the database when
//! the cluster has stored it. The owner of the records calls
//! [`Store::change_entry`](crate::Store::change_entry) and need not
//! know whether there is a cluster; without one, the database decides.
//!
//! Records that have to change together form an *entry*, such as a user with its rules. The cluster
//! stores entries, each under a name and with a revision, and does not know what they mean.
//!
//! Invariant: a change is stored only if the entry is the same as when the change was computed.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use tokio::sync::watch;

use crate::{StoreChange, StoreError};

/// The records of one owner that are shared.
#[derive(Debug)]
pub struct SharedSet {
    /// The name, which begins the names of the set's entries: small letters and `_`.
    pub name: &'static str,
    /// Whether each server generates the entries by itself, so that servers that join a cluster
    /// differ in them although no operator made them.
    pub is_generated: bool,
    /// The spaces of the records.
    pub spaces: &'static [&'static str],
    /// Returns the name of the entry that a record belongs to, by the record's space, key and
    /// value; `None` for a record that is not shared.
    pub entry_of: fn(&str, &[u8], &[u8]) -> Option<String>,
}

/// The name of an entry, within its set.
#[derive(Debug, Clone, Copy)]
pub struct SharedEntry<'a> {
    /// The set.
    pub set: &'static SharedSet,
    /// The name, as [`SharedSet::entry_of`] returns it.
    pub name: &'a str,
}

/// The result of a change that the cluster could decide about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryOutcome {
    /// The change is stored, by the cluster and here.
    Stored,
    /// The entry has another revision: the change has to be computed again.
    Outdated,
}

/// A decision of the cluster to come.
pub type EntryDecision = Pin<Box<dyn Future<Output = Result<EntryOutcome, StoreError>> + Send>>;

/// The cluster, as the owners of records see it.
pub trait SharedRecords: Send + Sync {
    /// The revision of an entry that this server's database has; 0 for an entry that does not
    /// exist. Records that are read afterwards are those of this revision, or later ones.
    fn revision(&self, entry: SharedEntry<'_>) -> u64;

    /// Changes records of an entry that has this revision.
    fn commit(
        &self,
        entry: SharedEntry<'_>,
        revision: u64,
        changes: Vec<StoreChange>,
    ) -> EntryDecision;

    /// Whether the database has the records of the cluster, as they were at some time. A new server
    /// has not, until it has reached the cluster once.
    fn is_complete(&self) -> bool;

    /// Signals changes of records of a set that the cluster has made in the database.
    fn changes(&self, set: &'static SharedSet) -> watch::Receiver<u64>;
}

/// The cluster of a store, which may be set after the store was opened.
pub(crate) type SharingCluster = OnceLock<Arc<dyn SharedRecords>>;
