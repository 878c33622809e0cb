//! How far a host's clock is from ours, and how well that is known.
//!
//! Cristian's method: of many questions the one with the shortest round trip says most. The
//! answer's times lie between ours, so the offset is known to half the round trip, whichever way
//! the network is slower.

use crate::clock::Nanoseconds;

/// A clock compared with the conductor's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Offset {
    /// Its time minus ours, in nanoseconds.
    pub(super) offset_ns: i64,
    /// By how much that may be wrong.
    pub(super) error_ns: u64,
}

/// The four times of one question: asked and answered by our clock, between them by the other's.
#[derive(Debug, Clone, Copy)]
pub(super) struct Exchange {
    pub(super) asked: Nanoseconds,
    pub(super) received: Nanoseconds,
    pub(super) sent: Nanoseconds,
    pub(super) answered: Nanoseconds,
}

impl Exchange {
    fn offset(self) -> Offset {
        let there = signed(self.received, self.asked);
        let back = signed(self.sent, self.answered);
        let held = self.sent.saturating_sub(self.received);
        let travelled = self
            .answered
            .saturating_sub(self.asked)
            .saturating_sub(held);
        Offset {
            offset_ns: i64::midpoint(there, back),
            error_ns: travelled.div_ceil(2),
        }
    }
}

fn signed(one: Nanoseconds, other: Nanoseconds) -> i64 {
    one.wrapping_sub(other).cast_signed()
}

impl Offset {
    /// The best that the exchanges say.
    pub(super) fn of(exchanges: &[Exchange]) -> Option<Self> {
        let all = exchanges.iter().map(|exchange| exchange.offset());
        all.min_by_key(|offset| offset.error_ns)
    }

    /// Compared again later: the clocks may have drifted apart meanwhile, and by that much the
    /// first offset was wrong in the end.
    #[must_use]
    pub(super) fn widened_by(self, later: Self) -> Self {
        let drift = self.offset_ns.abs_diff(later.offset_ns);
        Self {
            error_ns: self.error_ns.max(later.error_ns) + drift,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_true_offset_lies_within_the_error(
            true_offset in -1_000_000_000_i64..1_000_000_000,
            travels in proptest::collection::vec((0_u64..10_000_000, 0_u64..1_000_000, 0_u64..10_000_000), 1..20),
        ) {
            let exchanges: Vec<Exchange> = travels.iter().map(|&(there, held, back)| {
                let asked = 5_000_000_000_u64;
                let received = (asked + there).wrapping_add_signed(true_offset);
                Exchange { asked, received, sent: received + held, answered: asked + there + held + back }
            }).collect();
            let found = Offset::of(&exchanges).expect("an offset");
            prop_assert!(found.offset_ns.abs_diff(true_offset) <= found.error_ns);
            let shortest = travels.iter().map(|(there, _, back)| there + back).min().unwrap_or(0);
            prop_assert!(found.error_ns <= shortest.div_ceil(2));
        }
    }

    #[test]
    fn drift_widens_the_error() {
        let first = Offset {
            offset_ns: 1_000,
            error_ns: 50,
        };
        let later = Offset {
            offset_ns: 1_300,
            error_ns: 70,
        };
        assert_eq!(
            first.widened_by(later),
            Offset {
                offset_ns: 1_000,
                error_ns: 370
            }
        );
    }
}
