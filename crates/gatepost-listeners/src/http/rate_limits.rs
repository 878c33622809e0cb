//! Limits on requests and bytes per second, for each address and for all together.
//!
//! Each limit is a generic cell rate: for each address only one moment is stored, at which its past
//! use is within the rate again; one second's worth may be used in advance. Addresses whose moment
//! has passed are forgotten.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use gatepost_message::Peer;
use gatepost_settings::PeerNetwork;
use parking_lot::Mutex;

use super::settings::HttpSettings;
use crate::admission::client_network;

/// The burst that is permitted.
const BURST: Duration = Duration::from_secs(1);
/// Above this number of addresses, those whose moment has passed are removed.
const ADDRESSES_MAX: usize = 65_536;
/// The size of one write if bandwidth is limited.
pub(super) const PACED_BYTES: usize = 16 << 10;

/// The rate limits of one listener.
#[derive(Debug)]
pub(super) struct RateLimits {
    requests: RateLimit,
    bytes: RateLimit,
}

impl RateLimits {
    pub(super) fn new(settings: &HttpSettings) -> Self {
        Self {
            requests: RateLimit::new(
                u64::from(settings.requests_per_second),
                u64::from(settings.requests_per_second_per_address),
            ),
            bytes: RateLimit::new(
                settings.bandwidth.bytes(),
                settings.bandwidth_per_address.bytes(),
            ),
        }
    }

    /// Whether there is any limit.
    pub(super) const fn any(&self) -> bool {
        self.requests.any() || self.bytes.any()
    }

    /// Whether bytes are limited.
    pub(super) const fn caps_bandwidth(&self) -> bool {
        self.bytes.any()
    }

    /// Counts a request, or returns the time that its sender must wait.
    pub(super) fn admit(&self, peer: Peer) -> Result<(), Duration> {
        self.requests.take(peer, 1, Instant::now())
    }

    /// Waits until this many bytes may be written to this peer.
    pub(super) async fn pace(&self, peer: Peer, bytes: usize) {
        loop {
            match self.bytes.take(peer, bytes as u64, Instant::now()) {
                Ok(()) => return,
                Err(wait) => tokio::time::sleep(wait).await,
            }
        }
    }
}

/// Units per second, of all and of each client network (an IPv4 address, or the /64 of an IPv6
/// address); 0 for no limit.
#[derive(Debug)]
struct RateLimit {
    total: u64,
    per_address: u64,
    paid: Mutex<PaidUntil>,
}

/// The instants at which the units taken so far are paid for.
#[derive(Debug, Default)]
struct PaidUntil {
    total: Option<Instant>,
    by_address: HashMap<PeerNetwork, Instant>,
}

impl RateLimit {
    fn new(total: u64, per_address: u64) -> Self {
        Self {
            total,
            per_address,
            paid: Mutex::default(),
        }
    }

    const fn any(&self) -> bool {
        self.total > 0 || self.per_address > 0
    }

    /// Uses units of both limits or of neither.
    fn take(&self, peer: Peer, units: u64, now: Instant) -> Result<(), Duration> {
        if !self.any() {
            return Ok(());
        }
        let mut paid = self.paid.lock();
        let total = after(paid.total, units, self.total, now)?;
        if let Some(address) = peer.ip().map(client_network)
            && self.per_address > 0
        {
            if paid.by_address.len() >= ADDRESSES_MAX {
                paid.by_address.retain(|_, paid| *paid > now);
            }
            let before = paid.by_address.get(&address).copied();
            let mine = after(before, units, self.per_address, now)?;
            paid.by_address.extend(mine.map(|mine| (address, mine)));
        }
        paid.total = total;
        Ok(())
    }
}

/// Returns the instant at which `units` more are paid for, or the time to wait before they may be
/// taken.
fn after(
    paid: Option<Instant>,
    units: u64,
    per_second: u64,
    now: Instant,
) -> Result<Option<Instant>, Duration> {
    if per_second == 0 {
        return Ok(None);
    }
    let owed = paid.unwrap_or(now).saturating_duration_since(now);
    if let Some(wait) = owed.checked_sub(BURST)
        && !wait.is_zero()
    {
        return Err(wait);
    }
    let cost = Duration::from_secs_f64(units as f64 / per_second as f64);
    Ok(Some(now + owed + cost))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(last: u8) -> Peer {
        Peer::Address(([192, 0, 2, last], 1).into())
    }

    #[test]
    fn an_address_gets_its_share_and_all_get_the_total() {
        // Powers of two, whose costs are whole nanoseconds.
        let rate = &RateLimit::new(16, 8);
        let now = Instant::now();
        let taken = |last, now| (0..100).take_while(move |_| rate.take(peer(last), 1, now).is_ok());
        // One second's worth in advance, and the current unit.
        assert_eq!(taken(1, now).count(), 9);
        assert_eq!(taken(2, now).count(), 8, "the total is used up");
        let later = now + Duration::from_secs(1);
        assert_eq!(taken(2, later).count(), 9);
        assert_eq!(taken(1, later).count(), 7);
        assert!(rate.take(Peer::Local, 1, later + BURST * 2).is_ok());
    }

    #[test]
    fn the_addresses_of_a_64_have_one_share() {
        let rate = RateLimit::new(0, 8);
        let now = Instant::now();
        let from = |text: &str| Peer::Address(text.parse().expect("an address"));
        for _ in 0..9 {
            assert!(rate.take(from("[2001:db8:0:1::1]:1"), 1, now).is_ok());
        }
        assert!(rate.take(from("[2001:db8:0:1:2::9]:1"), 1, now).is_err());
        assert!(rate.take(from("[2001:db8:0:2::1]:1"), 1, now).is_ok());
    }

    #[test]
    fn a_large_write_is_paid_for_before_the_next() {
        let rate = RateLimit::new(0, 1_000);
        let now = Instant::now();
        assert_eq!(rate.take(peer(1), 5_000, now), Ok(()));
        assert_eq!(rate.take(peer(1), 1, now), Err(Duration::from_secs(4)));
        assert_eq!(rate.take(peer(2), 1, now), Ok(()));
        assert_eq!(rate.take(peer(1), 1, now + Duration::from_secs(4)), Ok(()));
    }
}
