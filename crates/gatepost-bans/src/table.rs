//! The bans in force, and those that have ended but are still kept.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use gatepost_settings::PeerNetwork;

/// The number of bans that are compared when the table is full; the one that ends first is removed.
const COMPARED: usize = 8;

/// The end of a ban on both clocks: the monotonic one decides, the other is displayed and stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BanEnd {
    pub(crate) instant: Instant,
    /// Unix seconds.
    pub(crate) unix: u64,
}

/// One ban.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ban {
    /// `None` for a ban that holds until it is lifted.
    pub(crate) ends: Option<BanEnd>,
    /// Unix seconds.
    pub(crate) since: u64,
    /// The number of consecutive bans.
    pub(crate) times: u32,
    pub(crate) reason: Box<str>,
    pub(crate) by_operator: bool,
}

impl Ban {
    pub(crate) fn is_in_force(&self, now: Instant) -> bool {
        self.ends.is_none_or(|end| end.instant > now)
    }

    /// The remaining time.
    pub(crate) fn remaining(&self, now: Instant) -> Duration {
        self.ends.map_or(Duration::MAX, |end| {
            end.instant.saturating_duration_since(now)
        })
    }

    fn is_forgotten(&self, now: Instant, remember_for: Duration) -> bool {
        let forgotten = |end: BanEnd| end.instant.checked_add(remember_for);
        self.ends
            .and_then(forgotten)
            .is_some_and(|forgotten| forgotten <= now)
    }
}

#[derive(Debug, Default)]
pub(crate) struct BanTable {
    by_network: HashMap<PeerNetwork, Ban>,
    /// The number of bans per prefix length, so that an address is looked up once for each length
    /// in use.
    lengths_v4: BTreeMap<u8, usize>,
    lengths_v6: BTreeMap<u8, usize>,
}

impl BanTable {
    /// The ban of this address, in force at `now`.
    pub(crate) fn find(&self, address: IpAddr, now: Instant) -> Option<&Ban> {
        let address = address.to_canonical();
        let lengths = match address {
            IpAddr::V4(_) => &self.lengths_v4,
            IpAddr::V6(_) => &self.lengths_v6,
        };
        lengths
            .keys()
            .filter_map(|&bits| {
                self.by_network
                    .get(&PeerNetwork::around(address, bits, bits))
            })
            .find(|ban| ban.is_in_force(now))
    }

    pub(crate) fn get(&self, network: PeerNetwork) -> Option<&Ban> {
        self.by_network.get(&network)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_network.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (PeerNetwork, &Ban)> {
        self.by_network.iter().map(|(network, ban)| (*network, ban))
    }

    pub(crate) fn insert(&mut self, network: PeerNetwork, ban: Ban) {
        if self.by_network.insert(network, ban).is_none()
            && let Some((lengths, bits)) = self.length_of(network)
        {
            *lengths.entry(bits).or_default() += 1;
        }
    }

    pub(crate) fn remove(&mut self, network: PeerNetwork) -> Option<Ban> {
        let removed = self.by_network.remove(&network)?;
        if let Some((lengths, bits)) = self.length_of(network)
            && let Some(count) = lengths.get_mut(&bits)
        {
            *count -= 1;
            if *count == 0 {
                lengths.remove(&bits);
            }
        }
        Some(removed)
    }

    fn length_of(&mut self, network: PeerNetwork) -> Option<(&mut BTreeMap<u8, usize>, u8)> {
        match network {
            PeerNetwork::Addresses { address, bits } if address.is_ipv4() => {
                Some((&mut self.lengths_v4, bits))
            }
            PeerNetwork::Addresses { bits, .. } => Some((&mut self.lengths_v6, bits)),
            PeerNetwork::Unix => None,
        }
    }

    /// Removes the bans that ended more than `remember_for` ago, and returns their networks.
    pub(crate) fn sweep(&mut self, now: Instant, remember_for: Duration) -> Vec<PeerNetwork> {
        let forgotten: Vec<PeerNetwork> = self
            .iter()
            .filter(|(_, ban)| ban.is_forgotten(now, remember_for))
            .map(|(network, _)| network)
            .collect();
        for network in &forgotten {
            self.remove(*network);
        }
        forgotten
    }

    /// Removes one ban that no operator imposed, and returns its network.
    pub(crate) fn make_room(&mut self, now: Instant) -> Option<PeerNetwork> {
        let automatic = self.iter().filter(|(_, ban)| !ban.by_operator);
        // The map's order is random, so these entries are random ones.
        let soonest = automatic
            .take(COMPARED)
            .min_by_key(|(_, ban)| ban.remaining(now))
            .map(|(network, _)| network)?;
        self.remove(soonest);
        Some(soonest)
    }
}
