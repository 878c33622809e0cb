//! Pages of 2 MB for the rules, and of 4 KB for short-lived memory.
//!
//! Every message reads rules all over their memory. With small pages the processor's TLB cannot
//! hold their addresses, and a message takes 7 % longer. Memory for a message is different: a large
//! page must be cleared when it is first touched, which takes a millisecond or more, and then holds
//! only one text of a large mail, or the first few blocks of a thread's size class. So the kernel
//! may back memory with huge pages while rules are loaded and warmed up, and at no other time.
//! Pages already given remain, so they are disabled before the allocator takes its first memory,
//! in a function that the loader calls before `main`. Commands enable them again.
//!
//! If the kernel has none, or they are disabled for the process, nothing changes.

// SAFETY of the module: the loader calls each function of `.init_array` once, on the only thread,
// after the program's own relocations. The one in this module makes two system calls without
// arguments in memory and stores a flag; it allocates nothing and uses nothing of the runtime.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};

use gatepost_rules::RulesSettings;
use parking_lot::Mutex;
use rustix::thread::disable_transparent_huge_pages;

/// Whether huge pages were permitted when the process started.
static ARE_ALLOWED: AtomicBool = AtomicBool::new(false);

/// Runs before the allocator's own function, whose priority is 101.
#[used]
#[unsafe(link_section = ".init_array.00099")]
static BEFORE_ALLOCATOR: extern "C" fn() = disable_at_first;

/// The number of permits in use: one for each rule set that is being loaded.
static PERMITS: Mutex<usize> = Mutex::new(0);

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
    set(true);
}

/// Permits the kernel to use huge pages while rules are loaded, if the settings enable them, and
/// disables them afterwards.
pub(super) fn used_while<T>(settings: &RulesSettings, make: impl FnOnce() -> T) -> T {
    let _permit = settings.huge_pages.then(HugePagesPermit::begin);
    make()
}

/// Permits huge pages until the last permit is dropped.
struct HugePagesPermit;

impl HugePagesPermit {
    fn begin() -> Self {
        let mut permits = PERMITS.lock();
        *permits += 1;
        set(true);
        Self
    }
}

impl Drop for HugePagesPermit {
    fn drop(&mut self) {
        let mut permits = PERMITS.lock();
        *permits -= 1;
        if *permits == 0 {
            set(false);
        }
    }
}

fn set(are_used: bool) {
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
    fn they_are_given_only_while_the_last_rules_are_made() {
        let settings = RulesSettings::default();
        let without = RulesSettings {
            huge_pages: false,
            ..RulesSettings::default()
        };
        let are_used = || !transparent_huge_pages_are_disabled().expect("asked");
        assert!(!are_used(), "disabled before the test began");
        if !ARE_ALLOWED.load(Ordering::Relaxed) {
            // Disabled for the test process, they remain disabled.
            assert!(!used_while(&settings, are_used));
            return;
        }
        assert!(!used_while(&without, are_used));
        let nested = || (used_while(&settings, are_used), are_used());
        let inner = used_while(&settings, nested);
        assert_eq!((inner, are_used()), ((true, true), false));
        assert!(used_while(&settings, are_used));
        let broken = || used_while(&settings, || panic!("not used"));
        assert!(std::panic::catch_unwind(broken).is_err());
        assert!(!are_used());
    }
}
