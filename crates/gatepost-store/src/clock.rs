//! Time, and the time by which rows age.
//!
//! A clock may be wrong: a board without a battery starts in 1970, a snapshot is restored, an
//! administrator mistypes a year. Rows that are removed by age are lost, so ages are computed by a
//! separate time, the [`AgeTime`], which is kept in the database. It follows the clock as long as
//! the clock is plausible. A clock that is suddenly ahead (the server was off, or the clock is
//! wrong) is not trusted before the number of rows that it would remove is known
//! ([`AgeTime::decide`]):
//!
//! - many rows: the age time advances at normal speed until an administrator accepts or corrects
//!   the clock;
//! - few rows, and the clock is ahead by `store.clock_jump_max` at most: it is trusted;
//! - few rows, and it is further ahead: the age time catches up, at twice the speed of time.
//!
//! Invariants: the age time is never ahead of the clock, and never gains more on the clock than
//! `store.clock_jump_max` at once, unless an administrator accepts the clock.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// A clock that is ahead by no more than this has not jumped.
const JUMP_MIN: Duration = Duration::from_mins(5);

/// A source of time; tests provide their own.
pub trait ClockSource: Send + Sync {
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

impl ClockSource for SystemClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

/// The relation of the clock to the age time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClockDrift {
    /// The clock and the age time agree.
    None,
    /// The clock is ahead by this much.
    Ahead(Duration),
    /// The clock is behind an earlier one by this much.
    Behind(Duration),
}

/// The behaviour of the age time while the clock is ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AgePace {
    /// It advances at normal speed until a decision is made, or until an administrator accepts the
    /// clock.
    Wait,
    /// It advances twice as fast.
    CatchUp,
}

/// The time by which rows age.
pub(crate) struct AgeTime {
    clock: Arc<dyn ClockSource>,
    /// The latest time that was trusted.
    accepted: SystemTime,
    /// [`ClockSource::elapsed`] when it was.
    accepted_at: Duration,
    jump_max: Duration,
    pace: AgePace,
}

