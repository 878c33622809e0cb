//! The broker's time, from a source that simulations replace.
//!
//! Delays and expiries of sessions use a clock that never jumps; times within publications use the
//! time of day. The housekeeper keeps the seconds since the start, so that recording a client's
//! activity costs one load.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

use gatepost_store::ClockSource;

pub(crate) struct BrokerClock {
    source: Arc<dyn ClockSource>,
    started: Instant,
    /// The source's time since its own beginning, at `started`.
    elapsed_at_start: Duration,
    /// Moves only at [`BrokerClock::advance`], once a second.
    now_seconds: AtomicU32,
}

impl BrokerClock {
    pub(crate) fn new(source: Arc<dyn ClockSource>) -> Self {
        Self {
            started: Instant::now(),
            elapsed_at_start: source.elapsed(),
            now_seconds: AtomicU32::new(0),
            source,
        }
    }

    /// The time that never jumps.
    pub(crate) fn now(&self) -> Instant {
        let elapsed = self.source.elapsed();
        self.started + elapsed.saturating_sub(self.elapsed_at_start)
    }

    /// The time of day, which may jump.
    pub(crate) fn time_of_day(&self) -> SystemTime {
        self.source.now()
    }

    pub(crate) const fn started(&self) -> Instant {
        self.started
    }

    pub(crate) fn now_seconds(&self) -> u32 {
        self.now_seconds.load(Ordering::Relaxed)
    }

    /// Sets the seconds to those of `now`, and returns them.
    pub(crate) fn advance(&self, now: Instant) -> u32 {
        let seconds = now.saturating_duration_since(self.started).as_secs() as u32;
        self.now_seconds.store(seconds, Ordering::Relaxed);
        seconds
    }
}
