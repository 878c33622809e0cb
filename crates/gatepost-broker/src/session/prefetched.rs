//! Sessions in turn, with the memory of the next ones on its way into the cache.

use super::Session;
use crate::prefetch::prefetch;

/// The cache line of a session with its flags, its lock, and the length of its outbox.
pub(super) const FLAGS_LINE: usize = 0;
/// The cache line with the reference to its socket.
pub(super) const LINK_LINE: usize = 2;

/// Sessions whose memory is fetched at once: the processor walks their page tables at the same
/// time, while one prefetch waits for its own.
const PREFETCHED_AT_ONCE: usize = 8;

impl Session {
    /// Fetches what a delivery at QoS 0 uses of the session itself.
    fn prefetch(&self) {
        prefetch(self, FLAGS_LINE);
        prefetch(self, LINK_LINE);
    }

    /// Fetches the socket, after [`Session::prefetch`] has had time for the reference to it.
    fn prefetch_socket(&self) {
        if let Some(state) = self.state.try_lock()
            && let Some(link) = &state.link
        {
            prefetch(&*link.socket, 0);
        }
    }
}

/// Iterates over items with a session each, which is about to be written to.
pub(crate) fn prefetched<T>(items: &[T], session: fn(&T) -> &Session) -> impl Iterator<Item = &T> {
    let chunks = || items.chunks(PREFETCHED_AT_ONCE);
    let mut ahead = chunks().skip(1);
    chunks().flat_map(move |chunk| {
        for item in ahead.next().into_iter().flatten() {
            session(item).prefetch();
        }
        for item in chunk {
            session(item).prefetch_socket();
        }
        chunk
    })
}
