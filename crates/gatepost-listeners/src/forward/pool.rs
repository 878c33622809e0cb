//! Idle connections to next hops, kept for the next message.
//!
//! Each worker thread has its own, since a socket belongs to its thread's reactor: no lock, and
//! no wake-up across threads.

use std::cell::RefCell;

use tokio::time::Instant;

use super::ForwardSettings;
use super::hop::HopConnection;
use super::next_hop::NextHop;

struct IdleHop {
    next_hop: NextHop,
    /// The settings that the connection was opened with: other listeners may require more of the
    /// same next hop.
    settings: ForwardSettings,
    hop: HopConnection,
    since: Instant,
}

thread_local! {
    static IDLE: RefCell<Vec<IdleHop>> = const { RefCell::new(Vec::new()) };
}

/// An idle connection to this next hop, the one used last.
pub(super) fn take(next_hop: &NextHop, settings: &ForwardSettings) -> Option<HopConnection> {
    IDLE.with_borrow_mut(|idle| {
        let limit = settings.idle_time_max.duration();
        idle.retain(|one| one.since.elapsed() < limit);
        loop {
            let place = idle
                .iter()
                .rposition(|one| one.next_hop == *next_hop && one.settings == *settings)?;
            let mut hop = idle.remove(place).hop;
            if !hop.has_spoken() {
                return Some(hop);
            }
        }
    })
}

/// Keeps a connection whose transaction has ended.
pub(super) fn put(next_hop: &NextHop, hop: HopConnection, settings: &ForwardSettings) {
    IDLE.with_borrow_mut(|idle| {
        let limit = settings.idle_time_max.duration();
        idle.retain(|one| one.since.elapsed() < limit);
        if idle.len() >= settings.idle_connections_max {
            if idle.is_empty() {
                return;
            }
            idle.remove(0);
        }
        idle.push(IdleHop {
            next_hop: next_hop.clone(),
            settings: settings.clone(),
            hop,
            since: Instant::now(),
        });
    });
}
