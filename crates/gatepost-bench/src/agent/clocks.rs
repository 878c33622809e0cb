//! The offset of another host's clock, and its uncertainty.
//!
//! Cristian's method: of many round trips, the shortest gives the best estimate. The remote times
//! lie between ours, so the offset is known to half of the round trip, even if the network is
//! slower in one direction.

use crate::clock::Nanoseconds;

/// The difference between an agent's clock and the conductor's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Offset {
    /// Its time minus ours, in nanoseconds.
    pub(super) offset_ns: i64,
    /// The uncertainty of the offset.
    pub(super) error_ns: u64,
}

/// The four times of one round trip: `ping_sent` and `pong_received` by our clock, the others by
/// the remote clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Exchange {
    pub(super) ping_sent: Nanoseconds,
    pub(super) received: Nanoseconds,
    pub(super) sent: Nanoseconds,
    pub(super) pong_received: Nanoseconds,
}

impl Exchange {
    fn offset(self) -> Offset {
        let there = signed(self.received, self.ping_sent);
        let back = signed(self.sent, self.pong_received);
        let held = self.sent.saturating_sub(self.received);
        let travelled = self
            .pong_received
            .saturating_sub(self.ping_sent)
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
    /// The best estimate from several round trips.
    pub(super) fn of(exchanges: &[Exchange]) -> Option<Self> {
        let all = exchanges.iter().map(|exchange| exchange.offset());
        all.min_by_key(|offset| offset.error_ns)
    }

    /// Adds the drift found by a second comparison after the run: by that much, the first offset
    /// was wrong at the end.
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
            travels in proptest::collection::vec(
                (0_u64..10_000_000, 0_u64..1_000_000, 0_u64..10_000_000),
                1..20,
            ),
        ) {
            let exchanges: Vec<Exchange> = travels.iter().map(|&(there, held, back)| {
                let ping_sent = 5_000_000_000_u64;
                let received = (ping_sent + there).wrapping_add_signed(true_offset);
                Exchange {
                    ping_sent,
                    received,
                    sent: received + held,
                    pong_received: ping_sent + there + held + back,
                }
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
