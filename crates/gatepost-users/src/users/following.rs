//! Changes of users that are made elsewhere: by another process on the same database, or by another
//! server of the cluster.

use std::time::Duration;

use tokio::sync::watch;

use super::Users;
use crate::UsersError;

/// The maximum delay until a change by another process takes effect.
const FOLLOW_EVERY: Duration = Duration::from_secs(1);

impl Users {
    /// Follows changes that another process makes (`gatepost user …`) or another server of a
    /// cluster, and ends the sessions of browsers that are over; runs until dropped.
    pub async fn follow(&self) {
        let cluster = self.shared.store.shared_records();
        let mut shared_changes = cluster.map(|cluster| cluster.changes());
        let mut ticks = tokio::time::interval(FOLLOW_EVERY);
        loop {
            let users = self.clone();
            let looked = tokio::select! {
                _ = ticks.tick() => {
                    self.sweep_sessions();
                    tokio::task::spawn_blocking(move || users.load_if_changed()).await
                }
                () = next_change(&mut shared_changes) => {
                    tokio::task::spawn_blocking(move || users.load_snapshot()).await
                }
            };
            if let Ok(Err(error)) = looked {
                tracing::warn!(
                    target: "users",
                    %error,
                    "users cannot be read; the previous ones remain in force",
                );
            }
        }
    }

    /// Reads the users again if another process has changed them.
    pub(super) fn load_if_changed(&self) -> Result<(), UsersError> {
        let revision = self.revision()?;
        if *self.shared.loaded.lock() == revision {
            return Ok(());
        }
        self.load_snapshot()
    }
}

/// Waits for the next change by the cluster; without a cluster, it never returns.
async fn next_change(changes: &mut Option<watch::Receiver<u64>>) {
    if let Some(changes) = changes
        && changes.changed().await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}
