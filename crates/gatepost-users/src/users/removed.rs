//! Users that were removed, for what they left here: sessions, subscriptions to notifications.
//!
//! The removal may be made by a command while no server runs, or by another server of the cluster,
//! and a later user may have the name before this server looks. So the server remembers which users
//! it has seen. A name that only an issuer of tokens knows is never among them.

use std::collections::BTreeMap;

use gatepost_store::StoreChange;

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
}

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
        let mut seen = BTreeMap::new();
        for (key, value) in store.records(record::SEEN_USER, b"")? {
            let value: Option<SeenRecord> = serde_json::from_slice(&value).ok();
            if let (Ok(folded), Some(value)) = (String::from_utf8(key.to_vec()), value) {
                seen.insert(folded, value);
            }
        }
        for user in snapshot.users() {
            let folded = fold(&user.name);
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
            // An earlier version knows no incarnations, and removes them from what it writes.
            let is_other = |earlier: &SeenRecord| earlier.incarnation != 0 && now.incarnation != 0;
            if let Some(earlier) = earlier.filter(is_other) {
                removed.names.insert(folded, earlier.name);
            }
        }
        for (folded, earlier) in seen {
            // A record that cannot be read is no removal; one that was written just now, after the
            // users in memory, is for the next look.
            if !self.is_stored(&earlier.name)? {
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
        Ok(())
    }
}