impl AgeTime {
    /// `accepted` is the value that an earlier run stored; `None` for a new database.
    pub(crate) fn new(
        clock: Arc<dyn ClockSource>,
        accepted: Option<SystemTime>,
        jump_max: Duration,
    ) -> Self {
        Self {
            accepted: accepted.unwrap_or_else(|| clock.now()),
            accepted_at: clock.elapsed(),
            clock,
            jump_max,
            pace: AgePace::Wait,
        }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    /// The latest trusted time, to be stored.
    pub(crate) const fn accepted(&self) -> SystemTime {
        self.accepted
    }

    /// The age time now, and its relation to the clock.
    pub(crate) fn now(&mut self) -> (SystemTime, ClockDrift) {
        let (now, elapsed) = (self.clock.now(), self.clock.elapsed());
        let passed = elapsed.saturating_sub(self.accepted_at);
        self.accepted_at = elapsed;
        let expected = self.accepted + passed;
        if let Ok(behind) = self.accepted.duration_since(now) {
            // Fewer rows are removed than possible, which does no harm.
            let drift = if behind.is_zero() {
                ClockDrift::None
            } else {
                ClockDrift::Behind(behind)
            };
            return (now, drift);
        }
        let ahead = now.duration_since(expected).unwrap_or_default();
        if ahead <= JUMP_MIN {
            self.trust(now);
            return (now, ClockDrift::None);
        }
        self.accepted = match self.pace {
            AgePace::Wait => expected,
            AgePace::CatchUp => (expected + passed).min(now),
        };
        (self.accepted, ClockDrift::Ahead(ahead))
    }

    /// The time that the clock shows.
    pub(crate) fn clock_time(&self) -> SystemTime {
        self.clock.now()
    }

    /// Decides whether a clock that is ahead is trusted, given whether that would remove many rows
    /// at once. Returns whether an administrator must accept it.
    pub(crate) fn decide(&mut self, removes_many: bool) -> bool {
        let (_, ClockDrift::Ahead(ahead)) = self.now() else {
            return false;
        };
        match (removes_many, ahead <= self.jump_max) {
            (true, _) => self.pace = AgePace::Wait,
            (false, true) => self.trust(self.clock.now()),
            (false, false) => self.pace = AgePace::CatchUp,
        }
        removes_many
    }

    /// Accepts the clock at an administrator's request. A clock that is behind is trusted in any
    /// case.
    pub(crate) fn accept_clock(&mut self) {
        let now = self.clock.now();
        if now > self.accepted {
            self.accepted_at = self.clock.elapsed();
            self.trust(now);
        }
    }

    const fn trust(&mut self, now: SystemTime) {
        self.accepted = now;
        self.pace = AgePace::Wait;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ManualClock;

    const DAY: Duration = Duration::from_hours(24);

    fn manual_clock() -> Arc<ManualClock> {
        ManualClock::at(SystemTime::UNIX_EPOCH + 20_000 * DAY)
    }

    #[test]
    fn a_clock_far_ahead_for_a_minute_ages_nothing() {
        let hand = manual_clock();
        let mut age = AgeTime::new(hand.clone(), None, DAY);
        hand.pass(DAY / 2);
        assert_eq!(age.now(), (hand.now(), ClockDrift::None));
        let right = hand.now();
        hand.jump(hand.now() + 35 * DAY);
        hand.pass(Duration::from_mins(1));
        let (time, drift) = age.now();
        assert_eq!(drift, ClockDrift::Ahead(35 * DAY));
        assert_eq!(time, right + Duration::from_mins(1), "nothing is decided");
        assert!(!age.decide(false));
        hand.pass(Duration::from_mins(1));
        assert_eq!(age.now().0, right + Duration::from_mins(3), "it catches up");
        hand.jump(hand.now() - 35 * DAY);
        hand.pass(Duration::from_mins(5));
        assert_eq!(age.now(), (hand.now(), ClockDrift::None));
    }

    #[test]
    fn a_jump_that_removes_many_rows_waits_for_an_administrator() {
        let hand = manual_clock();
        let right = hand.now();
        let mut age = AgeTime::new(hand.clone(), None, DAY);
        hand.jump(hand.now() + DAY / 2);
        assert!(age.decide(true), "also within the jump that is trusted");
        hand.pass(DAY);
        assert_eq!(age.now(), (right + DAY, ClockDrift::Ahead(DAY / 2)));
        assert!(age.decide(true), "however long that takes");
        age.accept_clock();
        assert_eq!(age.now(), (hand.now(), ClockDrift::None));
    }

    #[test]
    fn a_long_absence_is_caught_up_with_slowly() {
        let hand = manual_clock();
        let kept = hand.now();
        hand.jump(hand.now() + 3 * DAY);
        let mut age = AgeTime::new(hand.clone(), Some(kept), DAY);
        assert_eq!(age.now(), (kept, ClockDrift::Ahead(3 * DAY)));
        assert!(!age.decide(false));
        for _ in 0..2 {
            hand.pass(DAY);
            age.now();
        }
        hand.pass(DAY);
        assert_eq!(age.now().0, hand.now());
        assert!(!age.decide(false));
        assert_eq!(age.now(), (hand.now(), ClockDrift::None));
    }

    #[test]
    fn a_start_in_1970_forgets_no_time() {
        let hand = manual_clock();
        let kept = hand.now();
        hand.jump(SystemTime::UNIX_EPOCH);
        let mut age = AgeTime::new(hand.clone(), Some(kept), DAY);
        let (time, drift) = age.now();
        assert_eq!(time, SystemTime::UNIX_EPOCH);
        assert!(matches!(drift, ClockDrift::Behind(_)));
        // The clock is set by the network.
        hand.jump(kept + Duration::from_hours(1));
        assert!(!age.decide(false));
        assert_eq!(age.now(), (hand.now(), ClockDrift::None));
    }
}
