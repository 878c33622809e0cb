//! Users that were removed, for what they left here: sessions, subscriptions to notifications.
//!
//! The removal may be made by a command while no server runs, or by another server of the cluster,
//! and a later user may have the name before this server looks. So the server remembers which users
//! it has seen. A name that only an issuer of tokens knows is never among them.
//!
//! Invariant: until what a removed user left is removed, no later user of the name can log in,
//! since the first connection would be given the sessions.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use gatepost_store::{Store, StoreChange};

use super::Users;
use crate::UsersError;
use crate::names::fold;
use crate::record::{self, SeenRecord};

/// The users that were removed since the server has last looked.
#[derive(Default)]
pub struct RemovedUsers {
    /// By folded name, as they were written.
    names: BTreeMap<String, String>,
    /// The changes after which the present users are those that the server has seen.
    changes: Vec<StoreChange>,
    seen: SeenUsers,
}

/// The incarnations of the users that the server has seen, by folded name.
pub(super) type SeenUsers = HashMap<String, u64>;

impl RemovedUsers {
    /// The names, as they were written.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.values().map(String::as_str)
    }

    /// Whether no user was removed.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Whether this is the name of one of them, in any letter case.
    pub fn includes(&self, name: &str) -> bool {
        !self.names.is_empty() && self.names.contains_key(&fold(name))
    }
}

impl Users {
    /// The users that were removed since [`Users::confirm_removed`], also those whose name a later
    /// user has. None while the users of a cluster are not known yet.
    pub fn removed(&self) -> Result<RemovedUsers, UsersError> {
        let mut removed = RemovedUsers::default();
        if !self.are_known() {
            return Ok(removed);
        }
        let store = &self.shared.store;
        let snapshot = self.shared.live.load_full();
        let mut seen = seen_records(store)?;
        for user in snapshot.users() {
            let folded = fold(&user.name);
            removed.seen.insert(folded.clone(), user.incarnation);
            let earlier = seen.remove(&folded);
            if earlier.as_ref().map(|earlier| earlier.incarnation) == Some(user.incarnation) {
                continue;
            }
            let now = SeenRecord {
                name: user.name.to_string(),
                incarnation: user.incarnation,
            };
            let change = record::put(record::SEEN_USER, folded.clone().into_bytes(), &now);
            removed.changes.push(change);
            let is_other = |earlier: &SeenRecord| are_others(earlier.incarnation, now.incarnation);
            if let Some(earlier) = earlier.filter(is_other) {
                removed.names.insert(folded, earlier.name);
            }
        }
        for (folded, earlier) in seen {
            // A record that cannot be read is no removal; one that was written just now, after the
            // users in memory, is for the next look.
            if self.is_stored(&earlier.name)? {
                removed.seen.insert(folded, earlier.incarnation);
            } else {
                let change = record::delete(record::SEEN_USER, folded.clone().into_bytes());
                removed.changes.push(change);
                removed.names.insert(folded, earlier.name);
            }
        }
        Ok(removed)
    }

    /// States that what these users left is removed: they are not found again.
    pub async fn confirm_removed(&self, removed: RemovedUsers) -> Result<(), UsersError> {
        if !removed.changes.is_empty() {
            let stored = self.shared.store.submit(removed.changes)?;
            stored.committed().await?;
        }
        self.shared.seen.store(Arc::new(removed.seen));
        Ok(())
    }

    /// Whether an earlier user of this name was removed, and what that user left may still exist.
    pub(super) fn has_predecessor(&self, name: &str) -> bool {
        let seen = self.shared.seen.load();
        let Some(&seen) = seen.get(&fold(name)) else {
            return false;
        };
        match self.user(name) {
            Some(user) => are_others(seen, user.incarnation),
            // The name of a removed user in the token of an issuer.
            None => self.are_known(),
        }
    }
}

/// The users that the server has seen, as stored.
pub(super) fn seen_users(store: &Store) -> Result<SeenUsers, UsersError> {
    let seen = seen_records(store)?.into_iter();
    Ok(seen
        .map(|(folded, record)| (folded, record.incarnation))
        .collect())
}

fn seen_records(store: &Store) -> Result<BTreeMap<String, SeenRecord>, UsersError> {
    let mut seen = BTreeMap::new();
    for (key, value) in store.records(record::SEEN_USER, b"")? {
        let value: Option<SeenRecord> = serde_json::from_slice(&value).ok();
        if let (Ok(folded), Some(value)) = (String::from_utf8(key.to_vec()), value) {
            seen.insert(folded, value);
        }
    }
    Ok(seen)
}

/// Whether two incarnations are of different users. An earlier version knows none, and removes them
/// from what it writes.
const fn are_others(seen: u64, now: u64) -> bool {
    seen != now && seen != 0 && now != 0
}
