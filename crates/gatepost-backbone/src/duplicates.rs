//! Detection of bundles that arrive twice.
//!
//! A NATS server sends a message once for each subscription that matches it, and filters may
//! overlap. Each bundle therefore has a number, and the receiver remembers the last ones.

use std::collections::HashMap;

use crate::encoding::BundleOrigin;

/// The bundles of one node that are remembered. A copy that is older than the newest one by more
/// counts as a repetition.
const WINDOW: u64 = 1 << 16;
const WORD_BITS: u64 = u64::BITS as u64;

/// The bundles that were received from each node.
#[derive(Default)]
pub(crate) struct Duplicates {
    by_node: HashMap<u8, BundleWindow>,
}

struct BundleWindow {
    run: u64,
    highest: u64,
    /// One bit for each of the last numbers.
    bits: Box<[u64]>,
}

impl BundleWindow {
    fn new(origin: BundleOrigin) -> Self {
        Self {
            run: origin.run,
            highest: origin.number,
            bits: vec![0; (WINDOW / WORD_BITS) as usize].into_boxed_slice(),
        }
    }

    fn bit(&mut self, number: u64) -> (&mut u64, u64) {
        let position = number % WINDOW;
        let word = &mut self.bits[(position / WORD_BITS) as usize];
        (word, 1 << (position % WORD_BITS))
    }

    /// Removes numbers that are too old once `number` is the newest.
    fn advance(&mut self, number: u64) {
        if number - self.highest >= WINDOW {
            self.bits.fill(0);
        } else {
            for passed in self.highest + 1..=number {
                let (word, bit) = self.bit(passed);
                *word &= !bit;
            }
        }
        self.highest = number;
    }
}

impl Duplicates {
    /// Notes a bundle; returns whether it is new.
    pub(crate) fn is_new(&mut self, origin: BundleOrigin) -> bool {
        let window = self.by_node.entry(origin.node);
        let window = window.or_insert_with(|| BundleWindow::new(origin));
        if origin.run < window.run {
            return false;
        }
        if origin.run > window.run {
            *window = BundleWindow::new(origin);
        }
        if origin.number > window.highest {
            window.advance(origin.number);
        } else if window.highest - origin.number >= WINDOW {
            return false;
        }
        let (word, bit) = window.bit(origin.number);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_is_new_once() {
        let mut duplicates = Duplicates::default();
        let mut is_new = |node, run, number| duplicates.is_new(BundleOrigin { node, run, number });
        assert!(is_new(1, 5, 10) && !is_new(1, 5, 10));
        assert!(is_new(1, 5, 12) && is_new(1, 5, 11) && !is_new(1, 5, 11));
        assert!(is_new(2, 5, 11), "another node");
        assert!(!is_new(1, 4, 13), "an earlier run");
        assert!(is_new(1, 6, 10) && !is_new(1, 6, 10), "a later run");
        assert!(is_new(1, 6, 10 + WINDOW), "the window moves on");
        assert!(!is_new(1, 6, 10), "too old");
        assert!(is_new(1, 6, 11) && !is_new(1, 6, 11));
        assert!(is_new(1, 6, 10 * WINDOW + 11), "a jump");
    }
}
