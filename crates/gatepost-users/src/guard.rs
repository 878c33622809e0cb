//! How many logins may fail before the next must wait, by address and by user.
//!
//! Each failure pushes a point in time further into the future; who is too far ahead of the clock
//! must wait. One number per source is all that is kept (the "generic cell rate algorithm"), and
//! sources that have recovered are forgotten.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use gatepost_message::Peer;
use parking_lot::Mutex;

use crate::AccessSettings;

/// Sources remembered at once, of each kind. Beyond that, failures of new ones are not counted;
/// the other kind still counts them.
const SOURCES_MAX: usize = 65_536;

pub(crate) struct Guard {
    addresses: Limit,
    users: Limit,
    hasher: RandomState,
}

impl Guard {
    pub(crate) fn new(settings: &AccessSettings) -> Self {
        let limit = |burst| Limit::new(burst, settings.failure_recovery.duration());
        Self {
            addresses: limit(settings.failures_per_address),
            users: limit(settings.failures_per_user),
            hasher: RandomState::new(),
        }
    }

    /// How long this attempt must wait; `None` if it may be made.
    pub(crate) fn must_wait(&self, peer: Peer, user: Option<&str>) -> Option<Duration> {
        let now = Instant::now();
        let by_address = self.addresses.must_wait(self.address(peer), now);
        let by_user = user.and_then(|user| self.users.must_wait(self.key(user), now));
        by_address.max(by_user)
    }

    pub(crate) fn failed(&self, peer: Peer, user: Option<&str>) {
        let now = Instant::now();
        self.addresses.count(self.address(peer), now);
        if let Some(user) = user {
            self.users.count(self.key(user), now);
        }
    }

    /// Whoever owns an IPv6 address owns its /64, so that is the source.
    fn address(&self, peer: Peer) -> u64 {
        match peer.ip().map(|ip| ip.to_canonical()) {
            None => self.key("local"),
            Some(IpAddr::V4(address)) => self.key(address),
            Some(IpAddr::V6(address)) => self.key(address.to_bits() >> 64),
        }
    }

    fn key(&self, source: impl Hash) -> u64 {
        self.hasher.hash_one(source)
    }
}

struct Limit {
    burst: Duration,
    recovery: Duration,
    /// When each source will have recovered from all its failures.
    recovered: Mutex<HashMap<u64, Instant>>,
}

impl Limit {
    fn new(burst: u32, recovery: Duration) -> Self {
        Self {
            burst: recovery.saturating_mul(burst),
            recovery,
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
        *entry = (*entry).max(now) + self.recovery;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: u64 = 7;

    #[test]
    fn failures_are_free_until_the_burst_is_used_up_and_recover() {
        let limit = Limit::new(3, Duration::from_secs(6));
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
        let limit = Limit::new(1, Duration::from_secs(1));
        let start = Instant::now();
        for source in 0..SOURCES_MAX as u64 + 10 {
            limit.count(source, start);
        }
        assert_eq!(limit.recovered.lock().len(), SOURCES_MAX);
        limit.count(u64::MAX, start + Duration::from_secs(2));
        assert_eq!(limit.recovered.lock().len(), 1);
    }

    #[test]
    fn an_ipv6_network_is_one_source_and_a_user_is_one_from_everywhere() {
        let guard = Guard::new(&AccessSettings {
            failures_per_address: 1,
            failures_per_user: 1,
            ..AccessSettings::default()
        });
        let peer = |text: &str| Peer::Address(text.parse().expect("an address"));
        guard.failed(peer("[2001:db8::1]:1"), None);
        assert!(guard.must_wait(peer("[2001:db8::ffff]:2"), None).is_some());
        assert!(guard.must_wait(peer("[2001:db8:0:1::1]:2"), None).is_none());
        guard.failed(peer("192.0.2.1:1"), Some("anna"));
        assert!(
            guard
                .must_wait(peer("[::ffff:192.0.2.1]:9"), None)
                .is_some()
        );
        assert!(
            guard
                .must_wait(peer("198.51.100.1:1"), Some("anna"))
                .is_some()
        );
        assert!(
            guard
                .must_wait(peer("198.51.100.1:1"), Some("otto"))
                .is_none()
        );
    }
}
