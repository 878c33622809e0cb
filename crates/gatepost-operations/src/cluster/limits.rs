//! Limits of questions between nodes, in size and time.

use std::time::Duration;

/// The time after which a search for another node returns the matches found so far. The answer has
/// to be there in half a second.
pub(super) const SEARCH_TIME_MAX: Duration = Duration::from_millis(250);
/// The longest wait for each part of an answer that a node reads from its database.
pub(super) const READ_WAIT_MAX: Duration = Duration::from_millis(500);
/// The longest wait for an action, which may wait for the server of the next hop.
pub(super) const ACTION_WAIT_MAX: Duration = Duration::from_secs(30);
/// The most entries of an answer, as the listener permits.
pub(super) const ENTRIES_MAX: usize = 1_000;
/// The bytes after which an answer accepts no further entries of the journal.
pub(super) const PAGE_BYTES_MAX: usize = 4 << 20;
/// The largest message that is sent to another node.
pub(super) const ORIGINAL_BYTES_MAX: usize = 30 << 20;
/// The most messages of a list of several nodes, up to the end of the page.
pub(super) const MERGED_MAX: usize = 20_000;
