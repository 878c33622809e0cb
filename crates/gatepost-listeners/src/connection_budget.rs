//! The file descriptors of the process, divided among its listeners.
//!
//! Each connection takes a descriptor, and so do the database, log files and connections to other
//! servers. Without a division the idle clients of one listener would use up all descriptors, and
//! no other listener could accept. Each listener has a reserve that no other can take; the
//! descriptors beyond the reserves are available to all.
//!
//! Descriptors belong to the process, and so does this count. The count is kept in atomics, since
//! it changes with every connection.
//!
//! Invariant: `beyond` is the sum, over all listeners, of the connections that each has beyond its
//! reserve. The reserve never changes, so each connection is taken from and returned to the same
//! part.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rustix::process::{Resource, getrlimit};
use serde::{Deserialize, Serialize};

/// Descriptors that connections never take: database, logs, pages, next hops, name servers.
const OTHER_DESCRIPTORS: u64 = 128;
/// If descriptors are few, at most this fraction of them is kept for other uses.
const OTHER_PART: u64 = 4;
/// Connections that each listener can always have; fewer if descriptors are few.
const RESERVE_MAX: u64 = 32;
/// If descriptors are few, the reserves of this many listeners take at most half of them.
const LISTENERS_USUAL: u64 = 16;

/// The maximum number of connections of a listener, as the settings define it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "write a number of connections, or \"auto\"")]
pub enum ConnectionsMax {
    /// A number; 0 for no limit.
    Number(u32),
    /// Derived from the process's limit of file descriptors.
    Derived(Derived),
}

/// The word that selects a derived limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Derived {
    /// The number that the descriptors permit, less the reserves of other listeners.
    Auto,
}

impl ConnectionsMax {
    /// The number, for a process with this many descriptors.
    pub fn number(self, descriptors: u64) -> u32 {
        match self {
            Self::Number(number) => number,
            Self::Derived(Derived::Auto) => {
                let all = DescriptorBudget::new(descriptors);
                let others = all.reserve * (LISTENERS_USUAL - 1);
                u32::try_from(all.connections_max - others).unwrap_or(u32::MAX)
            }
        }
    }
}

impl Default for ConnectionsMax {
    fn default() -> Self {
        Self::Derived(Derived::Auto)
    }
}

impl From<u32> for ConnectionsMax {
    fn from(number: u32) -> Self {
        Self::Number(number)
    }
}

/// The descriptors that this process may have open.
pub(crate) fn descriptors_max() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

static PROCESS: Mutex<Option<Arc<DescriptorBudget>>> = Mutex::new(None);

/// The connections that all listeners may have open together.
#[derive(Debug)]
struct DescriptorBudget {
    connections_max: u64,
    reserve: u64,
    listeners: AtomicU64,
    /// Connections beyond the reserves.
    beyond: AtomicU64,
}

/// One listener's share of the descriptors. Dropping it releases its reserve.
#[derive(Debug)]
pub(crate) struct ConnectionBudget {
    descriptors: Arc<DescriptorBudget>,
    open: AtomicU64,
}

impl ConnectionBudget {
    /// A budget for one more listener of this process.
    pub(crate) fn for_listener() -> Self {
        let mut process = PROCESS.lock();
        let descriptors =
            process.get_or_insert_with(|| Arc::new(DescriptorBudget::new(descriptors_max())));
        DescriptorBudget::add_listener(descriptors)
    }

    /// Takes a descriptor for one more connection; returns whether there was one.
    /// [`release`](Self::release) returns it.
    pub(crate) fn take(&self) -> bool {
        let descriptors = &self.descriptors;
        if self.open.fetch_add(1, Ordering::Relaxed) < descriptors.reserve {
            return true;
        }
        let beyond_max = descriptors.beyond_max();
        if descriptors.beyond.fetch_add(1, Ordering::Relaxed) < beyond_max {
            return true;
        }
        self.release();
        false
    }

    /// Gives back a connection that was taken.
    pub(crate) fn release(&self) {
        if self.open.fetch_sub(1, Ordering::Relaxed) > self.descriptors.reserve {
            self.descriptors.beyond.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for ConnectionBudget {
    fn drop(&mut self) {
        let descriptors = &self.descriptors;
        let beyond = self.open.get_mut().saturating_sub(descriptors.reserve);
        descriptors.beyond.fetch_sub(beyond, Ordering::Relaxed);
        descriptors.listeners.fetch_sub(1, Ordering::Relaxed);
    }
}

impl DescriptorBudget {
    fn new(descriptors: u64) -> Self {
        let other = OTHER_DESCRIPTORS.min(descriptors / OTHER_PART);
        let connections_max = descriptors - other;
        Self {
            connections_max,
            reserve: RESERVE_MAX.min(connections_max / 2 / LISTENERS_USUAL),
            listeners: AtomicU64::new(0),
            beyond: AtomicU64::new(0),
        }
    }

    fn beyond_max(&self) -> u64 {
        let reserved = self.reserve * self.listeners.load(Ordering::Relaxed);
        self.connections_max.saturating_sub(reserved)
    }

    fn add_listener(shared: &Arc<Self>) -> ConnectionBudget {
        shared.listeners.fetch_add(1, Ordering::Relaxed);
        ConnectionBudget {
            descriptors: Arc::clone(shared),
            open: AtomicU64::new(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(budget: &ConnectionBudget) -> u64 {
        std::iter::repeat_with(|| budget.take())
            .take_while(|&taken| taken)
            .count() as u64
    }

    #[test]
    fn a_derived_limit_leaves_the_reserves_of_others() {
        assert_eq!(ConnectionsMax::default().number(400), 300 - 15 * 9);
        assert_eq!(
            ConnectionsMax::default().number(1 << 20),
            (1 << 20) - 128 - 15 * 32
        );
        assert_eq!(ConnectionsMax::from(7).number(400), 7);
    }

    #[test]
    fn no_listener_takes_the_reserve_of_another() {
        let descriptors = Arc::new(DescriptorBudget::new(400));
        let [greedy, modest, _third, _fourth] =
            [(); 4].map(|()| DescriptorBudget::add_listener(&descriptors));
        // 400 less 100 for other uses, of which three other listeners keep 9 each.
        assert_eq!(fill(&greedy), 300 - 3 * 9);
        assert_eq!(fill(&modest), 9);
        greedy.release();
        assert!(modest.take());
        assert!(!greedy.take());
        // The slots of a listener are free when it ends.
        drop(modest);
        assert_eq!(fill(&greedy), 10);
    }
}
