//! Users of another server, with the password hashes that it made.

use std::sync::Arc;

use super::Users;
use super::manage::{key, new_record};
use crate::identity::unix_seconds;
use crate::record::{self, UserRecord};
use crate::snapshot::KnownUser;
use crate::{Secret, UsersError, check_user_name, foreign_hash, random};

impl Users {
    /// Adds a user by the hash that mosquitto or ntfy has of its password. It logs in with its
    /// password as before; the first login replaces the hash.
    pub async fn import(&self, name: &str, hash: &str, admin: bool) -> Result<(), UsersError> {
        check_user_name(name)?;
        if !foreign_hash::is_known(hash) {
            return Err(UsersError::Hash(name.to_owned()));
        }
        if let Some(known) = self.user(name) {
            return Err(UsersError::Exists(known.name.to_string()));
        }
        let user = UserRecord {
            password: hash.to_owned(),
            scram: None,
            admin,
            disabled: false,
            epoch: u64::from_be_bytes(random::bytes()),
            created: unix_seconds(),
        };
        self.add_record(name, &user).await
    }

    /// Replaces the hash that another server made, now that the password is known: by one of ours,
    /// and the keys of SCRAM. The login is valid whether this succeeds or not, and does not wait
    /// for a cluster.
    pub(super) async fn renew_hash(&self, user: &Arc<KnownUser>, password: &Secret) {
        if !foreign_hash::is_known(&user.password) {
            return;
        }
        if self.shared.store.shared_records().is_none() {
            return self.attempt_renewal(user, password).await;
        }
        // If there are too many, the next login of the user is another occasion.
        if let Ok(permit) = self.shared.renewals.clone().try_acquire_owned() {
            let (users, user, password) = (self.clone(), user.clone(), password.clone());
            tokio::spawn(async move {
                users.attempt_renewal(&user, &password).await;
                drop(permit);
            });
        }
    }

    async fn attempt_renewal(&self, user: &Arc<KnownUser>, password: &Secret) {
        if let Err(error) = self.try_renew_hash(user, password.clone()).await {
            tracing::warn!(target: "users", user = %user.name, %error,
                "the imported hash of the password could not be replaced");
        }
    }

    async fn try_renew_hash(
        &self,
        user: &Arc<KnownUser>,
        password: Secret,
    ) -> Result<(), UsersError> {
        let settings = self.shared.settings.clone();
        let hashed = tokio::task::spawn_blocking(move || new_record(&password, &settings));
        let renewed = hashed.await.map_err(|_| UsersError::Hashing)??;
        self.change(&user.name, || {
            let kept = self.shared.store.record(record::USER, &key(&user.name))?;
            let kept: Option<UserRecord> = kept.and_then(|kept| serde_json::from_slice(&kept).ok());
            // A password that was set meanwhile, or the removal of the user, takes precedence.
            let Some(kept) = kept.filter(|kept| kept.password == *user.password) else {
                return Ok(Vec::new());
            };
            let renewed = UserRecord {
                password: renewed.password.clone(),
                scram: renewed.scram.clone(),
                // With the same epoch, connections of this login remain open.
                ..kept
            };
            Ok(vec![record::put(record::USER, key(&user.name), &renewed)])
        })
        .await
    }
}
