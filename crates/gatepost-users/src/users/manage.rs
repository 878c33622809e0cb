//! Changes of users, tokens and rules, for `gatepost user` and the admin API.
//!
//! Each change is on disk and in force in this process when its future completes; a server in
//! another process sees it within a second ([`Users::follow`]). Where there is a cluster, the
//! cluster has stored it too. A change is a function of the users as they are, which is called
//! again if another server has changed the same user meanwhile, or another process any user.

use std::sync::Arc;

use bytes::Bytes;
use gatepost_store::StoreChange;
use serde::Serialize;

use crate::identity::unix_seconds;
use crate::names::fold;
use crate::record::{self, GrantRecord, ScopeRecord, TokenRecord, UserRecord};
use crate::scram::ScramKeys;
use crate::snapshot::KnownUser;
use crate::token::TokenHash;
use crate::{
    ANONYMOUS, AccessSet, AccessSettings, EVERYONE, Effect, Secret, Users, UsersError,
    check_user_name, password, pattern, random, token,
};

/// A user for display, without secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UserSummary {
    /// The name.
    pub name: String,
    /// Whether it is an administrator.
    pub admin: bool,
    /// Whether it is disabled.
    pub disabled: bool,
    /// Whether it can log in by SCRAM-SHA-256.
    pub scram: bool,
    /// Unix seconds.
    pub created: u64,
    /// Its own rules.
    pub rules: Vec<AccessRuleSummary>,
    /// Its tokens.
    pub tokens: Vec<TokenSummary>,
}

/// A rule for display.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AccessRuleSummary {
    /// Whether the rule allows or denies.
    pub effect: Effect,
    /// The accesses that it covers.
    pub access: AccessSet,
    /// The topic filter, with `%u` and `%c` as written.
    pub filter: String,
}

/// A token for display, without the token itself, which is not stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TokenSummary {
    /// The id by which the token can be revoked.
    pub id: String,
    /// The purpose of the token.
    pub label: String,
    /// Unix seconds.
    pub created: u64,
    /// Unix seconds; `None` for never.
    pub expires: Option<u64>,
    /// The permissions that it is restricted to; `None` for all permissions of its user.
    pub scope: Option<Vec<AccessRuleSummary>>,
}

impl Users {
    /// Adds a user.
    pub async fn add(&self, name: &str, password: Secret, admin: bool) -> Result<(), UsersError> {
        check_user_name(name)?;
        if let Some(known) = self.user(name) {
            return Err(UsersError::Exists(known.name.to_string()));
        }
        let mut user = self.with_password(name, password).await?;
        user.admin = admin;
        self.add_record(name, &user).await
    }

    /// Adds a user who does not exist.
    pub(super) async fn add_record(&self, name: &str, user: &UserRecord) -> Result<(), UsersError> {
        self.change(name, || match self.user(name) {
            Some(known) => Err(UsersError::Exists(known.name.to_string())),
            None => Ok(vec![record::put(record::USER, key(name), user)]),
        })
        .await
    }

    /// Sets another password. Connections with the old password are closed; tokens stay valid.
    pub async fn set_password(&self, name: &str, password: Secret) -> Result<(), UsersError> {
        let known = self.known(name)?;
        let changed = self.with_password(&known.name, password).await?;
        self.change(name, || {
            let known = self.known(name)?;
            let user = UserRecord {
                admin: known.admin,
                disabled: known.disabled,
                created: known.created,
                incarnation: known.incarnation,
                ..changed.clone()
            };
            Ok(vec![record::put(record::USER, key(&known.name), &user)])
        })
        .await
    }

    /// Disables or enables a user, or changes whether it is an administrator.
    pub async fn set_standing(
        &self,
        name: &str,
        disabled: Option<bool>,
        admin: Option<bool>,
    ) -> Result<(), UsersError> {
        self.change(name, || {
            let known = self.known(name)?;
            let user = UserRecord {
                password: known.password.to_string(),
                scram: known.scram.clone(),
                admin: admin.unwrap_or(known.admin),
                disabled: disabled.unwrap_or(known.disabled),
                epoch: known.epoch,
                created: known.created,
                incarnation: known.incarnation,
            };
            Ok(vec![record::put(record::USER, key(&known.name), &user)])
        })
        .await
    }

    /// Removes a user with its rules and tokens. A later user of the same name inherits nothing.
    pub async fn remove(&self, name: &str) -> Result<(), UsersError> {
        self.change(name, || {
            let known = self.known(name)?;
            let name = &*known.name;
            let snapshot = self.shared.live.load_full();
            let tokens = snapshot.tokens.iter();
            let tokens = tokens.filter(|(_, token)| *token.user == *name);
            let mut changes: Vec<StoreChange> = tokens
                .map(|(hash, _)| record::delete(record::TOKEN, hash.to_vec()))
                .collect();
            changes.push(StoreChange::DeleteRecords {
                space: record::GRANT,
                prefix: format!("{name}\0").into(),
            });
            changes.push(record::delete(record::USER, key(name)));
            Ok(changes)
        })
        .await
    }

