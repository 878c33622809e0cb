//! Changes of users that are made elsewhere: by another process on the same database, or by another
//! server of the cluster.

use std::time::Duration;

use tokio::sync::watch;

use super::Users;
use crate::UsersError;
use crate::record::{SHARED_ACCESS, SHARED_PEPPER};

/// The maximum delay until a change by another process takes effect.
const FOLLOW_EVERY: Duration = Duration::from_secs(1);

impl Users {
    /// Follows changes that another process makes (`gatepost user …`) or another server of a
    /// cluster, and ends the sessions of browsers that are over; runs until dropped.
    pub async fn follow(&self) {
        let cluster = self.shared.store.shared_records();
        let changes_of = |set| cluster.map(|cluster| cluster.changes(set));
        let mut access_changes = changes_of(&SHARED_ACCESS);
        let mut pepper_changes = changes_of(&SHARED_PEPPER);
        let mut ticks = tokio::time::interval(FOLLOW_EVERY);
        loop {
            let users = self.clone();
            let looked = tokio::select! {
                _ = ticks.tick() => {
                    self.sweep_sessions();
                    tokio::task::spawn_blocking(move || users.load_if_changed()).await
                }
                () = next_change(&mut access_changes) => {
                    tokio::task::spawn_blocking(move || users.load_snapshot()).await
                }
                () = next_change(&mut pepper_changes) => {
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
