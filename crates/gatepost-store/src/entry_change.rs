//! Changes of records that are shared where there is a cluster: computed, stored, and computed
//! again if another server was first.

use std::sync::Arc;

use crate::shared_records::{EntryOutcome, SharedEntry, SharedRecords};
use crate::{Store, StoreChange, StoreError};

/// The number of times that a change is computed while other servers change the same entry.
const ATTEMPTS_MAX: usize = 10;

impl Store {
    /// Leaves the decision about shared records to a cluster, for as long as the store is open.
    /// Only the first call has an effect.
    pub fn share_records(&self, cluster: Arc<dyn SharedRecords>) {
        let _ = self.inner.cluster.set(cluster);
    }

    /// The cluster that decides about shared records, if there is one.
    pub fn shared_records(&self) -> Option<&Arc<dyn SharedRecords>> {
        self.inner.cluster.get()
    }

    /// Changes records of one entry; returns when the change is durable. `changes` computes the
    /// change from the records in the database, again if another server has changed the entry
    /// meanwhile.
    pub async fn change_entry<E: From<StoreError>>(
        &self,
        entry: SharedEntry<'_>,
        mut changes: impl FnMut() -> Result<Vec<StoreChange>, E> + Send,
    ) -> Result<(), E> {
        let Some(cluster) = self.shared_records() else {
            let ticket = self.submit(changes()?)?;
            return Ok(ticket.committed().await?);
        };
        for _ in 0..ATTEMPTS_MAX {
            let revision = cluster.revision(entry);
            let decision = cluster.commit(entry, revision, changes()?);
            if decision.await? == EntryOutcome::Stored {
                return Ok(());
            }
        }
        let cause = "other servers change the same entry; try again".into();
        Err(StoreError::Cluster { cause }.into())
    }
}