    /// Extends the rule of `subject` (a user, [`EVERYONE`] or [`ANONYMOUS`]) for `filter`, or makes
    /// a new one.
    pub async fn grant(
        &self,
        subject: &str,
        effect: Effect,
        access: AccessSet,
        filter: &str,
    ) -> Result<(), UsersError> {
        check_filter(filter)?;
        self.change(subject, || {
            let subject = &*self.subject(subject)?;
            let kept = self.granted(subject, effect, filter);
            let access = kept.with(access);
            let key = record::grant_key(subject, effect, filter);
            let rule = GrantRecord { access };
            Ok(vec![record::put(record::GRANT, key, &rule)])
        })
        .await
    }

    /// Removes accesses from the rules of `subject` for `filter`, both allow and deny rules.
    pub async fn revoke(
        &self,
        subject: &str,
        access: AccessSet,
        filter: &str,
    ) -> Result<(), UsersError> {
        self.change(subject, || self.without_access(subject, access, filter))
            .await
    }

    fn without_access(
        &self,
        subject: &str,
        access: AccessSet,
        filter: &str,
    ) -> Result<Vec<StoreChange>, UsersError> {
        // A rule's subject may be a user that no longer exists.
        let subject = &*self.subject(subject).unwrap_or_else(|_| subject.into());
        let mut changes = Vec::new();
        for effect in [Effect::Allow, Effect::Deny] {
            let granted = self.granted(subject, effect, filter);
            if granted.is_empty() {
                continue;
            }
            let key = record::grant_key(subject, effect, filter);
            let left = GrantRecord {
                access: granted.without(access),
            };
            changes.push(if left.access.is_empty() {
                record::delete(record::GRANT, key)
            } else {
                record::put(record::GRANT, key, &left)
            });
        }
        if changes.is_empty() {
            return Err(UsersError::NoRule {
                subject: subject.to_owned(),
                filter: filter.to_owned(),
            });
        }
        Ok(changes)
    }

    /// Creates a token, which is shown only once.
    pub async fn create_token(
        &self,
        name: &str,
        label: &str,
        valid_seconds: Option<u64>,
        scope: Option<Vec<(AccessSet, String)>>,
    ) -> Result<Secret, UsersError> {
        self.known(name)?;
        let scope = scope.map(|scope| {
            let parts = scope.into_iter().map(|(access, filter)| {
                check_filter(&filter).map(|()| ScopeRecord { filter, access })
            });
            parts.collect::<Result<Vec<_>, _>>()
        });
        let token = token::generate();
        let created = unix_seconds();
        let expires = valid_seconds.map(|seconds| created.saturating_add(seconds));
        let scope = scope.transpose()?;
        let hash = token::hash(&token);
        self.change(name, || {
            let kept = TokenRecord {
                user: self.known(name)?.name.to_string(),
                label: label.to_owned(),
                created,
                expires,
                scope: scope.clone(),
            };
            Ok(vec![record::put(record::TOKEN, hash.to_vec(), &kept)])
        })
        .await?;
        Ok(token)
    }

    /// Revokes a token by the id that [`list`](Self::list) shows.
    pub async fn remove_token(&self, id: &str) -> Result<(), UsersError> {
        let user = self.token(id)?.1;
        self.change(&user, || {
            let (hash, _) = self.token(id)?;
            Ok(vec![record::delete(record::TOKEN, hash.to_vec())])
        })
        .await
    }

    /// The hash and the user of a token, by its displayed id.
    fn token(&self, id: &str) -> Result<(TokenHash, Arc<str>), UsersError> {
        let snapshot = self.shared.live.load_full();
        let mut tokens = snapshot.tokens.iter();
        let found = tokens.find(|(hash, _)| token::id(hash) == id);
        let (hash, token) = found.ok_or_else(|| UsersError::NoToken(id.to_owned()))?;
        Ok((*hash, token.user.clone()))
    }

    /// Whether the database has a user of this name, which may be newer than the users in memory.
    pub fn is_stored(&self, name: &str) -> Result<bool, UsersError> {
        let record = self.shared.store.record(record::USER, name.as_bytes())?;
        Ok(record.is_some())
    }

    /// Whether there is a user of this name, in any letter case.
    pub fn has(&self, name: &str) -> bool {
        self.user(name).is_some()
    }

    /// All users, by name.
    pub fn list(&self) -> Vec<UserSummary> {
        let snapshot = self.shared.live.load_full();
        let mut users: Vec<UserSummary> = snapshot
            .users()
            .map(|user| UserSummary {
                name: user.name.to_string(),
                admin: user.admin,
                disabled: user.disabled,
                scram: user.scram.is_some(),
                created: user.created,
                rules: self.rules(&user.name),
                tokens: self.tokens(&user.name),
            })
            .collect();
        users.sort_by(|one, other| one.name.cmp(&other.name));
        users
    }

