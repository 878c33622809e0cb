//! The state of users and rules at one moment, read from the store and replaced as a whole.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, OnceLock};

use gatepost_store::Store;
use serde::de::DeserializeOwned;

use crate::decoy_hashes::DecoyHashes;
use crate::mount::MountSettings;
use crate::names::fold;
use crate::record::{self, GrantRecord, ScopeRecord, TokenRecord, UserRecord};
use crate::rules::{CompiledRules, Rule, RuleSubject};
use crate::scram::ScramKeys;
use crate::token::TokenHash;
use crate::{ANONYMOUS, AccessSettings, DefaultPolicy, EVERYONE, UsersError, pattern};

/// One user, with parsed fields.
pub(crate) struct KnownUser {
    pub(crate) name: Arc<str>,
    pub(crate) password: Arc<str>,
    pub(crate) scram: Option<ScramKeys>,
    pub(crate) admin: bool,
    pub(crate) disabled: bool,
    pub(crate) epoch: u64,
    pub(crate) created: u64,
    pub(crate) incarnation: u64,
    /// The combined rules, if they do not depend on the client id.
    compiled: OnceLock<Arc<CompiledRules>>,
}

/// One token, with parsed fields.
pub(crate) struct KnownToken {
    pub(crate) user: Arc<str>,
    pub(crate) label: String,
    pub(crate) created: u64,
    /// Unix seconds.
    pub(crate) expires: Option<u64>,
    pub(crate) scope: Option<Vec<Rule>>,
}

#[derive(Default)]
pub(crate) struct Snapshot {
    pub(crate) generation: u64,
    /// Whether there may be users that are not here: those of a cluster, before a new server has
    /// read them.
    is_incomplete: bool,
    /// By folded name.
    users: HashMap<String, Arc<KnownUser>>,
    pub(crate) tokens: HashMap<TokenHash, Arc<KnownToken>>,
    /// By subject, in the order of their keys.
    pub(crate) rules: HashMap<Box<str>, Vec<Rule>>,
    pub(crate) decoys: DecoyHashes,
    policy: DefaultPolicy,
    anonymous: OnceLock<Arc<CompiledRules>>,
    /// The same while no user exists and the peer is on this machine.
    anonymous_owner: OnceLock<Arc<CompiledRules>>,
    everyone_names_client: bool,
    pub(crate) mounts: MountSettings,
}

impl Snapshot {
    pub(crate) fn load(
        store: &Store,
        settings: &AccessSettings,
        generation: u64,
    ) -> Result<Self, UsersError> {
        let cluster = store.shared_records();
        let mut snapshot = Self {
            generation,
            is_incomplete: cluster.is_some_and(|cluster| !cluster.is_complete()),
            policy: settings.default,
            mounts: MountSettings::new(settings),
            ..Self::default()
        };
        for (key, value) in store.records(record::USER, b"")? {
            snapshot.add_user(&key, &value);
        }
        snapshot.decoys = DecoyHashes::of(snapshot.users().map(|user| &user.password));
        for (key, value) in store.records(record::TOKEN, b"")? {
            snapshot.add_token(&key, &value);
        }
        for (key, value) in store.records(record::GRANT, b"")? {
            snapshot.add_rule(&key, &value);
        }
        snapshot.everyone_names_client = names_client(snapshot.rules_of(EVERYONE));
        Ok(snapshot)
    }

    fn add_user(&mut self, key: &[u8], value: &[u8]) {
        let (Ok(name), Some(user)) = (std::str::from_utf8(key), parse::<UserRecord>("user", value))
        else {
            return;
        };
        let name: Arc<str> = name.into();
        let user = KnownUser {
            name: name.clone(),
            password: user.password.into(),
            scram: user.scram,
            admin: user.admin,
            disabled: user.disabled,
            epoch: user.epoch,
            created: user.created,
            incarnation: user.incarnation,
            compiled: OnceLock::new(),
        };
        // The database of an earlier version may contain two names that differ in case only. The
        // first in the order of keys is kept; both would be one mailbox.
        match self.users.entry(fold(&user.name)) {
            Entry::Vacant(free) => {
                free.insert(Arc::new(user));
            }
            Entry::Occupied(taken) => tracing::error!(
                target: "users",
                "the user {:?} cannot log in: the name differs from {:?} by letter case only",
                user.name,
                taken.get().name
            ),
        }
    }

