//! Pages of 2 MB for the rules, and of 4 KB for short-lived memory.
//!
//! Every message reads rules all over their memory. With small pages the processor's TLB cannot
//! hold their addresses, and a message takes 7 % longer. Memory for a message is different: a large
//! page must be cleared when it is first touched, which takes a millisecond or more, and then holds
//! only one text of a large mail, or the first few blocks of a thread's size class. So the kernel
//! may back memory with huge pages while rules are loaded and warmed up, and not from then on.
//! Pages already given remain.
//!
//! If the kernel has none, or they are disabled for the process, nothing changes.

use std::sync::LazyLock;

use gatepost_rules::RulesSettings;
use parking_lot::Mutex;
use rustix::thread::{disable_transparent_huge_pages, transparent_huge_pages_are_disabled};

/// Whether huge pages are permitted, read before they are first disabled.
static ARE_ALLOWED: LazyLock<bool> =
    LazyLock::new(|| matches!(transparent_huge_pages_are_disabled(), Ok(false)));

/// The number of rule sets that are being loaded.
static MAKERS: Mutex<usize> = Mutex::new(0);

/// Disables huge pages, except while rules are loaded. To be called first of all.
pub(super) fn only_for_rules() {
    set(false);
}

/// Permits the kernel to use huge pages while rules are loaded, if the settings enable them, and
/// disables them afterwards.
pub(super) fn used_while<T>(settings: &RulesSettings, make: impl FnOnce() -> T) -> T {
    let _making = settings.huge_pages.then(Making::begin);
    make()
}

struct Making;

impl Making {
    fn begin() -> Self {
        let mut makers = MAKERS.lock();
        *makers += 1;
        set(true);
        Self
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        let mut makers = MAKERS.lock();
        *makers -= 1;
        if *makers == 0 {
            set(false);
        }
    }
}

fn set(are_used: bool) {
    if *ARE_ALLOWED && let Err(error) = disable_transparent_huge_pages(!are_used) {
        tracing::debug!(target: "rules", %error, "huge pages cannot be chosen");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_given_only_while_the_last_rules_are_made() {
        let settings = RulesSettings::default();
        let without = RulesSettings {
            huge_pages: false,
            ..RulesSettings::default()
        };
        let are_used = || !transparent_huge_pages_are_disabled().expect("asked");
        if !are_used() {
            // Disabled for the test process, they remain disabled.
            assert!(!used_while(&settings, are_used));
            return;
        }
        only_for_rules();
        assert!(!are_used());
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
