//! Pages of 2 MB for the rules, and of 4 KB for what comes and goes.
//!
//! Rules are read all over for every message. In small pages the processor's own table of pages
//! cannot hold them, and a message takes 7 % longer. What is made for a message is of another kind:
//! a large page must be cleared when it is first touched, for a millisecond or more, and then holds
//! one text of a large mail, or the first few blocks of a size that a thread uses. So the kernel
//! may back memory with huge pages while rules are loaded and warmed up, and not from then on. What
//! it has given stays.
//!
//! If the kernel has none, or they are disabled for the process, nothing changes.

use std::sync::LazyLock;

use gatepost_rules::RulesSettings;
use parking_lot::Mutex;
use rustix::thread::{disable_transparent_huge_pages, transparent_huge_pages_are_disabled};

/// Whether huge pages are permitted, read before they are first disabled.
static ARE_ALLOWED: LazyLock<bool> =
    LazyLock::new(|| matches!(transparent_huge_pages_are_disabled(), Ok(false)));

/// The number of rule sets that are being made.
static MAKERS: Mutex<usize> = Mutex::new(0);

/// From here on memory comes in small pages, unless rules are made. To be called first of all.
pub(super) fn only_for_rules() {
    set(false);
}

/// Lets the kernel use huge pages while rules are made, if the settings want them, and afterwards
/// small ones.
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
            // Disabled for the test process: they stay disabled.
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
        let broken = || used_while(&settings, || panic!("in vain"));
        assert!(std::panic::catch_unwind(broken).is_err());
        assert!(!are_used());
    }
}
