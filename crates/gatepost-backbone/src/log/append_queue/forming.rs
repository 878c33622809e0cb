//! The forming of entries: how many of the publications that wait share one.

use std::collections::VecDeque;

use super::append::{Append, Readiness};
use super::log_entry::LogEntry;
use crate::encoding::{self, BundleOrigin};
use crate::log::entry;
use crate::log::identity::LogIdentity;

/// The length up to which an entry accepts further publications. An append costs the engine about
/// a millisecond of processor time, whatever its length.
pub(crate) const ENTRY_BYTES_MAX: usize = 128 * 1024;
/// The publications of an entry.
const ENTRY_PUBLICATIONS_MAX: usize = 256;

/// The bounds of the next entries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EntryLimits {
    /// The entries that are sent together, if they are kept in the database.
    pub(crate) entries: usize,
    /// The length up to which an entry accepts further publications.
    pub(crate) entry_bytes: usize,
}

/// Forms an entry of the first publications.
pub(super) fn form(
    waiting: &mut VecDeque<Append>,
    bytes_max: usize,
    origin: impl FnOnce() -> BundleOrigin,
) -> Option<LogEntry> {
    let first = waiting.front()?;
    let origin = origin();
    let is_kept = first.deadline.is_none();
    let kept = first.publications.first().filter(|_| is_kept);
    let kept = kept.map(LogIdentity::of);
    let id = match &kept {
        Some(kept) => kept.message_id(),
        None => format!("{}-{:x}-{:x}", origin.node, origin.run, origin.number),
    };
    let mut entry = LogEntry::new(id, kept, first.deadline);
    let mut buffer = encoding::begin(origin);
    while let Some(append) = waiting.front_mut() {
        let is_ready = matches!(append.readiness(), Readiness::Ready);
        if !is_ready || append.deadline.is_none() != is_kept {
            break;
        }
        let mut taken = 0;
        while let Some(next) = append.publications.get(taken) {
            let weight = entry::weight(next);
            let has_room = !is_kept
                && entry.publications < ENTRY_PUBLICATIONS_MAX
                && buffer.len() + weight <= bytes_max;
            if entry.publications > 0 && !has_room {
                break;
            }
            entry::push(&mut buffer, next, is_kept);
            entry.note(&append.pending, weight);
            taken += 1;
        }
        append.publications.drain(..taken);
        if !append.publications.is_empty() {
            break;
        }
        waiting.pop_front();
    }
    entry.bytes = buffer.freeze();
    Some(entry)
}
