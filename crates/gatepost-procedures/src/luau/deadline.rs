//! When the running call must have ended, and how much it may do until then.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use mlua::VmState;

/// The interrupt comes at every loop and call; the clock is read at one in so many. Between two
/// of them lies a bounded piece of work, so the overrun is microseconds.
const INTERRUPTS_PER_CLOCK: u64 = 64;

/// One machine's bounds for its present call.
pub(super) struct Deadline {
    made: Instant,
    /// Nanoseconds after `made`.
    at_ns: AtomicU64,
    time_max_ms: AtomicU64,
    /// Loops and calls so far.
    steps: AtomicU64,
    /// 0 for any number.
    steps_max: u64,
}

impl Deadline {
    pub(super) fn new(steps_max: u64) -> Self {
        Self {
            made: Instant::now(),
            at_ns: AtomicU64::new(u64::MAX),
            time_max_ms: AtomicU64::new(0),
            steps: AtomicU64::new(0),
            steps_max,
        }
    }

    /// Begins a call.
    pub(super) fn set(&self, time_max: Duration) {
        let at = self.made.elapsed() + time_max;
        self.at_ns.store(at.as_nanos() as u64, Relaxed);
        self.time_max_ms.store(time_max.as_millis() as u64, Relaxed);
        self.steps.store(0, Relaxed);
    }

    /// When the present call must have ended.
    pub(super) fn at(&self) -> Instant {
        self.made + Duration::from_nanos(self.at_ns.load(Relaxed))
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
        if steps.is_multiple_of(INTERRUPTS_PER_CLOCK)
            && self.made.elapsed().as_nanos() as u64 >= self.at_ns.load(Relaxed)
        {
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