    /// The user of this name, in any letter case.
    pub(crate) fn user(&self, name: &str) -> Option<&Arc<KnownUser>> {
        self.users.get(&fold(name))
    }

    pub(crate) fn users(&self) -> impl Iterator<Item = &KnownUser> {
        self.users.values().map(AsRef::as_ref)
    }

    /// Whether there are users, as far as is known: without any, no login is required.
    pub(crate) fn has_users(&self) -> bool {
        self.is_incomplete || !self.users.is_empty()
    }

    fn add_token(&mut self, key: &[u8], value: &[u8]) {
        let (Ok(hash), Some(token)) = (
            TokenHash::try_from(key),
            parse::<TokenRecord>("token", value),
        ) else {
            return;
        };
        let scope = token.scope.map(|scope| {
            let rules = scope.into_iter().map(ScopeRecord::rule);
            rules.collect()
        });
        let token = KnownToken {
            user: token.user.into(),
            label: token.label,
            created: token.created,
            expires: token.expires,
            scope,
        };
        self.tokens.insert(hash, Arc::new(token));
    }

    fn add_rule(&mut self, key: &[u8], value: &[u8]) {
        let (Some((subject, effect, filter)), Some(grant)) = (
            record::split_grant_key(key),
            parse::<GrantRecord>("rule", value),
        ) else {
            return;
        };
        let rule = Rule {
            effect,
            access: grant.access,
            filter: filter.into(),
        };
        self.rules.entry(subject.into()).or_default().push(rule);
    }

    pub(crate) fn rules_of(&self, subject: &str) -> &[Rule] {
        self.rules.get(subject).map_or(&[], Vec::as_slice)
    }

    /// The combined rules for this user and client, shared if the client does not matter.
    pub(crate) fn compiled(&self, user: &KnownUser, client: Option<&str>) -> Arc<CompiledRules> {
        let subject = RuleSubject {
            user: Some(&user.name),
            client,
            admin: user.admin,
        };
        self.shared_or_own(&user.compiled, &user.name, subject)
    }

    /// The combined rules for a user without a record, authenticated by the issuer of a token. The
    /// token's claims are its scope, which grants its rights whatever the default is; the rules
    /// for everyone can only deny some of them.
    pub(crate) fn compiled_for_stranger(
        &self,
        name: &str,
        client: Option<&str>,
    ) -> Arc<CompiledRules> {
        let subject = RuleSubject {
            user: Some(name),
            client,
            admin: false,
        };
        let (own, everyone) = (self.rules_of(name), self.rules_of(EVERYONE));
        let rules = CompiledRules::new(own, everyone, DefaultPolicy::Allow, subject);
        Arc::new(rules)
    }

    /// The combined rules for a peer that did not log in.
    pub(crate) fn compiled_anonymous(
        &self,
        client: Option<&str>,
        admin: bool,
    ) -> Arc<CompiledRules> {
        let subject = RuleSubject {
            user: None,
            client,
            admin,
        };
        let shared = if admin {
            &self.anonymous_owner
        } else {
            &self.anonymous
        };
        self.shared_or_own(shared, ANONYMOUS, subject)
    }

    fn shared_or_own(
        &self,
        shared: &OnceLock<Arc<CompiledRules>>,
        rules_of: &str,
        subject: RuleSubject<'_>,
    ) -> Arc<CompiledRules> {
        if self.everyone_names_client || names_client(self.rules_of(rules_of)) {
            return Arc::new(self.compile(rules_of, subject));
        }
        shared
            .get_or_init(|| Arc::new(self.compile(rules_of, subject)))
            .clone()
    }

    fn compile(&self, rules_of: &str, subject: RuleSubject<'_>) -> CompiledRules {
        let everyone = self.rules_of(EVERYONE);
        CompiledRules::new(self.rules_of(rules_of), everyone, self.policy, subject)
    }
}

fn names_client(rules: &[Rule]) -> bool {
    rules.iter().any(|rule| pattern::names_client(&rule.filter))
}

/// A record that cannot be parsed is skipped and logged, so one bad record does not lock out other
/// users.
fn parse<T: DeserializeOwned>(kind: &str, value: &[u8]) -> Option<T> {
    serde_json::from_slice(value)
        .inspect_err(|error| {
            // Only the line and column of the error are logged, never the record, which contains
            // hashes.
            tracing::error!(
                target: "users", kind, line = error.line(), column = error.column(),
                "a record cannot be read and is left out"
            );
        })
        .ok()
}
