//! Limits of the running call: CPU time, waiting time and instructions.
//!
//! The two times are counted separately: while a call waits, its running time stops, so that a call
//! that is resumed late on a busy server does not fail for that reason.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use mlua::VmState;

/// The interrupt occurs at every loop and call; the clock is read at one in this many, and by the
/// functions of the host that may take long.
const INTERRUPTS_PER_CLOCK: u64 = 16;

/// The bounds of one call.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallTimes {
    /// The maximum running time.
    pub(super) run: Duration,
    /// The maximum total waiting time.
    pub(super) wait: Duration,
    /// The time after which its caller stops waiting.
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
    /// The maximum number of steps; 0 for no limit.
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

    /// Begins a wait of the call.
    pub(super) fn pause(&self) -> Pause {
        let now = self.now_ns();
        Pause {
            since_ns: now,
            run_left_ns: self.at_ns.load(Relaxed).saturating_sub(now),
        }
    }

    /// Ends a wait: the call runs again.
    pub(super) fn end_pause(&self, pause: &Pause) {
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
                "the procedure took more than the {} steps that are permitted",
                self.steps_max
            )));
        }
        if steps.is_multiple_of(INTERRUPTS_PER_CLOCK)
            && let Err(error) = self.check_clock()
        {
            // From now on every interrupt fails: code that catches the first error is stopped at
            // its next loop or call.
            self.steps.fetch_sub(1, Relaxed);
            return Err(error);
        }
        Ok(VmState::Continue)
    }

    /// Called by functions of the host, one of which may take as long as many loops.
    pub(super) fn check_clock(&self) -> mlua::Result<()> {
        if self.now_ns() < self.at_ns.load(Relaxed) {
            return Ok(());
        }
        Err(mlua::Error::runtime(format!(
            "the procedure ran longer than the {} ms that are permitted",
            self.time_max_ms.load(Relaxed)
        )))
    }
}

/// A setting may exceed the range; half of the range leaves space for a sum.
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
        deadline.end_pause(&waited);
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
