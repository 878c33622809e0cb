//! Pages of 2 MB for the rules, and of 4 KB for all other memory.
//!
//! Every message reads rules all over their memory. With small pages the processor's TLB cannot
//! hold their addresses, and a message takes 7 % longer. Memory for a message is different: a large
//! page must be cleared when it is first touched, which takes a millisecond or more, and then holds
//! only one text of a large mail, or the first few blocks of a thread's size class. So huge pages
//! are disabled before the allocator takes its first memory, in a function that the loader calls
//! before `main`. Commands enable them again.
//!
//! When rules have been loaded and warmed up, and what that freed is returned, the ranges of 2 MB
//! that it has filled for the most part are backed by one page each. Sparse ranges keep their small
//! pages: huge pages for all memory of the loading held up to 40 MB without content.
//!
//! If the kernel cannot (before Linux 6.1), or huge pages are disabled for the process, nothing
//! changes.

// SAFETY of the module: the loader calls each function of `.init_array` once, on the only thread,
// after the program's own relocations. The one in this module makes two system calls without
// arguments in memory and stores a flag; it allocates nothing and uses nothing of the runtime.
// `mincore` and `MADV_COLLAPSE` change no content of memory, whatever the range is by then: the
// first writes one byte for each page into a buffer of that length, the second moves the content.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::fs;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use gatepost_rules::RulesSettings;
use parking_lot::Mutex;
use rustix::thread::disable_transparent_huge_pages;

/// The size of a huge page where small pages have [`SMALL_PAGE_BYTES`]; nothing is done elsewhere.
const HUGE_PAGE_BYTES: usize = 2 << 20;
const SMALL_PAGE_BYTES: usize = 4096;
const SMALL_PAGES: usize = HUGE_PAGE_BYTES / SMALL_PAGE_BYTES;

/// The number of small pages in use from which a range gets a huge page: three quarters, so that
/// huge pages add a third at most.
const FILLED_PAGES_MIN: usize = SMALL_PAGES / 4 * 3;

/// Whether huge pages were permitted when the process started.
static ARE_ALLOWED: AtomicBool = AtomicBool::new(false);

/// Runs before the allocator's own function, whose priority is 101.
#[used]
#[unsafe(link_section = ".init_array.00099")]
static BEFORE_ALLOCATOR: extern "C" fn() = disable_at_first;

/// Held while huge pages are permitted.
static PERMIT: Mutex<()> = Mutex::new(());

extern "C" fn disable_at_first() {
    // SAFETY: see the module; these operations read no memory.
    let is_allowed = unsafe { libc::prctl(libc::PR_GET_THP_DISABLE, 0, 0, 0, 0) } == 0;
    if is_allowed {
        ARE_ALLOWED.store(true, Ordering::Relaxed);
        // SAFETY: as above. A failure leaves huge pages enabled.
        unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
    }
}

/// Permits huge pages for a command that is no server: it ends soon, or scans many messages.
pub(crate) fn for_a_command() {
    permit(true);
}

/// The memory in use before rules were loaded, by ranges of 2 MB.
pub(super) struct MemoryBefore(Option<UsedPages>);

/// The number of small pages in use, by the start of their range.
type UsedPages = HashMap<usize, usize>;

impl MemoryBefore {
    /// Observes the memory, if the settings enable huge pages and the process may use them.
    pub(super) fn observe(settings: &RulesSettings) -> Self {
        let is_usable = settings.huge_pages
            && ARE_ALLOWED.load(Ordering::Relaxed)
            && rustix::param::page_size() == SMALL_PAGE_BYTES;
        Self(is_usable.then(used_pages))
    }

    /// Backs the ranges that have been filled since then by huge pages, and returns their number.
    /// To be called after free memory was returned.
    pub(super) fn back_filled_ranges(&self) -> usize {
        let Some(before) = &self.0 else { return 0 };
        let filled = filled_since(before, &used_pages());
        let _permit = PERMIT.lock();
        permit(true);
        let backed = filled.into_iter().filter(|&start| back(start)).count();
        permit(false);
        tracing::debug!(target: "rules", "{backed} huge pages");
        backed
    }
}

/// The ranges that are filled now and were emptier before.
fn filled_since(before: &UsedPages, now: &UsedPages) -> Vec<usize> {
    let is_filled = |(start, pages): (&usize, &usize)| {
        let earlier = before.get(start).copied().unwrap_or(0);
        (*pages >= FILLED_PAGES_MIN && earlier < *pages).then_some(*start)
    };
    now.iter().filter_map(is_filled).collect()
}

