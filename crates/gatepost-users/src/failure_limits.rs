//! Limits on failed logins: by address, which [`Bans`] counts together with the address's offences
//! in other protocols, and by user, regardless of the origin of the failures.
//!
//! Each failure moves a timestamp into the future; a user whose timestamp is too far ahead of the
//! clock must wait. One number per user is sufficient (the generic cell rate algorithm), and users
//! that have recovered are removed. The wait has a maximum, so that a long attack costs its victim
//! no more than a short one.
//!
//! Peers on this machine have separate counters: failures from other machines never delay them, and
//! their wait is at most [`LOCAL_WAIT_MAX`]. Otherwise an attacker could lock out the administrator
//! at the console.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::time::{Duration, Instant};

use gatepost_bans::{Bans, Offence};
use parking_lot::Mutex;

use crate::AccessSettings;
use crate::peer_origin::LoginSource;

/// Number of users with failures that are kept, of each kind. Beyond it, failures of further users
/// are not counted; the address still counts them.
const SOURCES_MAX: usize = 65_536;
/// The longest wait of a peer on this machine.
pub(crate) const LOCAL_WAIT_MAX: Duration = Duration::from_secs(1);

pub(crate) struct FailureLimits {
    bans: Bans,
    users: SourceLimit,
    local: SourceLimit,
    hasher: RandomState,
}

impl FailureLimits {
    pub(crate) fn new(settings: &AccessSettings, bans: Bans) -> Self {
        let recovery = settings.failure_recovery.duration();
        let ceiling = settings.failure_wait_max.duration();
        Self {
            bans,
            users: SourceLimit::new(settings.failures_per_user, recovery, ceiling),
            local: SourceLimit::new(
                settings.failures_per_user,
                recovery.min(LOCAL_WAIT_MAX),
                LOCAL_WAIT_MAX,
            ),
            hasher: RandomState::new(),
        }
    }

    /// The time that this attempt must wait; `None` if it is permitted now.
    pub(crate) fn must_wait(&self, source: LoginSource, user: Option<&str>) -> Option<Duration> {
        let now = Instant::now();
        if source.is_local {
            return self.local.must_wait(self.key(user), now);
        }
        let by_address = self.bans.remaining(source.peer);
        let by_user = user.and_then(|user| self.users.must_wait(self.key(user), now));
        by_address.max(by_user)
    }

    pub(crate) fn failed(&self, source: LoginSource, user: Option<&str>) {
        let now = Instant::now();
        if source.is_local {
            self.local.count(self.key(user), now);
            return;
        }
        self.bans.note(source.peer, Offence::Login);
        if let Some(user) = user {
            self.users.count(self.key(user), now);
        }
    }

    fn key(&self, source: impl Hash) -> u64 {
        self.hasher.hash_one(source)
    }
}

struct SourceLimit {
    burst: Duration,
    recovery: Duration,
    /// The longest wait.
    ceiling: Duration,
    /// The time at which each source will have recovered from all its failures.
    recovered: Mutex<HashMap<u64, Instant>>,
}

impl SourceLimit {
    fn new(burst: u32, recovery: Duration, ceiling: Duration) -> Self {
        Self {
            burst: recovery.saturating_mul(burst),
            recovery,
            ceiling,
            recovered: Mutex::default(),
        }
    }

    fn must_wait(&self, source: u64, now: Instant) -> Option<Duration> {
        let recovered = *self.recovered.lock().get(&source)?;
        // The next failure must fit into the burst.
        let ahead = recovered.saturating_duration_since(now) + self.recovery;
        ahead.checked_sub(self.burst).filter(|wait| !wait.is_zero())
    }

