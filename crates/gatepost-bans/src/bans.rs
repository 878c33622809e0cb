//! [`Bans`]: the handle that listeners and users hold.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gatepost_message::Peer;
use gatepost_settings::PeerNetwork;
use gatepost_store::{Store, StoreChange, StoreError};
use parking_lot::Mutex;

use crate::error::BanError;
use crate::offence::{self, OffenceCounts};
use crate::record::{self, ClockReadings, Submitted, settled};
use crate::scores::Scores;
use crate::summary::BanSummary;
use crate::table::{Ban, BanTable};
use crate::user_bans::UserBans;
use crate::{BansSettings, Offence};

/// An IPv6 host can use any address of its /64.
const IPV6_BITS: u8 = 64;
/// The number of times that a ban's duration can double before it reaches its maximum.
const DOUBLINGS_MAX: u32 = 30;

/// All bans and scores. Cheap to clone.
#[derive(Clone)]
pub struct Bans(Arc<SharedBans>);

struct SharedBans {
    settings: BansSettings,
    /// The number of bans in the table, in force or not: 0 means that no address needs to be looked
    /// up.
    count: AtomicUsize,
    state: Mutex<BansAndScores>,
    users: UserBans,
    store: Option<Store>,
    refused: AtomicU64,
    imposed: AtomicU64,
    offences: [AtomicU64; Offence::ALL.len()],
}

struct BansAndScores {
    bans: BanTable,
    scores: Scores,
}

/// The sums since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BanTotals {
    /// Bans in force now.
    pub in_force: usize,
    /// Number of bans that were imposed.
    pub imposed: u64,
    /// Connections and requests that were refused because of a ban.
    pub refused: u64,
    /// Offences by kind, in the order of [`Offence::ALL`].
    pub offences: [u64; Offence::ALL.len()],
}

impl Bans {
    /// Bans that exist in memory only.
    pub fn new(settings: &BansSettings) -> Self {
        Self::with(settings, UserBans::default(), None)
    }

    /// Bans that are kept in the store; those of an earlier process remain in force.
    pub fn open(settings: &BansSettings, store: Store) -> Result<Self, StoreError> {
        let time_max = settings.time_max.duration();
        let now = ClockReadings::read();
        let kept = record::load(&store, now, time_max)?;
        let users = UserBans::open(store.clone(), now)?;
        let bans = Self::with(settings, users, Some(store));
        {
            let mut state = bans.0.state.lock();
            for (network, ban) in kept.into_iter().take(settings.networks_max) {
                state.bans.insert(network, ban);
            }
            bans.publish_count(&state);
        }
        Ok(bans)
    }

    fn with(settings: &BansSettings, users: UserBans, store: Option<Store>) -> Self {
        Self(Arc::new(SharedBans {
            count: AtomicUsize::new(0),
            state: Mutex::new(BansAndScores {
                bans: BanTable::default(),
                scores: Scores::new(settings),
            }),
            users,
            store,
            refused: AtomicU64::new(0),
            imposed: AtomicU64::new(0),
            offences: Default::default(),
            settings: settings.clone(),
        }))
    }

    /// The settings in force.
    pub fn settings(&self) -> &BansSettings {
        &self.0.settings
    }

    /// The bans of users.
    pub fn users(&self) -> &UserBans {
        &self.0.users
    }

    /// Whether this peer is never refused: a program on this machine, unless the settings say
    /// otherwise, or a peer in an allowed network.
    pub fn is_exempt(&self, peer: Peer) -> bool {
        let settings = &self.0.settings;
        let Some(ip) = peer.ip().map(|ip| ip.to_canonical()) else {
            return true;
        };
        (settings.exempt_local && ip.is_loopback())
            || settings
                .allowed
                .iter()
                .any(|network| network.holds(Some(ip)))
    }

    /// The network of addresses that are treated as one client.
    pub fn client_network(&self, ip: std::net::IpAddr) -> PeerNetwork {
        PeerNetwork::around(ip, self.0.settings.ipv4_bits, IPV6_BITS)
    }

    /// Whether a connection or request of this peer must be refused. Counts the refusal.
    pub fn refuses(&self, peer: Peer) -> bool {
        if self.0.count.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let is_refused = self.remaining(peer).is_some();
        if is_refused {
            self.0.refused.fetch_add(1, Ordering::Relaxed);
        }
        is_refused
    }

