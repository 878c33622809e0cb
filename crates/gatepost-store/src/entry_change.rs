//! Changes of records that are shared where there is a cluster: computed, stored, and computed
//! again if another server, or another process on the same database, was first.

use std::sync::Arc;

use crate::shared_records::{EntryOutcome, SharedEntry, SharedRecords};
use crate::{Store, StoreChange, StoreError};

/// The number of times that a change is computed while others change the same entry.
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
    /// change from the records in the database, again if another server or process has changed the
    /// entry meanwhile.
    pub async fn change_entry<E: From<StoreError>>(
        &self,
        entry: SharedEntry<'_>,
        mut changes: impl FnMut() -> Result<Vec<StoreChange>, E> + Send,
    ) -> Result<(), E> {
        let Some(cluster) = self.shared_records() else {
            return self.change_own_entry(changes).await;
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

    /// Without a cluster, another process may change the same records; the changes then name what
    /// they expect ([`StoreChange::ExpectRecord`]).
    async fn change_own_entry<E: From<StoreError>>(
        &self,
        mut changes: impl FnMut() -> Result<Vec<StoreChange>, E> + Send,
    ) -> Result<(), E> {
        let mut attempts = 1;
        loop {
            let ticket = self.submit(changes()?)?;
            match ticket.committed().await {
                Err(StoreError::Outdated { .. }) if attempts < ATTEMPTS_MAX => attempts += 1,
                outcome => return Ok(outcome?),
            }
        }
    }
}
