//! How many connections a listener accepts, in total and from one client network.
//!
//! A client network is an IPv4 address, or the /64 of an IPv6 address: a host has as many addresses
//! of its /64 as it likes. All listeners together stay within the process's file descriptors
//! ([`ConnectionBudget`]). The count goes down when the [`Admitted`] of a connection is dropped.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use gatepost_message::Peer;
use parking_lot::Mutex;

use crate::connection_budget::ConnectionBudget;
use crate::log_throttle::LogThrottle;

/// The counts of one listener. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Admission(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    total_max: u32,
    per_address_max: u32,
    present: Mutex<Present>,
    budget: ConnectionBudget,
    over_budget: LogThrottle,
}

#[derive(Debug, Default)]
struct Present {
    total: u32,
    since_start: u64,
    by_network: HashMap<IpAddr, u32>,
}

/// Why a connection is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The listener has as many as it accepts, or the process has no descriptor for more.
    #[error("too many connections")]
    TooManyInTotal,
    /// This client network has as many as it may have.
    #[error("too many connections from your address")]
    TooManyFromAddress,
}

impl Admission {
    /// Limits of 0 do not limit.
    pub fn new(total_max: u32, per_address_max: u32) -> Self {
        Self(Arc::new(Inner {
            budget: ConnectionBudget::for_listener(),
            over_budget: LogThrottle::default(),
            total_max,
            per_address_max,
            present: Mutex::default(),
        }))
    }

    /// Counts a connection in. Peers of a Unix socket have no address to be counted by.
    pub fn admit(&self, peer: Peer) -> Result<Admitted, Refusal> {
        let inner = &self.0;
        let mut present = inner.present.lock();
        if inner.total_max > 0 && present.total >= inner.total_max {
            return Err(Refusal::TooManyInTotal);
        }
        let network = peer.ip().map(client_network);
        let from_network = network.and_then(|network| present.by_network.get(&network));
        if inner.per_address_max > 0 && from_network.is_some_and(|&n| n >= inner.per_address_max) {
            return Err(Refusal::TooManyFromAddress);
        }
        if !inner.budget.take() {
            if let Some(left_out) = inner.over_budget.permit() {
                tracing::warn!(
                    target: "listeners", left_out,
                    "connections are refused: the process has no more file descriptors for them"
                );
            }
            return Err(Refusal::TooManyInTotal);
        }
        if let Some(network) = network {
            *present.by_network.entry(network).or_default() += 1;
        }
        present.total += 1;
        present.since_start += 1;
        Ok(Admitted {
            admission: self.clone(),
            peer,
        })
    }

    /// Counts a proxy's connection for the client that it came for.
    pub fn behind(
        &self,
        admitted: Result<Admitted, Refusal>,
        proxy: Peer,
        client: Peer,
    ) -> Result<Admitted, Refusal> {
        if client.ip() == proxy.ip() {
            return admitted;
        }
        drop(admitted);
        self.admit(client)
    }

    /// Connections open now.
    pub fn open(&self) -> u32 {
        self.0.present.lock().total
    }

    /// Connections admitted since the start.
    pub fn since_start(&self) -> u64 {
        self.0.present.lock().since_start
    }
}

/// The right to one connection; dropping it returns the right.
#[derive(Debug)]
pub struct Admitted {
    admission: Admission,
    peer: Peer,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut present = self.admission.0.present.lock();
        present.total -= 1;
        self.admission.0.budget.release();
        let Some(network) = self.peer.ip().map(client_network) else {
            return;
        };
        if let Some(count) = present.by_network.get_mut(&network) {
            *count -= 1;
            if *count == 0 {
                present.by_network.remove(&network);
            }
        }
    }
}

/// The addresses that count as one client: an IPv4 address, or the /64 of an IPv6 address.
pub(crate) fn client_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = address.to_bits() & (u128::MAX << 64);
            IpAddr::V6(Ipv6Addr::from_bits(network))
        }
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(third.err(), Some(Refusal::TooManyFromAddress));
        let other = admission.admit(from("192.0.2.2:1"));
        assert!(other.is_ok());
        assert_eq!(
            admission.admit(Peer::Local).err(),
            Some(Refusal::TooManyInTotal)
        );
        drop(first);
        assert!(admission.admit(from("192.0.2.1:4")).is_ok());
        assert_eq!(admission.open(), 2);
        assert_eq!(admission.since_start(), 4);
    }

    #[test]
    fn the_addresses_of_a_64_count_as_one() {
        let admission = Admission::new(0, 2);
        let first = admission.admit(from("[2001:db8:0:1::1]:1"));
        let second = admission.admit(from("[2001:db8:0:1:ffff::2]:1"));
        assert!(first.is_ok() && second.is_ok());
        let third = admission.admit(from("[2001:db8:0:1:1:2:3:4]:1"));
        assert_eq!(third.err(), Some(Refusal::TooManyFromAddress));
        assert!(admission.admit(from("[2001:db8:0:2::1]:1")).is_ok());
        drop(first);
        assert!(admission.admit(from("[2001:db8:0:1::3]:1")).is_ok());
    }
}