    /// The remaining time of this peer's ban; `None` if it is not banned.
    pub fn remaining(&self, peer: Peer) -> Option<Duration> {
        let ip = peer.ip()?;
        if self.0.count.load(Ordering::Relaxed) == 0 || self.is_exempt(peer) {
            return None;
        }
        let now = Instant::now();
        let state = self.0.state.lock();
        state.bans.find(ip, now).map(|ban| ban.remaining(now))
    }

    /// Records an offence of this peer, which may lead to a ban.
    pub fn note(&self, peer: Peer, offence: Offence) {
        let inner = &self.0;
        if let Some(count) = inner.offences.get(offence as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let points = offence.points(&inner.settings.points);
        let Some(ip) = peer.ip() else { return };
        if !inner.settings.enabled || points == 0 || self.is_exempt(peer) {
            return;
        }
        let network = self.client_network(ip);
        let now = ClockReadings::read();
        let mut changes = Vec::new();
        let mut state = inner.state.lock();
        if state.bans.find(ip, now.instant).is_some() {
            // A connection that is older than the ban: its further offences do not extend the ban.
            return;
        }
        let over = state.scores.add(network, offence, points, now.instant);
        let Some(counts) = over else { return };
        let (ban, seconds) = self.automatic_ban(&state.bans, network, &counts, now);
        if state.bans.get(network).is_none() && state.bans.len() >= inner.settings.networks_max {
            match state.bans.make_room(now.instant) {
                Some(freed) => changes.push(record::delete(freed)),
                None => return,
            }
        }
        tracing::warn!(
            target: "bans", %network, seconds, times = ban.times, reason = &*ban.reason,
            "banned"
        );
        changes.push(record::put(network, &ban));
        state.bans.insert(network, ban);
        self.publish_count(&state);
        // If this is lost in a crash, the ban is imposed again as soon as the offences continue.
        let _ = self.submit(&state, changes);
        drop(state);
        inner.imposed.fetch_add(1, Ordering::Relaxed);
    }

    /// The ban that these offences lead to, and its duration in seconds.
    fn automatic_ban(
        &self,
        bans: &BanTable,
        network: PeerNetwork,
        counts: &OffenceCounts,
        now: ClockReadings,
    ) -> (Ban, u64) {
        let settings = &self.0.settings;
        let before = bans.get(network).map_or(0, |ban| ban.times);
        let doubled = 1_u32 << before.min(DOUBLINGS_MAX);
        let time_max = settings.time_max.duration();
        let time = settings
            .time
            .duration()
            .saturating_mul(doubled)
            .min(time_max);
        let ban = Ban {
            ends: now.end_in(time),
            since: now.unix,
            times: before.saturating_add(1),
            reason: offence::reason(counts).into(),
            by_operator: false,
        };
        (ban, time.as_secs())
    }

    /// Bans a network for this duration, or until the ban is lifted. Returns once the ban is
    /// durable.
    pub async fn add(
        &self,
        network: PeerNetwork,
        time: Option<Duration>,
        reason: &str,
    ) -> Result<BanSummary, BanError> {
        let network = self.bannable(network)?;
        let now = ClockReadings::read();
        let ban = now.operators_ban(time, reason);
        let summary = summary(network, &ban);
        let mut changes = vec![record::put(network, &ban)];
        let submitted = {
            let mut state = self.0.state.lock();
            let is_new = state.bans.get(network).is_none();
            if is_new && state.bans.len() >= self.0.settings.networks_max {
                let freed = state.bans.make_room(now.instant).ok_or(BanError::Full)?;
                changes.push(record::delete(freed));
            }
            state.bans.insert(network, ban);
            self.publish_count(&state);
            self.submit(&state, changes)
        };
        self.0.imposed.fetch_add(1, Ordering::Relaxed);
        settled(submitted).await?;
        Ok(summary)
    }

    /// The network without the bits after its prefix, if it may be banned.
    fn bannable(&self, network: PeerNetwork) -> Result<PeerNetwork, BanError> {
        let PeerNetwork::Addresses { address, bits } = network else {
            return Err(BanError::NoAddress);
        };
        let network = PeerNetwork::around(address, bits, bits);
        let bits_min = if address.is_ipv4() { 8 } else { 16 };
        if bits < bits_min {
            return Err(BanError::TooLarge(network));
        }
        let peer = Peer::Address((address, 0).into());
        let settings = &self.0.settings;
        let loopback = [[127, 0, 0, 1].into(), std::net::Ipv6Addr::LOCALHOST.into()];
        let holds_loopback = loopback.into_iter().any(|ip| network.holds(Some(ip)));
        let is_exempt = self.is_exempt(peer) || (settings.exempt_local && holds_loopback);
        if is_exempt {
            return Err(BanError::Exempt(network));
        }
        Ok(network)
    }

    /// Lifts the ban of a network, or of the network that an address belongs to, and deletes its
    /// offences. Returns once this is durable.
    pub async fn remove(&self, network: PeerNetwork) -> Result<(), BanError> {
        let PeerNetwork::Addresses { address, bits } = network else {
            return Err(BanError::NoAddress);
        };
        let exact = PeerNetwork::around(address, bits, bits);
        let submitted = {
            let mut state = self.0.state.lock();
            let now = Instant::now();
            let is_banned = |network: &PeerNetwork| {
                let ban = state.bans.get(*network);
                ban.is_some_and(|ban| ban.is_in_force(now))
            };
            let candidates = [exact, self.client_network(address)];
            let removed = candidates.into_iter().find(is_banned);
            let removed = removed.ok_or(BanError::NotBanned(exact))?;
            state.bans.remove(removed);
            self.publish_count(&state);
            self.submit(&state, vec![record::delete(removed)])
        };
        settled(submitted).await
    }

    /// The bans in force, the most recent first.
    pub fn list(&self) -> Vec<BanSummary> {
        let now = Instant::now();
        let state = self.0.state.lock();
        let in_force = state.bans.iter();
        let in_force = in_force.filter(|(_, ban)| ban.is_in_force(now));
        let mut all: Vec<BanSummary> = in_force
            .map(|(network, ban)| summary(network, ban))
            .collect();
        drop(state);
        all.extend(self.0.users.list());
        all.sort_by(|a, b| b.since.cmp(&a.since).then(a.network.cmp(&b.network)));
        all
    }

    /// The totals since the start.
    pub fn totals(&self) -> BanTotals {
        let inner = &self.0;
        let now = Instant::now();
        let state = inner.state.lock();
        let in_force = state.bans.iter().filter(|(_, ban)| ban.is_in_force(now));
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        BanTotals {
            in_force: in_force.count(),
            imposed: load(&inner.imposed),
            refused: load(&inner.refused),
            offences: [0, 1, 2, 3].map(|kind: usize| inner.offences.get(kind).map_or(0, load)),
        }
    }

    /// Deletes scores that have recovered, and bans that ended long ago; to be called periodically.
    pub fn sweep(&self) {
        self.0.users.sweep();
        let now = Instant::now();
        let remember_for = self.0.settings.time_max.duration();
        let mut state = self.0.state.lock();
        state.scores.sweep(now);
        let forgotten = state.bans.sweep(now, remember_for);
        self.publish_count(&state);
        // A record that could not be deleted here is deleted after the next start.
        let _ = self.submit(&state, forgotten.into_iter().map(record::delete).collect());
    }

    fn publish_count(&self, state: &BansAndScores) {
        self.0.count.store(state.bans.len(), Ordering::Relaxed);
    }

    /// Submits changes of the table, which is locked.
    fn submit(&self, _table: &BansAndScores, changes: Vec<StoreChange>) -> Submitted {
        record::submit(self.0.store.as_ref(), changes)
    }
}

impl fmt::Debug for Bans {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Bans").finish_non_exhaustive()
    }
}

impl Default for Bans {
    /// The default settings, in memory only.
    fn default() -> Self {
        Self::new(&BansSettings::default())
    }
}

fn summary(network: PeerNetwork, ban: &Ban) -> BanSummary {
    BanSummary::new(network.to_string(), ban)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ban_in_a_row_lasts_twice_as_long_up_to_the_longest() {
        let bans = Bans::default();
        let network = PeerNetwork::around([192, 0, 2, 1].into(), 32, 64);
        let mut table = BanTable::default();
        let mut lengths = Vec::new();
        for times in 1..=40 {
            let (ban, seconds) =
                bans.automatic_ban(&table, network, &[20, 0, 0, 0], ClockReadings::read());
            assert_eq!(ban.times, times);
            assert_eq!(ban.ends.map(|end| end.unix - ban.since), Some(seconds));
            table.insert(network, ban);
            lengths.push(seconds);
        }
        assert_eq!(lengths[..4], [300, 600, 1_200, 2_400]);
        assert_eq!(lengths[8..10], [76_800, 86_400]);
        assert_eq!(lengths[39], 86_400);
    }
}
