//! Work of a thread when patterns are first used: prefix filters, transitions of their automata,
//! compiled patterns.
//!
//! The work is counted where it is computed, so later uses do not count. Times are taken only
//! between [`FirstUses::begin_timing`] and [`FirstUses::end_timing`].

use std::cell::Cell;
use std::ops::AddAssign;
use std::time::{Duration, Instant};

/// The kind of work on first use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirstUse {
    /// A transition of the automaton of a prefix filter.
    Transition,
    /// The prefix filter of a pattern.
    Prefix,
    /// A pattern by an engine.
    Pattern,
}

/// The number of such computations, and their time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FirstUseCount {
    /// The number.
    pub count: u64,
    /// The time, if it was measured.
    pub time: Duration,
}

/// The work of this thread on first uses so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FirstUses {
    /// Transitions of the automata of prefix filters.
    pub transitions: FirstUseCount,
    /// Prefix filters of patterns.
    pub prefixes: FirstUseCount,
    /// Patterns that an engine compiled.
    pub patterns: FirstUseCount,
}

thread_local! {
    static USES: Cell<FirstUses> = const { Cell::new(FirstUses::NONE) };
    static IS_TIMED: Cell<bool> = const { Cell::new(false) };
}

impl FirstUseCount {
    const NONE: Self = Self {
        count: 0,
        time: Duration::ZERO,
    };

    fn add(&mut self, other: Self) {
        self.count += other.count;
        self.time += other.time;
    }

    fn since(self, earlier: Self) -> Self {
        Self {
            count: self.count.saturating_sub(earlier.count),
            time: self.time.saturating_sub(earlier.time),
        }
    }
}

impl FirstUses {
    const NONE: Self = Self {
        transitions: FirstUseCount::NONE,
        prefixes: FirstUseCount::NONE,
        patterns: FirstUseCount::NONE,
    };

    /// Starts measuring times on this thread; returns the earlier counts.
    pub fn begin_timing() -> Self {
        IS_TIMED.set(true);
        USES.get()
    }

    /// Stops measuring times; returns the counts since `before`.
    pub fn end_timing(before: Self) -> Self {
        IS_TIMED.set(false);
        let now = USES.get();
        Self {
            transitions: now.transitions.since(before.transitions),
            prefixes: now.prefixes.since(before.prefixes),
            patterns: now.patterns.since(before.patterns),
        }
    }
}

impl AddAssign for FirstUses {
    fn add_assign(&mut self, other: Self) {
        self.transitions.add(other.transitions);
        self.prefixes.add(other.prefixes);
        self.patterns.add(other.patterns);
    }
}

/// Counts a computation of this thread.
pub(crate) fn counted<T>(what: FirstUse, compute: impl FnOnce() -> T) -> T {
    let begun = IS_TIMED.get().then(Instant::now);
    let computed = compute();
    let mut uses = USES.get();
    let of_kind = match what {
        FirstUse::Transition => &mut uses.transitions,
        FirstUse::Prefix => &mut uses.prefixes,
        FirstUse::Pattern => &mut uses.patterns,
    };
    of_kind.count += 1;
    if let Some(begun) = begun {
        of_kind.time += begun.elapsed();
    }
    USES.set(uses);
    computed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pattern;

    #[test]
    fn only_first_uses_are_counted() {
        let pattern = Pattern::parse(b"/(?:a|b)[0-9]+x/").expect("a pattern");
        let find = || {
            let before = FirstUses::begin_timing();
            let _ = pattern.find(b"a1 b22x", 0, |_| true);
            FirstUses::end_timing(before)
        };
        let first = find();
        assert_eq!((first.prefixes.count, first.patterns.count), (1, 1));
        assert!(first.patterns.time > Duration::ZERO);
        let second = find();
        assert_eq!((second.prefixes.count, second.patterns.count), (0, 0));
        assert_eq!(second.transitions.count, 0);
    }
}
