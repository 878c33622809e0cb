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
    /// password as before; a login replaces the hash.
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
            incarnation: u64::from_be_bytes(random::bytes()),
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
        // If there are too many, the next login of the user is another occasion.
        let Ok(permit) = self.shared.renewals.clone().try_acquire_owned() else {
            return;
        };
        // Another connection of the user may have replaced it while this one waited.
        let now = self.user(&user.name);
        if now.is_none_or(|now| now.password != user.password) {
            return;
        }
        if self.shared.store.shared_records().is_none() {
            self.attempt_renewal(user, password).await;
            return;
        }
        let (users, user, password) = (self.clone(), user.clone(), password.clone());
        tokio::spawn(async move {
            users.attempt_renewal(&user, &password).await;
            drop(permit);
        });
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

#[cfg(test)]
mod tests {
    use gatepost_message::{Listener, Peer};
    use gatepost_store::Store;

    use super::super::RENEWALS_MAX;
    use super::*;
    use crate::{AccessSettings, Credentials, LoginOrigin};

    /// Made by `mosquitto_passwd` 2.0; the password is `correct horse`.
    const HASH: &str = "$7$101$zPVq7sxU58LmFz6u$CB/K98fIpygpgg85iyaf8Ug9dztQ/QdbDh8864CLMqQ\
        FglRpOp9iqNFm3fzkpdcoYGq+xza4A1hwh853wOpCNA==";

    #[tokio::test]
    async fn after_an_import_logins_replace_a_few_hashes_at_once_and_the_others_later() {
        let settings = AccessSettings {
            scram_iterations: 4_096,
            ..AccessSettings::default()
        };
        let users = Users::open(Store::in_memory().expect("a store"), &settings).expect("users");
        users.import("anna", HASH, false).await.expect("imported");
        let log_in = || {
            let credentials = Credentials::Password {
                user: "anna".to_owned(),
                password: "correct horse".into(),
            };
            let origin = LoginOrigin::new(Listener::Mqtt, Peer::Local);
            let users = users.clone();
            async move { users.authenticate(credentials, &origin).await }
        };
        let has_own_hash = || {
            let user = users.user("anna").expect("known");
            !foreign_hash::is_known(&user.password)
        };
        let others = users.shared.renewals.clone();
        let others = others.try_acquire_many_owned(RENEWALS_MAX as u32);
        let others = others.expect("none is replaced yet");
        log_in().await.expect("let in");
        assert!(!has_own_hash(), "others are being replaced");
        drop(others);
        let login = log_in().await.expect("let in");
        assert!(has_own_hash());
        assert!(!login.is_revoked() && users.list()[0].scram);
    }

    #[tokio::test]
    async fn an_unknown_user_is_checked_like_an_imported_one_until_a_login_replaces_the_hash() {
        let settings = AccessSettings::default();
        let users = Users::open(Store::in_memory().expect("a store"), &settings).expect("users");
        let hash_of_unknown = || {
            let snapshot = users.shared.live.load_full();
            users.hash_of_unknown(&snapshot, "otto").to_string()
        };
        assert!(!foreign_hash::is_known(&hash_of_unknown()));
        users.import("anna", HASH, false).await.expect("imported");
        assert_eq!(hash_of_unknown(), HASH);
        let password = "another password".into();
        users.set_password("anna", password).await.expect("changed");
        assert!(!foreign_hash::is_known(&hash_of_unknown()));
    }
}
