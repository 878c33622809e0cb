//! Each thread's own copies of the entries that it served last.
//!
//! All threads share the cache, which has a cost at every hit: its lock and every reference count
//! are written, so their cache lines move between the cores. A thread therefore keeps copies of the
//! entries that it serves, with reference counts of their own. The bytes are still shared.
//!
//! Invariants: a copy is used only while its entry is the path's current one, since replacing or
//! removing an entry retires all its copies ([`CheckTime`](crate::entry::CheckTime)); and a thread
//! keeps at most [`COPIES_MAX`] of them, none larger than [`COPIED_BYTES_MAX`], so that removed
//! content does not stay in memory.

use std::cell::RefCell;
use std::sync::Arc;

use hashbrown::HashMap;

use crate::entry::CachedPath;

/// The most copies of a thread.
const COPIES_MAX: usize = 64;
/// Larger entries are not copied: reference counting is a small part of their cost.
const COPIED_BYTES_MAX: usize = 512 << 10;

/// One site's copies on this thread.
struct SiteCopies {
    site: u64,
    /// With the fast hash of hashbrown: no client can fill it with paths that collide, since only
    /// paths that exist are in it, and few of them.
    copies: HashMap<Box<str>, Arc<CachedPath>>,
}

thread_local! {
    static FRONTS: RefCell<Vec<SiteCopies>> = const { RefCell::new(Vec::new()) };
}

/// This thread's copy of the entry of a path.
pub(crate) fn find(site: u64, path: &str) -> Option<Arc<CachedPath>> {
    FRONTS.with_borrow(|fronts| {
        let front = fronts.iter().find(|front| front.site == site)?;
        let copy = front.copies.get(path)?;
        (!copy.checked.is_retired()).then(|| Arc::clone(copy))
    })
}

/// Copies the path's entry and returns the copy; or the entry itself, if a copy is not worthwhile.
pub(crate) fn keep(site: u64, path: &str, entry: Arc<CachedPath>) -> Arc<CachedPath> {
    if entry.weight(path) > COPIED_BYTES_MAX {
        return entry;
    }
    let Some(copy) = entry.unshared_copy().map(Arc::new) else {
        return entry;
    };
    FRONTS.with_borrow_mut(|fronts| {
        let kept: usize = fronts.iter().map(|front| front.copies.len()).sum();
        if kept >= COPIES_MAX {
            // Copies that are in use are made again by their next request.
            fronts.clear();
        }
        let known = fronts.iter().position(|front| front.site == site);
        let place = known.unwrap_or_else(|| {
            fronts.push(SiteCopies {
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
