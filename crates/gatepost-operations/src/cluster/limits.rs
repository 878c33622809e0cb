//! Limits of questions between nodes, in size and time.

use std::time::Duration;

/// The time after which a search for another node returns the matches found so far. The answer has
/// to be there in half a second.
pub(super) const SEARCH_TIME_MAX: Duration = Duration::from_millis(250);
/// The most entries of an answer, as the listener permits.
pub(super) const ENTRIES_MAX: usize = 1_000;
/// The bytes after which an answer accepts no further entries of the journal.
pub(super) const PAGE_BYTES_MAX: usize = 4 << 20;
