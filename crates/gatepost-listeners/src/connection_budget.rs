//! The file descriptors of the process, divided among its listeners.
//!
//! Each connection takes a descriptor, and so do the database, log files and connections to other
//! servers. Without a division the idle clients of one listener would use up all descriptors, and
//! no other listener could accept. Each listener has a reserve that no other can take; what is
//! beyond the reserves is open to all.
//!
//! Descriptors belong to the process, and so does this count.

use std::sync::Arc;

use parking_lot::Mutex;
use rustix::process::{Resource, getrlimit};

/// Descriptors that connections never take: database, logs, pages, next hops, name servers.
const OTHER_DESCRIPTORS: u64 = 128;
/// Of few descriptors at most this part is kept for other uses.
const OTHER_PART: u64 = 4;
/// Connections that each listener can always have; fewer where descriptors are few.
const RESERVE_MAX: u64 = 32;

static PROCESS: Mutex<Option<Arc<Descriptors>>> = Mutex::new(None);

/// The connections that all listeners may have open together.
#[derive(Debug)]
struct Descriptors {
    connections_max: u64,
    /// The open connections of each listener, by its number.
    open: Mutex<Vec<Option<u64>>>,
}

/// One listener's part in the descriptors. Dropping it gives up its reserve.
#[derive(Debug)]
pub(crate) struct ConnectionBudget {
    descriptors: Arc<Descriptors>,
    listener: usize,
}

impl ConnectionBudget {
    /// For one more listener of this process.
    pub(crate) fn for_listener() -> Self {
        let mut process = PROCESS.lock();
        let descriptors = process.get_or_insert_with(|| {
            let limit = getrlimit(Resource::Nofile).current;
            Arc::new(Descriptors::new(limit.unwrap_or(u64::MAX)))
        });
        Descriptors::add_listener(descriptors)
    }

    /// Whether the listener may have one more connection; [`release`](Self::release) gives it back.
    pub(crate) fn take(&self) -> bool {
        let mut open = self.descriptors.open.lock();
        let listeners = open.iter().flatten().count() as u64;
        // Half of all descriptors at most is reserved.
        let max = self.descriptors.connections_max;
        let reserve = RESERVE_MAX.min(max / 2 / listeners.max(1));
        let own = open.get(self.listener).copied().flatten().unwrap_or(0);
        if own >= reserve {
            let beyond = |open: &u64| open.saturating_sub(reserve);
            let in_use: u64 = open.iter().flatten().map(beyond).sum();
            if in_use >= max.saturating_sub(reserve * listeners) {
                return false;
            }
        }
        if let Some(own) = open.get_mut(self.listener).and_then(Option::as_mut) {
            *own += 1;
        }
        true
    }

    /// Gives back a connection that was taken.
    pub(crate) fn release(&self) {
        let mut open = self.descriptors.open.lock();
        if let Some(own) = open.get_mut(self.listener).and_then(Option::as_mut) {
            *own = own.saturating_sub(1);
        }
    }
}

impl Drop for ConnectionBudget {
    fn drop(&mut self) {
        if let Some(own) = self.descriptors.open.lock().get_mut(self.listener) {
            *own = None;
        }
    }
}

impl Descriptors {
    fn new(descriptors: u64) -> Self {
        let other = OTHER_DESCRIPTORS.min(descriptors / OTHER_PART);
        Self {
            connections_max: descriptors - other,
            open: Mutex::default(),
        }
    }

    fn add_listener(shared: &Arc<Self>) -> ConnectionBudget {
        let mut open = shared.open.lock();
        let free = open.iter().position(Option::is_none);
        let listener = free.unwrap_or_else(|| {
            open.push(None);
            open.len() - 1
        });
        if let Some(own) = open.get_mut(listener) {
            *own = Some(0);
        }
        ConnectionBudget {
            descriptors: Arc::clone(shared),
            listener,
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
    fn no_listener_takes_the_reserve_of_another() {
        let descriptors = Arc::new(Descriptors::new(400));
        let [greedy, modest, _third, _fourth] =
            [(); 4].map(|()| Descriptors::add_listener(&descriptors));
        // 400 less 100 for other uses, of which three other listeners keep 32 each.
        assert_eq!(fill(&greedy), 300 - 3 * 32);
        assert_eq!(fill(&modest), 32);
        greedy.release();
        assert!(modest.take());
        assert!(!greedy.take());
        // What a listener held is free when it ends.
        drop(modest);
        assert_eq!(fill(&greedy), 33);
    }
}
