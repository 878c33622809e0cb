//! Detection of bundles that arrive twice.
//!
//! A NATS server sends a message once for each subscription that matches it, and filters may
//! overlap. Each bundle therefore has a number, and the receiver remembers the last ones.
//!
//! The numbers begin again with each run of a node. Copies from its previous run may still arrive
//! after the first bundles of the present one, so the last two runs are remembered. They are
//! distinguished by equality: a node whose clock was set back begins a run with a lower number.

use std::collections::HashMap;

use crate::encoding::BundleOrigin;

/// The bundles of one run of a node that are remembered. What is older than the newest one by more
/// is discarded.
const WINDOW: u64 = 1 << 16;
const WORD_BITS: u64 = u64::BITS as u64;

/// The bundles that were received from each node.
#[derive(Default)]
pub(crate) struct Duplicates {
    by_node: HashMap<u8, NodeWindows>,
}

/// The meaning of a bundle for its receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BundleArrival {
    /// It was not received before.
    New,
    /// It was received before.
    Repeated,
    /// Not known, since many later ones were received.
    TooOld,
}

/// The last two runs of a node from which bundles were received.
struct NodeWindows {
    present: BundleWindow,
    previous: Option<BundleWindow>,
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

    /// Notes a bundle of the window's run.
    fn note(&mut self, number: u64) -> BundleArrival {
        if number > self.highest {
            self.advance(number);
        } else if self.highest - number >= WINDOW {
            return BundleArrival::TooOld;
        }
        let (word, bit) = self.bit(number);
        let is_known = *word & bit != 0;
        *word |= bit;
        if is_known {
            BundleArrival::Repeated
        } else {
            BundleArrival::New
        }
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

impl NodeWindows {
    fn new(origin: BundleOrigin) -> Self {
        Self {
            present: BundleWindow::new(origin),
            previous: None,
        }
    }

    /// The window of a run, which is the present one from now on if it was not known.
    fn of(&mut self, origin: BundleOrigin) -> &mut BundleWindow {
        if self.present.run == origin.run {
            return &mut self.present;
        }
        let is_previous = |window: &BundleWindow| window.run == origin.run;
        if !self.previous.as_ref().is_some_and(is_previous) {
            let next = BundleWindow::new(origin);
            self.previous = Some(std::mem::replace(&mut self.present, next));
            return &mut self.present;
        }
        self.previous.as_mut().unwrap_or(&mut self.present)
    }
}

impl Duplicates {
    /// Notes a bundle.
    pub(crate) fn note(&mut self, origin: BundleOrigin) -> BundleArrival {
        let windows = self.by_node.entry(origin.node);
        let windows = windows.or_insert_with(|| NodeWindows::new(origin));
        windows.of(origin).note(origin.number)
    }
}

#[cfg(test)]
mod tests {
    use super::BundleArrival::{New, Repeated, TooOld};
    use super::*;

    #[test]
    fn a_bundle_is_new_once() {
        let mut duplicates = Duplicates::default();
        let mut note = |node, number| {
            let run = 5;
            duplicates.note(BundleOrigin { node, run, number })
        };
        assert_eq!((note(1, 10), note(1, 10)), (New, Repeated));
        assert_eq!(
            (note(1, 12), note(1, 11), note(1, 11)),
            (New, New, Repeated)
        );
        assert_eq!(note(2, 11), New, "another node");
        assert_eq!(note(1, 10 + WINDOW), New, "the window moves on");
        assert_eq!(note(1, 10), TooOld);
        assert_eq!((note(1, 11), note(1, 13)), (Repeated, New));
        assert_eq!(note(1, 10 * WINDOW + 11), New, "a jump");
        assert_eq!(note(1, 13), TooOld);
    }

    #[test]
    fn the_last_two_runs_are_told_apart_whatever_their_clocks_said() {
        let mut duplicates = Duplicates::default();
        let mut note = |run, number| {
            let node = 1;
            duplicates.note(BundleOrigin { node, run, number })
        };
        assert_eq!((note(5, 900), note(5, 901)), (New, New));
        assert_eq!(
            (note(4, 0), note(4, 0)),
            (New, Repeated),
            "an earlier clock"
        );
        assert_eq!(note(5, 901), Repeated, "a late copy of the previous run");
        assert_eq!((note(5, 902), note(4, 1)), (New, New));
        assert_eq!(
            (note(6, 0), note(4, 1), note(6, 0)),
            (New, Repeated, Repeated)
        );
    }
}
