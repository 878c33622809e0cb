//! Storage of users, tokens and rules: JSON values, readable with any SQLite tool.
//!
//! | space | key | value |
//! | --- | --- | --- |
//! | `user` | the name | [`UserRecord`] |
//! | `token` | SHA-256 of the token | [`TokenRecord`] |
//! | `grant` | subject, NUL, effect, NUL, filter | [`GrantRecord`] |
//! | `seen_user` | the folded name | [`SeenRecord`], of this server only |
//! | `access` | `revision` | random, new with every change, so that another process sees it |
//! | `access` | `pepper` | the key of this installation's keyed hashes |

use bytes::Bytes;
use gatepost_store::{SharedEntry, SharedSet, StoreChange};
use serde::{Deserialize, Serialize};

use crate::names::fold;
use crate::rules::Rule;
use crate::scram::ScramKeys;
use crate::{AccessSet, Effect, random};

pub(crate) const USER: &str = "user";
pub(crate) const TOKEN: &str = "token";
pub(crate) const GRANT: &str = "grant";
pub(crate) const SEEN_USER: &str = "seen_user";
pub(crate) const ACCESS: &str = "access";
pub(crate) const REVISION: &[u8] = b"revision";
pub(crate) const PEPPER: &[u8] = b"pepper";

/// The records that all servers of a cluster share. An entry has a user with the user's tokens and
/// rules, or the rules of a group. Names that differ in letter case only are one entry, since they
/// are one user.
pub static SHARED_ACCESS: SharedSet = SharedSet {
    name: "access",
    is_generated: false,
    spaces: &[USER, TOKEN, GRANT],
    entry_of: subject_of,
};

/// The key of keyed hashes, which all servers of a cluster share: the answers to unknown names are
/// derived from it, and would otherwise differ from one server to the next.
pub static SHARED_PEPPER: SharedSet = SharedSet {
    name: "pepper",
    is_generated: true,
    spaces: &[ACCESS],
    entry_of: |_, key, _| (key == PEPPER).then(|| "scram".to_owned()),
};

/// The entry of a user or of a group.
pub(crate) const fn entry(folded_name: &str) -> SharedEntry<'_> {
    SharedEntry {
        set: &SHARED_ACCESS,
        name: folded_name,
    }
}

fn subject_of(space: &str, key: &[u8], value: &[u8]) -> Option<String> {
    let name = match space {
        USER => std::str::from_utf8(key).ok()?.to_owned(),
        TOKEN => serde_json::from_slice::<TokenRecord>(value).ok()?.user,
        GRANT => split_grant_key(key)?.0.to_owned(),
        _ => return None,
    };
    Some(fold(&name))
}

/// One user.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct UserRecord {
    /// Argon2id in the PHC string format; of an imported user, another server's until a login
    /// replaces it.
    pub(crate) password: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) scram: Option<ScramKeys>,
    #[serde(default)]
    pub(crate) admin: bool,
    #[serde(default)]
    pub(crate) disabled: bool,
    /// Changes with each password; logins with an earlier password are revoked.
    pub(crate) epoch: u64,
    /// Unix seconds.
    pub(crate) created: u64,
    /// Random, so that a later user of the same name has another; 0 in records of earlier versions.
    #[serde(default)]
    pub(crate) incarnation: u64,
}

/// A user that the server has seen.
#[derive(Serialize, Deserialize)]
pub(crate) struct SeenRecord {
    /// The name as it was written; the key is its folded form.
    pub(crate) name: String,
    pub(crate) incarnation: u64,
}

/// One token; the token itself is not stored.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct TokenRecord {
    pub(crate) user: String,
    #[serde(default)]
    pub(crate) label: String,
    pub(crate) created: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires: Option<u64>,
    /// `None`: everything that the user may do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) scope: Option<Vec<ScopeRecord>>,
}

/// One permission of a token.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct ScopeRecord {
    pub(crate) filter: String,
    pub(crate) access: AccessSet,
}

impl ScopeRecord {
    pub(crate) fn of(rule: &Rule) -> Self {
        Self {
            filter: rule.filter.to_string(),
            access: rule.access,
        }
    }

    /// The rule of this permission. The rules of a scope only permit.
    pub(crate) fn rule(self) -> Rule {
        Rule {
            effect: Effect::Allow,
            access: self.access,
            filter: self.filter.into(),
        }
    }
}

/// One rule; its subject, effect and filter are in the key.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct GrantRecord {
    pub(crate) access: AccessSet,
}

pub(crate) fn put<T: Serialize>(
    space: &'static str,
    key: impl Into<Bytes>,
    value: &T,
) -> StoreChange {
    StoreChange::PutRecord {
        space,
        key: key.into(),
        // Records contain only strings and numbers, which can always be serialised.
        value: serde_json::to_vec(value).unwrap_or_default().into(),
    }
}

pub(crate) fn delete(space: &'static str, key: impl Into<Bytes>) -> StoreChange {
    StoreChange::DeleteRecord {
        space,
        key: key.into(),
    }
}

/// The condition that no other process has changed users since this revision; empty if nothing was
/// ever changed.
pub(crate) fn expect_revision(revision: Vec<u8>) -> StoreChange {
    StoreChange::ExpectRecord {
        space: ACCESS,
        key: Bytes::from_static(REVISION),
        value: (!revision.is_empty()).then(|| revision.into()),
    }
}

/// The new revision, which accompanies every change.
pub(crate) fn new_revision() -> StoreChange {
    StoreChange::PutRecord {
        space: ACCESS,
        key: Bytes::from_static(REVISION),
        value: Bytes::copy_from_slice(&random::bytes::<16>()),
    }
}

pub(crate) fn grant_key(subject: &str, effect: Effect, filter: &str) -> Bytes {
    let effect = match effect {
        Effect::Allow => "allow",
        Effect::Deny => "deny",
    };
    Bytes::from(format!("{subject}\0{effect}\0{filter}"))
}

/// Subject, effect and filter in a grant's key; `None` for a key that no version of Gatepost wrote.
pub(crate) fn split_grant_key(key: &[u8]) -> Option<(&str, Effect, &str)> {
    let mut parts = std::str::from_utf8(key).ok()?.splitn(3, '\0');
    let (subject, effect, filter) = (parts.next()?, parts.next()?, parts.next()?);
    let effect = match effect {
        "allow" => Effect::Allow,
        "deny" => Effect::Deny,
        _ => return None,
    };
    Some((subject, effect, filter))
}
