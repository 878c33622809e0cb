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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use gatepost_store::{Store, StoreSettings};

    use super::*;
    use crate::record::{self, UserRecord};
    use crate::{AccessSettings, Secret};

    /// Makes a change on another thread, as another process does.
    fn disable(users: &Users, name: &str) {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.expect("a runtime");
        let changed = runtime.block_on(users.set_standing(name, Some(true), None));
        changed.expect("changed");
    }

    #[tokio::test]
    async fn a_change_that_another_process_overtakes_is_computed_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = AccessSettings::default();
        let (store, _) = Store::open(folder.path(), &StoreSettings::default()).expect("a store");
        let users = Users::open(store.clone(), &settings).expect("users");
        let password = Secret::new("a long password".to_owned());
        users.add("anna", password, false).await.expect("added");
        let command = Store::open_secondary(folder.path(), &StoreSettings::default());
        let command = Users::open(command.expect("a store"), &settings).expect("users");

        let computed = AtomicUsize::new(0);
        let changed = users.change("anna", || {
            let known = users.user("anna").expect("a user");
            if computed.fetch_add(1, Ordering::Relaxed) == 0 {
                std::thread::scope(|threads| {
                    threads.spawn(|| disable(&command, "anna"));
                });
            }
            let user = UserRecord {
                password: known.password.to_string(),
                scram: known.scram.clone(),
                admin: true,
                disabled: known.disabled,
                epoch: known.epoch,
                created: known.created,
                incarnation: known.incarnation,
            };
            let key = bytes::Bytes::from_static(b"anna");
            Ok(vec![record::put(record::USER, key, &user)])
        });
        changed.await.expect("changed");
        assert_eq!(computed.into_inner(), 2);
        let anna = users.list().remove(0);
        assert!(anna.admin && anna.disabled, "neither change is lost");
    }
}
