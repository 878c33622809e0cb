//! Pages of 2 MB for the rules, and of 4 KB for what comes and goes.
//!
//! Rules are read all over for every message. In small pages the processor's own table of pages cannot
//! hold them, and a message takes 7 % longer. What is made for a message is of another kind: a large
//! page must be cleared when it is first touched, for a millisecond or more, and then holds one text of
//! a large mail, or the first few blocks of a size that a thread uses. So the kernel may back memory with
//! huge pages while rules are loaded and warmed up, and not from then on. What it has given stays.
//!
//! Where the kernel gives none, or whoever started the program has forbidden them, nothing changes.

use parking_lot::Mutex;
use rustix::thread::{disable_transparent_huge_pages, transparent_huge_pages_are_disabled};

struct State {
    /// Before it was asked, the kernel may give huge pages or not.
    is_ours: Option<bool>,
    /// How many rule sets are being made.
    makers: usize,
}

static STATE: Mutex<State> = Mutex::new(State {
    is_ours: None,
    makers: 0,
});

/// Lets the kernel use huge pages while rules are made, and afterwards small ones.
pub(super) fn used_while<T>(make: impl FnOnce() -> T) -> T {
    let _making = Making::begin();
    make()
}

struct Making;

impl Making {
    fn begin() -> Self {
        let mut state = STATE.lock();
        state.makers += 1;
        let is_ours = *state
            .is_ours
            .get_or_insert_with(|| matches!(transparent_huge_pages_are_disabled(), Ok(false)));
        set(is_ours, true);
        Self
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        let mut state = STATE.lock();
        state.makers -= 1;
        if state.makers == 0 {
            set(state.is_ours == Some(true), false);
        }
    }
}

fn set(is_ours: bool, are_used: bool) {
    if is_ours && let Err(error) = disable_transparent_huge_pages(!are_used) {
        tracing::debug!(target: "rules", %error, "huge pages cannot be chosen");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_given_only_while_the_last_rules_are_made() {
        let are_used = || !transparent_huge_pages_are_disabled().expect("asked");
        if !are_used() {
            // Forbidden by whoever runs the tests: they stay forbidden.
            assert!(!used_while(are_used));
            return;
        }
        let inner = used_while(|| (used_while(are_used), are_used()));
        assert_eq!((inner, are_used()), ((true, true), false));
        assert!(used_while(are_used));
        assert!(std::panic::catch_unwind(|| used_while(|| panic!("in vain"))).is_err());
        assert!(!are_used());
    }
}
