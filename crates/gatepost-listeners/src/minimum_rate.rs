//! The minimum rate at which a peer must send a message and read a response.
//!
//! A limit on pauses alone is not a bound: a peer that moves one byte within each pause can hold a
//! connection indefinitely. So each transfer also has an absolute deadline, which moves only as
//! fast as bytes do at the minimum rate.

use std::time::Duration;

use tokio::time::Instant;

/// The progress of one body, in either direction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MinimumRate {
    began: Instant,
    pause_max: Duration,
    bytes_per_second_min: u64,
    moved: u64,
}

impl MinimumRate {
    /// The progress of a body that began then; with 0 bytes per second only the pause is limited.
    pub(crate) const fn new(
        began: Instant,
        pause_max: Duration,
        bytes_per_second_min: u64,
    ) -> Self {
        Self {
            began,
            pause_max,
            bytes_per_second_min,
            moved: 0,
        }
    }

    /// Records that bytes have arrived, or were read by the peer.
    pub(crate) const fn add(&mut self, bytes: usize) {
        self.moved += bytes as u64;
    }

    /// The deadline for the next bytes, as of `now`.
    pub(crate) fn deadline(&self, now: Instant) -> Instant {
        let pause_ends = now + self.pause_max;
        match self.moved.checked_mul(1_000) {
            Some(thousandths) if self.bytes_per_second_min > 0 => {
                let earned = Duration::from_millis(thousandths / self.bytes_per_second_min);
                pause_ends.min(self.began + self.pause_max + earned)
            }
            _ => pause_ends,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trickle_ends_at_the_deadline_and_a_steady_flow_does_not() {
        let pause = Duration::from_secs(30);
        let began = Instant::now();
        let mut trickle = MinimumRate::new(began, pause, 1_000);
        let mut steady = MinimumRate::new(began, pause, 1_000);
        let mut now = began;
        for _ in 0..20 {
            now += Duration::from_secs(10);
            trickle.add(1);
            steady.add(10_000);
        }
        assert!(trickle.deadline(now) < began + Duration::from_secs(31));
        assert_eq!(steady.deadline(now), now + pause);
    }
}
