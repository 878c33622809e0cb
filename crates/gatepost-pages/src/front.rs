//! Each thread's own copies of what it was last asked for.
//!
//! The cache is shared by all threads, and that has a price at every hit: its lock and every count
//! of references are written, so their cache lines wander between the cores. A thread therefore
//! keeps what it hands out in copies whose counts are its own. The bytes are still shared.
//!
//! Invariants: a copy is handed out only while its entry is the path's, since whoever replaces or
//! forgets an entry retires it for all its copies ([`Checked`](crate::entry::Checked)); and a thread keeps no more than
//! [`COPIES_MAX`] of them, none larger than [`COPIED_BYTES_MAX`], so that what was forgotten
//! elsewhere does not stay in memory here.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use crate::entry::Entry;

/// Copies that a thread keeps.
const COPIES_MAX: usize = 64;
/// Larger ones are not kept twice: of what they cost, counting is a small part.
const COPIED_BYTES_MAX: usize = 512 << 10;

/// One site's copies on this thread.
struct Front {
    site: u64,
    copies: HashMap<Box<str>, Arc<Entry>>,
}

thread_local! {
    static FRONTS: RefCell<Vec<Front>> = const { RefCell::new(Vec::new()) };
}

/// This thread's copy of what a path of a site holds.
pub(crate) fn find(site: u64, path: &str) -> Option<Arc<Entry>> {
    FRONTS.with_borrow(|fronts| {
        let front = fronts.iter().find(|front| front.site == site)?;
        let copy = front.copies.get(path)?;
        (!copy.checked.is_retired()).then(|| Arc::clone(copy))
    })
}

/// Keeps a copy of the entry that the path holds, and gives it back; or the entry itself, where
/// no copy is worth it.
pub(crate) fn keep(site: u64, path: &str, entry: Arc<Entry>) -> Arc<Entry> {
    if entry.weight(path) > COPIED_BYTES_MAX {
        return entry;
    }
    let Some(copy) = entry.apart().map(Arc::new) else {
        return entry;
    };
    FRONTS.with_borrow_mut(|fronts| {
        let kept: usize = fronts.iter().map(|front| front.copies.len()).sum();
        if kept >= COPIES_MAX {
            // What is in use comes back with its next request.
            fronts.clear();
        }
        let known = fronts.iter().position(|front| front.site == site);
        let place = known.unwrap_or_else(|| {
            fronts.push(Front {
                site,
                copies: HashMap::new(),
            });
            fronts.len() - 1
        });
        if let Some(front) = fronts.get_mut(place) {
            front.copies.insert(path.into(), Arc::clone(&copy));
        }
    });
    copy
}
