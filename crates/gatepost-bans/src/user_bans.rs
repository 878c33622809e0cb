//! Bans of users: an operator bans a user for a while, whatever its address.
//!
//! Offences ban addresses only, so a stranger who guesses passwords cannot have the user banned.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gatepost_store::{Store, StoreChange, StoreError};
use parking_lot::Mutex;

use crate::error::BanError;
use crate::record::{self, ClockReadings, Submitted, settled};
use crate::summary::BanSummary;
use crate::table::Ban;

/// The maximum number of banned users. Operators enter bans by hand, so a fixed bound is enough.
const USERS_MAX: usize = 10_000;

/// Bans by the names of the users, in lower case.
type BannedUsers = HashMap<Box<str>, Ban>;

/// The bans of users.
#[derive(Default)]
pub struct UserBans {
    /// 0 means that no name needs to be looked up.
    count: AtomicUsize,
    bans: Mutex<BannedUsers>,
    store: Option<Store>,
}

impl UserBans {
    /// The bans of an earlier run, kept in the store.
    pub(crate) fn open(store: Store, now: ClockReadings) -> Result<Self, StoreError> {
        let kept = record::load_users(&store, now)?;
        let users = Self {
            count: AtomicUsize::new(0),
            bans: Mutex::new(kept.into_iter().take(USERS_MAX).collect()),
            store: Some(store),
        };
        users.publish_count(&users.bans.lock());
        Ok(users)
    }

    /// The time that remains of this user's ban; `None` for a user who is not banned.
    pub fn remaining(&self, name: &str) -> Option<Duration> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let now = Instant::now();
        let bans = self.bans.lock();
        let ban = bans.get(&*name.to_lowercase())?;
        ban.is_in_force(now).then(|| ban.remaining(now))
    }

    /// Bans a user for this duration, or until the ban is lifted. Returns when this is durable.
    pub async fn add(
        &self,
        name: &str,
        time: Option<Duration>,
        reason: &str,
    ) -> Result<BanSummary, BanError> {
        let name = name.to_lowercase().into_boxed_str();
        let now = ClockReadings::read();
        let ban = now.operators_ban(time, reason);
        let summary = BanSummary::of_user(&name, &ban);
        let change = record::put_user(&name, &ban);
        let submitted = {
            let mut bans = self.bans.lock();
            if bans.len() >= USERS_MAX && !bans.contains_key(&name) {
                return Err(BanError::Full);
            }
            bans.insert(name, ban);
            self.publish_count(&bans);
            self.submit(&bans, vec![change])
        };
        settled(submitted).await?;
        Ok(summary)
    }

    /// Lifts a user's ban. Returns when this is durable.
    pub async fn remove(&self, name: &str) -> Result<(), BanError> {
        let name = name.to_lowercase();
        let (removed, submitted) = {
            let mut bans = self.bans.lock();
            let removed = bans.remove(&*name);
            self.publish_count(&bans);
            (
                removed,
                self.submit(&bans, vec![record::delete_user(&name)]),
            )
        };
        let was_banned = removed.is_some_and(|ban| ban.is_in_force(Instant::now()));
        settled(submitted).await?;
        if was_banned {
            Ok(())
        } else {
            Err(BanError::UserNotBanned(name))
        }
    }

    pub(crate) fn list(&self) -> Vec<BanSummary> {
        let now = Instant::now();
        let bans = self.bans.lock();
        let in_force = bans.iter().filter(|(_, ban)| ban.is_in_force(now));
        in_force
            .map(|(name, ban)| BanSummary::of_user(name, ban))
            .collect()
    }

    /// Forgets expired bans.
    pub(crate) fn sweep(&self) {
        let now = Instant::now();
        let mut over = Vec::new();
        let mut bans = self.bans.lock();
        bans.retain(|name, ban| {
            let stays = ban.is_in_force(now);
            if !stays {
                over.push(record::delete_user(name));
            }
            stays
        });
        self.publish_count(&bans);
        // Expired bans that remain in the store are forgotten after the next start.
        let _ = self.submit(&bans, over);
    }

    fn publish_count(&self, bans: &BannedUsers) {
        self.count.store(bans.len(), Ordering::Relaxed);
    }

    /// Submits changes of the bans, which are locked.
    fn submit(&self, _bans: &BannedUsers, changes: Vec<StoreChange>) -> Submitted {
        record::submit(self.store.as_ref(), changes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_user_is_banned_in_any_case_until_it_ends_or_is_lifted() {
        let users = UserBans::default();
        assert_eq!(users.remaining("anna"), None);
        let day = Duration::from_hours(24);
        let banned = users.add("Anna", Some(day), "abuse").await.expect("banned");
        assert_eq!(banned.network, "user:anna");
        assert!(users.remaining("ANNA").is_some_and(|left| left <= day));
        assert_eq!(users.list(), [banned]);
        users.remove("anna").await.expect("lifted");
        assert_eq!(users.remaining("anna"), None);
        assert!(matches!(
            users.remove("anna").await,
            Err(BanError::UserNotBanned(_))
        ));
        users
            .add("otto", Some(Duration::ZERO), "")
            .await
            .expect("banned for a moment");
        assert_eq!(users.remaining("otto"), None);
        users.sweep();
        assert!(users.bans.lock().is_empty());
        users.add("eva", None, "").await.expect("banned for good");
        assert_eq!(users.remaining("eva"), Some(Duration::MAX));
    }
}
