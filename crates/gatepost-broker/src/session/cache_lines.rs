//! The cache lines of a session that a delivery at QoS 0 uses, fetched before it.

use super::Session;
use crate::prefetch::{Prefetch, prefetch};

/// The cache line of a session with its flags, its lock, and the length of its outbox.
pub(super) const FLAGS_LINE: usize = 0;
/// The cache line with the reference to its socket.
pub(super) const LINK_LINE: usize = 2;

impl Prefetch for Session {
    fn prefetch(&self) {
        prefetch(self, FLAGS_LINE);
        prefetch(self, LINK_LINE);
    }

    fn prefetch_referents(&self) {
        if let Some(state) = self.state.try_lock()
            && let Some(link) = &state.link
        {
            prefetch(&*link.socket, 0);
        }
    }
}
