//! The only clock: nanoseconds of the machine's monotonic clock, which is the same in every process
//! of the machine, so that a subscriber in another process can compare a publisher's time stamp
//! with its own time.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A point in time, in nanoseconds since the machine started.
pub type Nanoseconds = u64;

/// Nanoseconds in a second.
pub const SECOND: Nanoseconds = 1_000_000_000;

/// The current time.
#[inline]
pub fn now() -> Nanoseconds {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * SECOND + time.tv_nsec as u64
}

/// Sleeps until a point in time; returns immediately if it has passed.
pub fn sleep_until(moment: Nanoseconds) {
    let left = moment.saturating_sub(now());
    if left > 0 {
        std::thread::sleep(Duration::from_nanos(left));
    }
}

/// A duration in seconds.
pub fn seconds(span: Nanoseconds) -> f64 {
    span as f64 / SECOND as f64
}

/// A duration given in seconds.
pub fn from_seconds(seconds: f64) -> Nanoseconds {
    (seconds * SECOND as f64) as Nanoseconds
}