    fn count(&self, source: u64, now: Instant) {
        let mut recovered = self.recovered.lock();
        if recovered.len() >= SOURCES_MAX && !recovered.contains_key(&source) {
            recovered.retain(|_, recovered| *recovered > now);
            if recovered.len() >= SOURCES_MAX {
                return;
            }
        }
        let entry = recovered.entry(source).or_insert(now);
        // The wait is `recovered + recovery - burst`, which must not exceed the ceiling.
        let latest = now + (self.burst + self.ceiling).saturating_sub(self.recovery);
        *entry = ((*entry).max(now) + self.recovery).min(latest.max(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gatepost_bans::BansSettings;
    use gatepost_message::Peer;

    const SOURCE: u64 = 7;

    #[test]
    fn failures_are_free_until_the_burst_is_used_up_and_recover() {
        let limit = SourceLimit::new(3, Duration::from_secs(6), Duration::from_mins(1));
        let start = Instant::now();
        for _ in 0..3 {
            assert_eq!(limit.must_wait(SOURCE, start), None);
            limit.count(SOURCE, start);
        }
        assert_eq!(limit.must_wait(SOURCE, start), Some(Duration::from_secs(6)));
        assert_eq!(limit.must_wait(SOURCE + 1, start), None, "others are free");
        let later = start + Duration::from_secs(6);
        assert_eq!(limit.must_wait(SOURCE, later), None);
        limit.count(SOURCE, later);
        assert_eq!(limit.must_wait(SOURCE, later), Some(Duration::from_secs(6)));
    }

    #[test]
    fn memory_is_bounded_and_the_recovered_are_forgotten() {
        let limit = SourceLimit::new(1, Duration::from_secs(1), Duration::from_mins(1));
        let start = Instant::now();
        for source in 0..SOURCES_MAX as u64 + 10 {
            limit.count(source, start);
        }
        assert_eq!(limit.recovered.lock().len(), SOURCES_MAX);
        limit.count(u64::MAX, start + Duration::from_secs(2));
        assert_eq!(limit.recovered.lock().len(), 1);
    }

    #[test]
    fn an_address_is_banned_and_a_user_is_one_from_everywhere() {
        let bans = Bans::new(&BansSettings {
            points_max: 6,
            ..BansSettings::default()
        });
        let settings = AccessSettings {
            failures_per_user: 2,
            ..AccessSettings::default()
        };
        let failure_limits = FailureLimits::new(&settings, bans);
        let peer =
            |text: &str| LoginSource::new(Peer::Address(text.parse().expect("an address")), false);
        let waits = |text: &str, user| failure_limits.must_wait(peer(text), user).is_some();
        for _ in 0..2 {
            failure_limits.failed(peer("[2001:db8::1]:1"), None);
            failure_limits.failed(peer("192.0.2.1:1"), Some("anna"));
        }
        assert!(waits("[2001:db8::ffff]:2", None) && !waits("[2001:db8:0:1::1]:2", None));
        assert!(waits("[::ffff:192.0.2.1]:9", None));
        assert!(waits("198.51.100.1:1", Some("anna")) && !waits("198.51.100.1:1", Some("otto")));
    }

    #[test]
    fn the_wait_has_a_ceiling_however_many_fail() {
        let ceiling = Duration::from_secs(20);
        let limit = SourceLimit::new(3, Duration::from_secs(6), ceiling);
        let start = Instant::now();
        for _ in 0..1_000 {
            limit.count(SOURCE, start);
        }
        assert_eq!(limit.must_wait(SOURCE, start), Some(ceiling));
        assert_eq!(limit.must_wait(SOURCE, start + ceiling), None);
    }

    #[test]
    fn failures_from_elsewhere_never_delay_this_machine() {
        let limits = FailureLimits::new(&AccessSettings::default(), Bans::default());
        let source = |text: &str| Peer::Address(text.parse().expect("an address"));
        let remote = LoginSource::new(source("192.0.2.1:1"), false);
        let loopback = LoginSource::new(source("127.0.0.1:1"), false);
        let proxy = LoginSource::new(source("127.0.0.1:1"), true);
        for _ in 0..1_000 {
            limits.failed(remote, Some("root"));
        }
        assert!(limits.must_wait(remote, Some("root")).is_some());
        assert_eq!(limits.must_wait(loopback, Some("root")), None);
        assert_eq!(
            limits.must_wait(LoginSource::new(Peer::Local, false), Some("root")),
            None
        );
        assert!(
            limits.must_wait(proxy, Some("root")).is_some(),
            "not for itself"
        );
        for _ in 0..1_000 {
            limits.failed(loopback, Some("root"));
        }
        let wait = limits.must_wait(loopback, Some("root")).expect("a wait");
        assert!(wait <= LOCAL_WAIT_MAX, "{wait:?}");
        assert_eq!(limits.must_wait(loopback, Some("anna")), None, "by user");
    }
}
