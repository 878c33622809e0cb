//! Time, and the time by which rows grow old.
//!
//! A clock may be wrong: a board without a battery starts in 1970, a snapshot is restored, somebody
//! mistypes a year. Rows that are removed by age are gone for good, so ages go by a time of their
//! own, the [`AgeTime`], which is kept in the database. It follows the clock as long as the clock
//! is plausible. If the clock is further ahead than `store.clock_jump_max` (the server was off for
//! longer, or the clock is wrong), the age time catches up slowly, at twice the speed of time, and
//! the log says so: nothing is removed all at once, and an operator has time to set the clock.
//!
//! Invariants: the age time is never ahead of the clock, and never gains more on the clock than
//! `store.clock_jump_max` at once.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// A source of time; tests bring their own.
pub trait Clock: Send + Sync {
    /// The time of day, which may jump.
    fn now(&self) -> SystemTime;

    /// The time since some moment in the past, which never jumps.
    fn elapsed(&self) -> Duration;
}

/// The clock of the system.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self {
            started: Instant::now(),
        }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

/// How the clock stands to the age time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Drift {
    /// They agree.
    None,
    /// The clock is ahead by this much, and the age time catches up.
    Ahead(Duration),
    /// The clock is behind an earlier one by this much.
    Behind(Duration),
}

/// The time by which rows grow old.
pub(crate) struct AgeTime {
    clock: Arc<dyn Clock>,
    /// The latest time that was believed.
    accepted: SystemTime,
    /// [`Clock::elapsed`] when it was.
    accepted_at: Duration,
    jump_max: Duration,
}

impl AgeTime {
    /// `accepted` is what an earlier run kept; `None` for a new database.
    pub(crate) fn new(
        clock: Arc<dyn Clock>,
        accepted: Option<SystemTime>,
        jump_max: Duration,
    ) -> Self {
        Self {
            accepted: accepted.unwrap_or_else(|| clock.now()),
            accepted_at: clock.elapsed(),
            clock,
            jump_max,
        }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    /// The latest time that was believed, to be kept.
    pub(crate) const fn accepted(&self) -> SystemTime {
        self.accepted
    }

    /// The age time now, and how the clock stands to it.
    pub(crate) fn now(&mut self) -> (SystemTime, Drift) {
        let (now, elapsed) = (self.clock.now(), self.clock.elapsed());
        let passed = elapsed.saturating_sub(self.accepted_at);
        self.accepted_at = elapsed;
        let expected = self.accepted + passed;
        if let Ok(behind) = self.accepted.duration_since(now) {
            // Less is removed than could be, which does no harm.
            let drift = if behind.is_zero() {
                Drift::None
            } else {
                Drift::Behind(behind)
            };
            return (now, drift);
        }
        let ahead = now.duration_since(expected).unwrap_or_default();
        if ahead <= self.jump_max {
            self.accepted = now;
            return (now, Drift::None);
        }
        // Twice as fast as time, so that it arrives some day.
        self.accepted = expected + passed;
        (self.accepted, Drift::Ahead(ahead))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;

    const DAY: Duration = Duration::from_hours(24);

    #[derive(Clone)]
    struct Hand(Arc<Mutex<(SystemTime, Duration)>>);

    impl Hand {
        fn new() -> Self {
            let start = SystemTime::UNIX_EPOCH + 20_000 * DAY;
            Self(Arc::new(Mutex::new((start, Duration::ZERO))))
        }

        /// Time passes.
        fn pass(&self, time: Duration) {
            let mut hand = self.0.lock();
            hand.0 += time;
            hand.1 += time;
        }
    }

    impl Clock for Hand {
        fn now(&self) -> SystemTime {
            self.0.lock().0
        }

        fn elapsed(&self) -> Duration {
            self.0.lock().1
        }
    }

    #[test]
    fn a_clock_far_ahead_for_a_minute_ages_nothing() {
        let hand = Hand::new();
        let mut age = AgeTime::new(Arc::new(hand.clone()), None, DAY);
        hand.pass(DAY / 2);
        assert_eq!(age.now(), (hand.now(), Drift::None));
        let right = hand.now();
        hand.0.lock().0 += 35 * DAY;
        hand.pass(Duration::from_mins(1));
        let (time, drift) = age.now();
        assert_eq!(drift, Drift::Ahead(35 * DAY));
        assert_eq!(time, right + Duration::from_mins(2));
        hand.0.lock().0 -= 35 * DAY;
        hand.pass(Duration::from_mins(5));
        assert_eq!(age.now(), (hand.now(), Drift::None));
    }

    #[test]
    fn a_long_absence_is_caught_up_with_slowly() {
        let hand = Hand::new();
        let kept = hand.now();
        hand.0.lock().0 += 3 * DAY;
        let mut age = AgeTime::new(Arc::new(hand.clone()), Some(kept), DAY);
        assert_eq!(age.now(), (kept, Drift::Ahead(3 * DAY)));
        for _ in 0..2 {
            hand.pass(DAY);
            age.now();
        }
        hand.pass(DAY);
        assert_eq!(age.now(), (hand.now(), Drift::None));
    }

    #[test]
    fn a_start_in_1970_forgets_no_time() {
        let hand = Hand::new();
        let kept = hand.now();
        hand.0.lock().0 = SystemTime::UNIX_EPOCH;
        let mut age = AgeTime::new(Arc::new(hand.clone()), Some(kept), DAY);
        let (time, drift) = age.now();
        assert_eq!(time, SystemTime::UNIX_EPOCH);
        assert!(matches!(drift, Drift::Behind(_)));
        // The network brings the time.
        hand.0.lock().0 = kept + Duration::from_hours(1);
        assert_eq!(age.now(), (hand.now(), Drift::None));
    }
}
