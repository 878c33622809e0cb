//! Limits on the connections of a listener, in total and from one client network, and how fast one
//! network may open them.
//!
//! A client network is an IPv4 address (or its neighbours too, by `bans.ipv4_bits`), or the /64 of
//! an IPv6 address: a host can use any address of its /64. Networks that are exempt from bans are
//! counted in total only. All listeners together stay within the process's file descriptors
//! ([`ConnectionBudget`]). The count goes down when a connection's [`ConnectionPermit`] is dropped.
//!
//! Totals are atomics; only the counts of a network are guarded by a lock, which is taken once for
//! one look-up.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gatepost_bans::{Bans, Offence};
use gatepost_message::Peer;
use gatepost_settings::PeerNetwork;
use parking_lot::Mutex;

use crate::acceptor::AcceptedSocket;
use crate::connection_budget::ConnectionBudget;
use crate::log_throttle::LogThrottle;

/// The number of networks without a connection that are remembered because they connected recently;
/// above it, networks that have recovered are removed.
const RECENT_NETWORKS_MAX: usize = 65_536;

/// The counts of one listener. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Admission(Arc<AdmissionCore>);

#[derive(Debug)]
struct AdmissionCore {
    limits: AdmissionLimits,
    open: AtomicU32,
    since_start: AtomicU64,
    by_network: Mutex<HashMap<PeerNetwork, NetworkConnections>>,
    budget: ConnectionBudget,
    over_budget: LogThrottle,
}

#[derive(Debug, Clone)]
struct AdmissionLimits {
    total_max: u32,
    per_address_max: u32,
    bans: Option<Bans>,
}

/// The connections of one network.
#[derive(Debug)]
struct NetworkConnections {
    open: u32,
    /// Each new connection moves this moment into the future, by the time that the rate allows for
    /// it; beyond the burst, the network must wait (the generic cell rate algorithm).
    paid: Instant,
}

/// The reason why a connection is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AdmissionRefusal {
    /// The listener has reached its maximum, or the process has no descriptor left.
    #[error("too many connections")]
    TooManyInTotal,
    /// This client network has reached its maximum.
    #[error("too many connections from your address")]
    TooManyFromAddress,
    /// This client network opens them too fast.
    #[error("too many new connections from your address; wait before the next one")]
    TooFastFromAddress,
}

impl Admission {
    /// Limits of 0 do not limit.
    pub fn new(total_max: u32, per_address_max: u32) -> Self {
        Self::with(AdmissionLimits {
            total_max,
            per_address_max,
            bans: None,
        })
    }

    /// The same limits with the rate of connections and the exempt networks of `bans`, which also
    /// counts offences. To be called before any connection is admitted.
    #[must_use]
    pub fn with_bans(&self, bans: Bans) -> Self {
        Self::with(AdmissionLimits {
            bans: Some(bans),
            ..self.0.limits.clone()
        })
    }

    fn with(limits: AdmissionLimits) -> Self {
        Self(Arc::new(AdmissionCore {
            budget: ConnectionBudget::for_listener(),
            over_budget: LogThrottle::default(),
            limits,
            open: AtomicU32::new(0),
            since_start: AtomicU64::new(0),
            by_network: Mutex::default(),
        }))
    }

    /// Counts a connection in. Peers of a Unix socket have no address to be counted by.
    pub fn admit(&self, peer: Peer) -> Result<ConnectionPermit, AdmissionRefusal> {
        self.admit_with(peer, true)
    }

    /// The same for a connection that another listener has accepted, and whose descriptor that
    /// listener counts: a WebSocket.
    pub(crate) fn admit_upgraded(&self, peer: Peer) -> Result<ConnectionPermit, AdmissionRefusal> {
        self.admit_with(peer, false)
    }

    fn admit_with(
        &self,
        peer: Peer,
        takes_descriptor: bool,
    ) -> Result<ConnectionPermit, AdmissionRefusal> {
        let inner = &self.0;
        let total_max = inner.limits.total_max;
        let before = inner.open.fetch_add(1, Ordering::Relaxed);
        if total_max > 0 && before >= total_max {
            inner.open.fetch_sub(1, Ordering::Relaxed);
            return Err(AdmissionRefusal::TooManyInTotal);
        }
        // From here on, dropping the value returns all counts.
        let mut admitted = ConnectionPermit {
            admission: self.clone(),
            network: None,
            has_descriptor: takes_descriptor && inner.budget.take(),
        };
        if takes_descriptor && !admitted.has_descriptor {
            if let Some(left_out) = inner.over_budget.permit() {
                tracing::warn!(
                    target: "listeners", left_out,
                    "connections are refused: the process has no more file descriptors for them"
                );
            }
            return Err(AdmissionRefusal::TooManyInTotal);
        }
        if let Some(network) = inner.limits.counted_network(peer) {
            inner.admit_network(network)?;
            admitted.network = Some(network);
        }
        inner.since_start.fetch_add(1, Ordering::Relaxed);
        Ok(admitted)
    }

