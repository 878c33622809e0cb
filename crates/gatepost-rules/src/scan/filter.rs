//! The prefilter of a list of rules, run within the time limit of a message.

use gatepost_pattern::{LiteralInfo, Pattern, Prefilter, PrefilterThresholds, SearchStopped};

use super::state::ScanState;
use crate::profile::{self, ScanStage};

/// The prefilter of a list of patterns, each with whether it has to run on every text.
pub(super) fn prefilter<'p>(
    patterns: impl ExactSizeIterator<Item = (&'p mut Pattern, bool)>,
    thresholds: PrefilterThresholds,
) -> Prefilter {
    if prefilters_are_on() {
        Prefilter::new(patterns, thresholds)
    } else {
        Prefilter::disabled(patterns.len() as u32)
    }
}

/// Passes the candidates of a text to a function, within the time of the message.
pub(super) fn candidates(
    prefilter: &Prefilter,
    text: &[u8],
    state: &mut ScanState,
    candidate: impl FnMut(&mut ScanState, LiteralInfo, usize),
) -> Result<(), SearchStopped> {
    state.begin_text();
    let _stage = profile::inside(ScanStage::Prefilter);
    profile::filtered(text.len());
    let keep_going = |state: &mut ScanState| !state.budget.is_spent(1);
    prefilter.search(text, state, keep_going, candidate)
}

#[cfg(not(test))]
fn prefilters_are_on() -> bool {
    true
}

#[cfg(test)]
thread_local! {
    static PREFILTERS_ARE_ON: std::cell::Cell<bool> = const { std::cell::Cell::new(true) };
}

#[cfg(test)]
fn prefilters_are_on() -> bool {
    PREFILTERS_ARE_ON.get()
}

/// Builds rule sets in which every pattern runs on every text, for comparison.
#[cfg(test)]
pub(super) fn without_prefilters<T>(make: impl FnOnce() -> T) -> T {
    PREFILTERS_ARE_ON.set(false);
    let made = make();
    PREFILTERS_ARE_ON.set(true);
    made
}
