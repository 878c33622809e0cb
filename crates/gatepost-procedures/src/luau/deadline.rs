//! Limits of the running call: CPU time, waiting time and instructions.
//!
//! Both times are counted apart: while a call waits, no time of its run passes, so that a call
//! which is resumed late on a busy server does not fail for that.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use mlua::VmState;

/// The interrupt comes at every loop and call; the clock is read at one in so many. Between two
/// of them lies a bounded piece of work, so the overrun is microseconds.
const INTERRUPTS_PER_CLOCK: u64 = 64;

/// The bounds of one call.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallTimes {
    /// The maximum running time.
    pub(super) run: Duration,
    /// The maximum total waiting time.
    pub(super) wait: Duration,
    /// The time at which its caller gives up.
    pub(super) caller: Option<Duration>,
}

/// One machine's bounds for its present call. Times are nanoseconds after `made`.
pub(super) struct Deadline {
    made: Instant,
    at_ns: AtomicU64,
    caller_at_ns: AtomicU64,
    wait_left_ns: AtomicU64,
    time_max_ms: AtomicU64,
    /// Loops and calls so far.
    steps: AtomicU64,
    /// 0 for any number.
    steps_max: u64,
}

/// A wait that has begun.
pub(super) struct Pause {
    since_ns: u64,
    run_left_ns: u64,
}

impl Deadline {
    pub(super) fn new(steps_max: u64) -> Self {
        Self {
            made: Instant::now(),
            at_ns: AtomicU64::new(u64::MAX),
            caller_at_ns: AtomicU64::new(u64::MAX),
            wait_left_ns: AtomicU64::new(0),
            time_max_ms: AtomicU64::new(0),
            steps: AtomicU64::new(0),
            steps_max,
        }
    }

    /// Begins a call.
    pub(super) fn set(&self, times: CallTimes) {
        let now = self.now_ns();
        let caller_at = times
            .caller
            .map_or(u64::MAX, |left| now + nanoseconds(left));
        let run_max = times.caller.map_or(times.run, |left| left.min(times.run));
        self.caller_at_ns.store(caller_at, Relaxed);
        self.at_ns.store(now + nanoseconds(run_max), Relaxed);
        self.wait_left_ns.store(nanoseconds(times.wait), Relaxed);
        let time_max_ms = run_max.as_millis() as u64;
        self.time_max_ms.store(time_max_ms, Relaxed);
        self.steps.store(0, Relaxed);
    }

    /// The instant by which a wait of the present call that begins now must have ended.
    pub(super) fn wait_until(&self) -> Instant {
        let until = self.now_ns() + self.wait_left_ns.load(Relaxed);
        self.made + Duration::from_nanos(until.min(self.caller_at_ns.load(Relaxed)))
    }

    /// The call waits from now on.
    pub(super) fn pause(&self) -> Pause {
        let now = self.now_ns();
        Pause {
            since_ns: now,
            run_left_ns: self.at_ns.load(Relaxed).saturating_sub(now),
        }
    }

    /// The wait has ended, and the call runs again.
    pub(super) fn go_on(&self, pause: &Pause) {
        let now = self.now_ns();
        let waited = now.saturating_sub(pause.since_ns);
        let left = self.wait_left_ns.load(Relaxed).saturating_sub(waited);
        self.wait_left_ns.store(left, Relaxed);
        let at = now + pause.run_left_ns;
        self.at_ns
            .store(at.min(self.caller_at_ns.load(Relaxed)), Relaxed);
    }

    fn now_ns(&self) -> u64 {
        nanoseconds(self.made.elapsed())
    }

    /// Steps of the present call, or of the last one.
    pub(super) fn steps(&self) -> u64 {
        self.steps.load(Relaxed)
    }

    /// Called by the machine at every loop and call.
    pub(super) fn check(&self) -> mlua::Result<VmState> {
        let steps = self.steps.fetch_add(1, Relaxed);
        if self.steps_max > 0 && steps >= self.steps_max {
            return Err(mlua::Error::runtime(format!(
                "the procedure took more than the {} steps that it may take",
                self.steps_max
            )));
        }
        if steps.is_multiple_of(INTERRUPTS_PER_CLOCK) && self.now_ns() >= self.at_ns.load(Relaxed) {
            // From now on every interrupt fails: code that catches the first error gets no
            // further than its next loop or call.
            self.steps.fetch_sub(1, Relaxed);
            return Err(mlua::Error::runtime(format!(
                "the procedure ran longer than the {} ms that it may take",
                self.time_max_ms.load(Relaxed)
            )));
        }
        Ok(VmState::Continue)
    }
}

/// A setting may be longer than what fits; half of what fits leaves room for a sum.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).map_or(u64::MAX / 4, |time| time.min(u64::MAX / 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_takes_no_time_of_the_run_and_ends_with_the_caller() {
        let hour = Duration::from_hours(1);
        let deadline = Deadline::new(0);
        let times = CallTimes {
            run: hour,
            wait: hour,
            caller: None,
        };
        deadline.set(times);
        let waited = Pause {
            since_ns: 0,
            run_left_ns: nanoseconds(hour),
        };
        let before = Instant::now();
        deadline.go_on(&waited);
        let run_left = deadline.at_ns.load(Relaxed) - nanoseconds(before - deadline.made);
        assert!(run_left >= nanoseconds(hour));
        assert!(deadline.wait_until() < Instant::now() + hour);
        deadline.set(CallTimes {
            caller: Some(Duration::ZERO),
            ..times
        });
        assert!(deadline.wait_until() <= Instant::now());
        assert!(
            deadline.check().is_err(),
            "the run ends with the caller too"
        );
    }
}