    /// The same for an accepted socket, before anything is read from it. `None` means that the
    /// socket must be closed without a reply, since its peer connects too fast.
    pub(crate) fn admit_accepted(
        &self,
        accepted: &AcceptedSocket,
        peer: Peer,
    ) -> Option<Result<ConnectionPermit, AdmissionRefusal>> {
        let admitted = self.admit(peer);
        let is_too_fast = matches!(admitted, Err(AdmissionRefusal::TooFastFromAddress));
        // A proxy's connection counts for its client.
        (!is_too_fast || accepted.is_from_proxy(peer)).then_some(admitted)
    }

    /// Counts a proxy's connection for the proxy's client.
    pub fn admit_proxied(
        &self,
        admitted: Result<ConnectionPermit, AdmissionRefusal>,
        proxy: Peer,
        client: Peer,
    ) -> Result<ConnectionPermit, AdmissionRefusal> {
        if client.ip() == proxy.ip() {
            return admitted;
        }
        drop(admitted);
        self.admit(client)
    }

    /// Notes an offence of a client of this listener.
    pub(crate) fn offended(&self, peer: Peer, offence: Offence) {
        if let Some(bans) = self.bans() {
            bans.note(peer, offence);
        }
    }

    /// Whether a request or session is refused because its client is banned, where the client is
    /// not the peer of the connection.
    pub(crate) fn refuses(&self, client: Peer) -> bool {
        self.bans().is_some_and(|bans| bans.refuses(client))
    }

    /// The bans that offences of clients lead to, if the listener has any.
    pub(crate) fn bans(&self) -> Option<&Bans> {
        self.0.limits.bans.as_ref()
    }

    /// Connections open now.
    pub fn open(&self) -> u32 {
        self.0.open.load(Ordering::Relaxed)
    }

    /// Connections admitted since the start.
    pub fn since_start(&self) -> u64 {
        self.0.since_start.load(Ordering::Relaxed)
    }
}

impl AdmissionLimits {
    /// The network that a connection counts for; `None` if no network is counted.
    fn counted_network(&self, peer: Peer) -> Option<PeerNetwork> {
        let ip = peer.ip()?;
        match &self.bans {
            None => (self.per_address_max > 0).then(|| client_network(ip)),
            Some(bans) => {
                let counts = self.per_address_max > 0 || bans.settings().connects_per_second > 0;
                (counts && !bans.is_exempt(peer)).then(|| bans.client_network(ip))
            }
        }
    }

    /// The interval between connections at the permitted rate, and the burst as a multiple of it.
    fn rate(&self) -> Option<(Duration, u32)> {
        let settings = self.bans.as_ref()?.settings();
        let time = Duration::from_secs(1).checked_div(settings.connects_per_second)?;
        Some((time, settings.connects_burst.max(1)))
    }
}

impl AdmissionCore {
    fn admit_network(&self, network: PeerNetwork) -> Result<(), AdmissionRefusal> {
        let rate = self.limits.rate();
        let now = Instant::now();
        let mut by_network = self.by_network.lock();
        let entry = match by_network.entry(network) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(NetworkConnections { open: 0, paid: now }),
        };
        let per_address_max = self.limits.per_address_max;
        if per_address_max > 0 && entry.open >= per_address_max {
            return Err(AdmissionRefusal::TooManyFromAddress);
        }
        if let Some((time, burst)) = rate {
            let paid = entry.paid.max(now);
            if paid + time > now + time.saturating_mul(burst) {
                return Err(AdmissionRefusal::TooFastFromAddress);
            }
            entry.paid = paid + time;
        }
        entry.open += 1;
        if by_network.len() > RECENT_NETWORKS_MAX + self.open.load(Ordering::Relaxed) as usize {
            by_network.retain(|_, entry| entry.open > 0 || entry.paid > now);
        }
        Ok(())
    }

    fn leave_network(&self, network: PeerNetwork) {
        let mut by_network = self.by_network.lock();
        if let Entry::Occupied(mut entry) = by_network.entry(network) {
            let from_network = entry.get_mut();
            from_network.open = from_network.open.saturating_sub(1);
            // A network that has not recovered keeps its entry until it connects again, or until
            // the sweep.
            if from_network.open == 0 && from_network.paid <= Instant::now() {
                entry.remove();
            }
        }
    }
}