/// The ranges of the process's anonymous memory, without those that are not used.
fn used_pages() -> UsedPages {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let ranges = maps.lines().filter_map(anonymous_mapping).flat_map(|map| {
        let first = map.start.next_multiple_of(HUGE_PAGE_BYTES);
        let whole = first..map.end.saturating_sub(HUGE_PAGE_BYTES - 1);
        whole.step_by(HUGE_PAGE_BYTES)
    });
    let used = ranges.filter_map(|start| Some((start, pages_in_use(start)?)));
    used.filter(|&(_, pages)| pages > 0).collect()
}

/// The addresses of a line of `/proc/self/maps`, if it is memory of no file that may be written:
/// `7f0000000000-7f0000200000 rw-p 00000000 00:00 0`, and a name that the kernel gave.
fn anonymous_mapping(line: &str) -> Option<Range<usize>> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let is_private = fields.next()? == "rw-p";
    let is_anonymous = fields.nth(2)? == "0";
    let is_stack = fields.next() == Some("[stack]");
    let address = |text| usize::from_str_radix(text, 16).ok();
    let range = address(start)?..address(end)?;
    (is_private && is_anonymous && !is_stack).then_some(range)
}

/// The number of small pages in use of a range, unless it is not mapped any more.
fn pages_in_use(start: usize) -> Option<usize> {
    let mut pages = [0_u8; SMALL_PAGES];
    // SAFETY: see the module.
    let outcome =
        unsafe { libc::mincore(start as *mut _, HUGE_PAGE_BYTES, pages.as_mut_ptr().cast()) };
    (outcome == 0).then(|| pages.iter().filter(|&&page| page & 1 == 1).count())
}

/// Backs a range by a huge page; false if the kernel cannot, or has none.
fn back(start: usize) -> bool {
    // SAFETY: see the module.
    unsafe { libc::madvise(start as *mut _, HUGE_PAGE_BYTES, libc::MADV_COLLAPSE) == 0 }
}

fn permit(are_used: bool) {
    let are_allowed = ARE_ALLOWED.load(Ordering::Relaxed);
    if are_allowed && let Err(error) = disable_transparent_huge_pages(!are_used) {
        tracing::debug!(target: "rules", %error, "huge pages cannot be chosen");
    }
}

#[cfg(test)]
mod tests {
    use rustix::thread::transparent_huge_pages_are_disabled;

    use super::*;

    #[test]
    fn lines_of_anonymous_memory_are_recognised() {
        let cases = [
            ("7f00-7f10 rw-p 00000000 00:00 0", Some(0x7f00..0x7f10)),
            (
                "7f00-7f10 rw-p 00000000 00:00 0    [heap]",
                Some(0x7f00..0x7f10),
            ),
            (
                "7f00-7f10 rw-p 00000000 00:00 0    [anon:arena]",
                Some(0x7f00..0x7f10),
            ),
            ("7f00-7f10 rw-p 00000000 00:00 0    [stack]", None),
            ("7f00-7f10 r--p 00000000 00:00 0", None),
            ("7f00-7f10 rw-s 00000000 00:00 0", None),
            (
                "7f00-7f10 rw-p 00000000 fe:00 77    /usr/lib/libc.so.6",
                None,
            ),
            ("", None),
            ("x-y rw-p 00000000 00:00 0", None),
        ];
        for (line, expected) in cases {
            assert_eq!(anonymous_mapping(line), expected, "{line}");
        }
    }

    #[test]
    fn ranges_are_chosen_that_were_filled_meanwhile() {
        let pages = |pairs: &[(usize, usize)]| pairs.iter().copied().collect::<UsedPages>();
        let before = pages(&[(2, SMALL_PAGES), (4, 3), (6, 100)]);
        let now = pages(&[
            (2, SMALL_PAGES),
            (4, FILLED_PAGES_MIN),
            (6, FILLED_PAGES_MIN - 1),
            (8, SMALL_PAGES),
        ]);
        let mut filled = filled_since(&before, &now);
        filled.sort_unstable();
        assert_eq!(filled, [4, 8]);
    }

    #[test]
    fn memory_keeps_its_content_and_huge_pages_are_disabled_afterwards() {
        let are_used = || !transparent_huge_pages_are_disabled().expect("asked");
        assert!(!are_used(), "disabled before the test began");
        let settings = RulesSettings::default();
        let before = MemoryBefore::observe(&settings);
        let filled: Vec<u32> = (0..4_000_000).collect();
        let backed = before.back_filled_ranges();
        assert!(filled.iter().copied().eq(0..4_000_000));
        assert!(!are_used());
        assert!(backed == 0 || ARE_ALLOWED.load(Ordering::Relaxed));
    }

    #[test]
    fn nothing_is_observed_without_the_setting() {
        let settings = RulesSettings {
            huge_pages: false,
            ..RulesSettings::default()
        };
        assert!(MemoryBefore::observe(&settings).0.is_none());
    }
}
