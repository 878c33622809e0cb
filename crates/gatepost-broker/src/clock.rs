//! Seconds since the broker's start, kept by the housekeeper: a clock that costs one load.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// Moves only at [`Clock::advance`], once a second.
#[derive(Debug)]
pub(crate) struct Clock {
    started: Instant,
    now_seconds: AtomicU32,
}

impl Clock {
    pub(crate) fn new(started: Instant) -> Self {
        Self {
            started,
            now_seconds: AtomicU32::new(0),
        }
    }

    pub(crate) const fn started(&self) -> Instant {
        self.started
    }

    pub(crate) fn now_seconds(&self) -> u32 {
        self.now_seconds.load(Ordering::Relaxed)
    }

    /// Sets the clock to `now` and returns its seconds.
    pub(crate) fn advance(&self, now: Instant) -> u32 {
        let seconds = now.saturating_duration_since(self.started).as_secs() as u32;
        self.now_seconds.store(seconds, Ordering::Relaxed);
        seconds
    }
}
