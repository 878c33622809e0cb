//! How many connections a listener takes, in total and from one address.
//!
//! The count goes down when the [`Admitted`] that came with the connection is dropped, so a
//! connection cannot forget to sign off.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use gatepost_message::Peer;
use parking_lot::Mutex;

/// The counts of one listener. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Admission(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    total_max: u32,
    per_address_max: u32,
    present: Mutex<Present>,
}

#[derive(Debug, Default)]
struct Present {
    total: u32,
    since_start: u64,
    by_address: HashMap<IpAddr, u32>,
}

/// Why a connection is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The listener has as many as it takes.
    #[error("too many connections")]
    TooManyInTotal,
    /// This address has.
    #[error("too many connections from your address")]
    TooManyFromAddress,
}

impl Admission {
    /// Limits of 0 do not limit.
    pub fn new(total_max: u32, per_address_max: u32) -> Self {
        Self(Arc::new(Inner {
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
        if let Some(address) = peer.ip() {
            let count = present.by_address.entry(address).or_default();
            if inner.per_address_max > 0 && *count >= inner.per_address_max {
                return Err(Refusal::TooManyFromAddress);
            }
            *count += 1;
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

/// A connection's place; dropping it frees the place.
#[derive(Debug)]
pub struct Admitted {
    admission: Admission,
    peer: Peer,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut present = self.admission.0.present.lock();
        present.total -= 1;
        let Some(address) = self.peer.ip() else {
            return;
        };
        if let Some(count) = present.by_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                present.by_address.remove(&address);
            }
        }
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
}