/// The right to one connection; dropping it returns the right.
#[derive(Debug)]
pub struct ConnectionPermit {
    admission: Admission,
    /// The network that it counts for.
    network: Option<PeerNetwork>,
    has_descriptor: bool,
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let inner = &self.admission.0;
        inner.open.fetch_sub(1, Ordering::Relaxed);
        if self.has_descriptor {
            inner.budget.release();
        }
        if let Some(network) = self.network {
            inner.leave_network(network);
        }
    }
}

/// The addresses that count as one client where no settings say otherwise: an IPv4 address, or the
/// /64 of an IPv6 address.
pub(crate) fn client_network(address: IpAddr) -> PeerNetwork {
    PeerNetwork::around(address, 32, 64)
}

/// The client that the quota of files counts, and whether it has not logged in.
pub(crate) fn file_owner(user: Option<&str>, peer: Peer) -> (String, bool) {
    match (user, peer.ip()) {
        (Some(user), _) => (format!("user {user}"), false),
        (None, Some(address)) => (client_network(address).to_string(), true),
        (None, None) => ("local".to_owned(), true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gatepost_bans::BansSettings;

    fn from(text: &str) -> Peer {
        Peer::Address(text.parse().expect("an address"))
    }

    #[test]
    fn limits_hold_and_places_become_free() {
        let admission = Admission::new(3, 2);
        let first = admission.admit(from("192.0.2.1:1"));
        let second = admission.admit(from("192.0.2.1:2"));
        assert!(first.is_ok() && second.is_ok());
        let third = admission.admit(from("192.0.2.1:3"));
        assert_eq!(third.err(), Some(AdmissionRefusal::TooManyFromAddress));
        let other = admission.admit(from("192.0.2.2:1"));
        assert!(other.is_ok());
        assert_eq!(
            admission.admit(Peer::Local).err(),
            Some(AdmissionRefusal::TooManyInTotal)
        );
        drop(first);
        assert!(admission.admit(from("192.0.2.1:4")).is_ok());
        assert_eq!(admission.open(), 2);
        assert_eq!(admission.since_start(), 4);
    }

    #[test]
    fn an_upgraded_connection_counts_but_takes_no_second_descriptor() {
        let admission = Admission::new(1, 0);
        let upgraded = admission.admit_upgraded(Peer::Local).expect("admitted");
        assert!(!upgraded.has_descriptor);
        assert_eq!(
            admission.admit(Peer::Local).err(),
            Some(AdmissionRefusal::TooManyInTotal)
        );
        drop(upgraded);
        assert!(
            admission
                .admit(Peer::Local)
                .expect("admitted")
                .has_descriptor
        );
    }

    #[test]
    fn the_addresses_of_a_64_count_as_one() {
        let admission = Admission::new(0, 2);
        let first = admission.admit(from("[2001:db8:0:1::1]:1"));
        let second = admission.admit(from("[2001:db8:0:1:ffff::2]:1"));
        assert!(first.is_ok() && second.is_ok());
        let third = admission.admit(from("[2001:db8:0:1:1:2:3:4]:1"));
        assert_eq!(third.err(), Some(AdmissionRefusal::TooManyFromAddress));
        assert!(admission.admit(from("[2001:db8:0:2::1]:1")).is_ok());
        drop(first);
        assert!(admission.admit(from("[2001:db8:0:1::3]:1")).is_ok());
    }

    #[test]
    fn a_network_connects_no_faster_than_its_rate_and_the_exempt_do() {
        let bans = Bans::new(&BansSettings {
            connects_per_second: 1,
            connects_burst: 3,
            allowed: vec!["198.51.100.0/24".parse().expect("a network")],
            ..BansSettings::default()
        });
        let admission = Admission::new(0, 2).with_bans(bans);
        let at_once = |address: &str| {
            let admitted = (0..50).map(|_| admission.admit(from(address)).err());
            admitted.filter(Option::is_none).count()
        };
        // Each ends before the next begins, so only their rate counts.
        assert_eq!(at_once("192.0.2.1:1"), 3);
        assert_eq!(at_once("192.0.2.2:1"), 3, "another client");
        assert_eq!(at_once("198.51.100.9:1"), 50);
        assert_eq!(at_once("127.0.0.1:1"), 50);
        let held: Vec<_> = (0..50)
            .map(|_| admission.admit(from("127.0.0.1:1")))
            .collect();
        assert!(held.iter().all(Result::is_ok));
        let refused = admission.admit(from("192.0.2.1:1")).err();
        assert_eq!(refused, Some(AdmissionRefusal::TooFastFromAddress));
        drop(held);
        assert_eq!(admission.open(), 0);
    }
}
