//! Removed keys of the engine's buckets. A removed key has a message that says so, for a while.

use async_nats::HeaderMap;

/// The header by which a client marks a removed key.
pub(crate) const OPERATION: &str = "KV-Operation";
/// The header by which the engine marks a key whose time is over.
const MARKER: &str = "Nats-Marker-Reason";

/// Whether a message of a bucket says that its key was removed.
pub(crate) fn is_removal(headers: Option<&HeaderMap>) -> bool {
    headers.is_some_and(|headers| {
        let marks = [OPERATION, MARKER];
        marks.into_iter().any(|mark| headers.get(mark).is_some())
    })
}