    /// The rules of a user, of [`EVERYONE`] or of [`ANONYMOUS`].
    pub fn rules(&self, subject: &str) -> Vec<AccessRuleSummary> {
        let recorded = self.subject(subject);
        let subject = recorded.as_deref().unwrap_or(subject);
        let snapshot = self.shared.live.load();
        let rules = snapshot.rules_of(subject).iter();
        rules.map(AccessRuleSummary::from).collect()
    }

    fn tokens(&self, name: &str) -> Vec<TokenSummary> {
        let snapshot = self.shared.live.load();
        let mut tokens: Vec<TokenSummary> = snapshot
            .tokens
            .iter()
            .filter(|(_, token)| *token.user == *name)
            .map(|(hash, token)| TokenSummary {
                id: token::id(hash),
                label: token.label.clone(),
                created: token.created,
                expires: token.expires,
                scope: token
                    .scope
                    .as_ref()
                    .map(|scope| scope.iter().map(AccessRuleSummary::from).collect()),
            })
            .collect();
        tokens.sort_by(|one, other| (one.created, &one.id).cmp(&(other.created, &other.id)));
        tokens
    }

    fn granted(&self, subject: &str, effect: Effect, filter: &str) -> AccessSet {
        let snapshot = self.shared.live.load();
        let mut rules = snapshot.rules_of(subject).iter();
        rules
            .find(|rule| rule.effect == effect && *rule.filter == *filter)
            .map_or(AccessSet::NONE, |rule| rule.access)
    }

    fn known(&self, name: &str) -> Result<Arc<KnownUser>, UsersError> {
        self.user(name)
            .ok_or_else(|| UsersError::NoUser(name.to_owned()))
    }

    /// The subject of rules under its recorded name.
    fn subject(&self, subject: &str) -> Result<Arc<str>, UsersError> {
        match subject {
            ANONYMOUS | EVERYONE => Ok(subject.into()),
            name => self.known(name).map(|known| known.name.clone()),
        }
    }

    /// A record with this password, hashed on a thread of the blocking pool.
    async fn with_password(&self, name: &str, password: Secret) -> Result<UserRecord, UsersError> {
        password::check(&password, name, self.shared.settings.password_length_min)?;
        let settings = self.shared.settings.clone();
        tokio::task::spawn_blocking(move || new_record(&password, &settings))
            .await
            .map_err(|_| UsersError::Hashing)?
    }

    /// Makes a change of one user's or group's records, which `changes` computes from the users as
    /// they are on the disk, and puts it in force here.
    pub(super) async fn change(
        &self,
        name: &str,
        changes: impl Fn() -> Result<Vec<StoreChange>, UsersError> + Send,
    ) -> Result<(), UsersError> {
        let store = &self.shared.store;
        let is_shared = store.shared_records().is_some();
        // Two changes that are computed from the same users would lose the first one. In a cluster,
        // revisions prevent that.
        let mut _changing = None;
        if !is_shared {
            _changing = Some(self.shared.changing.lock().await);
            // The commit of a change whose caller has given up may be in progress.
            store.flush().await;
        }
        let computed = move || {
            if is_shared {
                // The change is for the revision that the store had just before.
                self.load_snapshot()?;
                return changes();
            }
            // Another process may have changed users since the last look (`Users::follow`).
            self.load_if_changed()?;
            // If one does so from here on, the change is refused and computed again.
            let revision = self.shared.loaded.lock().clone();
            let mut changes = changes()?;
            changes.insert(0, record::expect_revision(revision));
            changes.push(record::new_revision());
            Ok(changes)
        };
        store
            .change_entry(record::entry(&fold(name)), computed)
            .await?;
        self.load_snapshot()
    }
}

pub(super) fn new_record(
    password: &Secret,
    settings: &AccessSettings,
) -> Result<UserRecord, UsersError> {
    let scram = settings
        .scram
        .then(|| ScramKeys::derive(password, &random::bytes::<16>(), settings.scram_iterations));
    Ok(UserRecord {
        password: password::hash(password)?,
        scram,
        admin: false,
        disabled: false,
        epoch: u64::from_be_bytes(random::bytes()),
        created: unix_seconds(),
        incarnation: u64::from_be_bytes(random::bytes()),
    })
}

pub(super) fn key(name: &str) -> Bytes {
    Bytes::copy_from_slice(name.as_bytes())
}

fn check_filter(filter: &str) -> Result<(), UsersError> {
    pattern::check(filter).map_err(|cause| UsersError::Filter {
        filter: filter.to_owned(),
        cause,
    })
}

impl From<&crate::rules::Rule> for AccessRuleSummary {
    fn from(rule: &crate::rules::Rule) -> Self {
        Self {
            effect: rule.effect,
            access: rule.access,
            filter: rule.filter.to_string(),
        }
    }
}
