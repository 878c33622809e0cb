//! The one clock: nanoseconds of the machine's monotonic clock, the same in every process of the
//! machine, so that a publisher's stamp can be compared by a subscriber elsewhere on it.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A moment, in nanoseconds since the machine started.
pub type Nanoseconds = u64;

/// Nanoseconds in a second.
pub const SECOND: Nanoseconds = 1_000_000_000;

/// Now.
#[inline]
pub fn now() -> Nanoseconds {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * SECOND + time.tv_nsec as u64
}

/// Sleeps until a moment; a moment gone by costs nothing.
pub fn sleep_until(moment: Nanoseconds) {
    let left = moment.saturating_sub(now());
    if left > 0 {
        std::thread::sleep(Duration::from_nanos(left));
    }
}

/// As a count of seconds.
pub fn seconds(span: Nanoseconds) -> f64 {
    span as f64 / SECOND as f64
}

/// From a count of seconds.
pub fn from_seconds(seconds: f64) -> Nanoseconds {
    (seconds * SECOND as f64) as Nanoseconds
}
