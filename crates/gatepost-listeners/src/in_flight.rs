//! One budget in bytes for input that the server has not finished handling: unfinished bodies,
//! mails and packets, over all listeners.
//!
//! Each address gets a fair share: it may hold as much as is still free for the others. So a single
//! address can use half of the budget, two addresses a third each, and a new address always gets a
//! share. IPv6 addresses are counted by /64, since one host can use any address of its /64.
//!
//! Invariant: the bytes that a [`InFlightLease`] reserved are returned when it is dropped.

use std::collections::HashMap;
use std::sync::Arc;

use gatepost_message::Peer;
use gatepost_settings::{ByteSize, PeerNetwork};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::admission::client_network;

/// The bytes that each unfinished message may hold without a reservation: as many as one read can
/// return, so that short messages take no lock.
const UNRESERVED_BYTES: u64 = 64 << 10;
/// Reservations grow in steps of this size.
const STEP_BYTES: u64 = 256 << 10;

/// `[in_flight]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct InFlightSettings {
    /// Bytes of unfinished bodies over all listeners. One address holds at most as much as is
    /// still free.
    pub bytes_max: ByteSize,
}

impl Default for InFlightSettings {
    fn default() -> Self {
        Self {
            bytes_max: ByteSize::mebibytes(256),
        }
    }
}

/// The budget of the process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct InFlight(Arc<InFlightBudget>);

#[derive(Debug)]
struct InFlightBudget {
    bytes_max: u64,
    held: Mutex<HeldBytes>,
}

#[derive(Debug, Default)]
struct HeldBytes {
    total: u64,
    /// By address; peers of Unix sockets have none.
    by_address: HashMap<Option<PeerNetwork>, u64>,
}

/// The budget has no more bytes for this address now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many bytes are in flight; try again later")]
pub struct InFlightLimitReached;

impl InFlight {
    /// A budget of this size.
    pub fn new(settings: &InFlightSettings) -> Self {
        Self(Arc::new(InFlightBudget {
            bytes_max: settings.bytes_max.bytes(),
            held: Mutex::default(),
        }))
    }

    /// A lease for one message of `peer`, which holds nothing yet.
    pub fn lease(&self, peer: Peer) -> InFlightLease {
        InFlightLease {
            budget: self.clone(),
            address: peer.ip().map(client_network),
            bytes: 0,
        }
    }

    /// Bytes reserved now.
    pub fn bytes(&self) -> u64 {
        self.0.held.lock().total
    }
}

impl Default for InFlight {
    fn default() -> Self {
        Self::new(&InFlightSettings::default())
    }
}

/// The part of the budget that one message holds.
#[derive(Debug)]
pub struct InFlightLease {
    budget: InFlight,
    address: Option<PeerNetwork>,
    bytes: u64,
}

impl InFlightLease {
    /// Makes sure that the message may be `length` bytes long by now.
    pub fn reserve(&mut self, length: u64) -> Result<(), InFlightLimitReached> {
        if length <= self.bytes + UNRESERVED_BYTES {
            return Ok(());
        }
        let missing = length - self.bytes;
        let step = missing.next_multiple_of(STEP_BYTES);
        let inner = &self.budget.0;
        let mut held = inner.held.lock();
        let mine = held.by_address.get(&self.address).copied().unwrap_or(0);
        let free = inner.bytes_max.saturating_sub(held.total + step);
        if mine + step > free {
            return Err(InFlightLimitReached);
        }
        held.total += step;
        held.by_address.insert(self.address, mine + step);
        self.bytes += step;
        Ok(())
    }
}

impl Drop for InFlightLease {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut held = self.budget.0.held.lock();
        held.total -= self.bytes;
        if let Some(mine) = held.by_address.get_mut(&self.address) {
            *mine -= self.bytes;
            if *mine == 0 {
                held.by_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(mebibytes: u32) -> InFlight {
        InFlight::new(&InFlightSettings {
            bytes_max: ByteSize::mebibytes(mebibytes.into()),
        })
    }

    fn peer(text: &str) -> Peer {
        Peer::Address(text.parse().expect("an address"))
    }

    /// The number of messages of a mebibyte that fit.
    fn fill(budget: &InFlight, peer: Peer, leases: &mut Vec<InFlightLease>) -> usize {
        let before = leases.len();
        loop {
            let mut lease = budget.lease(peer);
            if lease.reserve(1 << 20).is_err() {
                return leases.len() - before;
            }
            leases.push(lease);
        }
    }

    #[test]
    fn one_address_leaves_room_for_others() {
        let budget = budget(64);
        let mut leases = Vec::new();
        assert_eq!(fill(&budget, peer("192.0.2.1:1"), &mut leases), 32);
        assert_eq!(fill(&budget, peer("192.0.2.2:1"), &mut leases), 16);
        assert!(fill(&budget, peer("[2001:db8::1]:1"), &mut leases) > 0);
        assert_eq!(
            fill(&budget, peer("[2001:db8::2]:1"), &mut leases),
            0,
            "of the same /64"
        );
        leases.clear();
        assert_eq!(budget.bytes(), 0);
        assert_eq!(fill(&budget, peer("192.0.2.2:1"), &mut leases), 32);
    }

    #[test]
    fn short_messages_reserve_nothing() {
        let budget = budget(1);
        let mut lease = budget.lease(Peer::Local);
        assert_eq!(lease.reserve(UNRESERVED_BYTES), Ok(()));
        assert_eq!(budget.bytes(), 0);
        assert_eq!(lease.reserve(2 << 20), Err(InFlightLimitReached));
    }
}
