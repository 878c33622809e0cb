//! The time that a thread computes, which the standard library has no clock for.
//!
//! Through the C library rather than the kernel's own page: emulators that count instructions know
//! only that.
#![allow(unsafe_code)]

use std::time::Duration;

/// What this thread computed so far; zero where the system does not say.
pub(super) fn computed() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes to this one place, which is valid for it and outlives it.
    let outcome = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    if outcome != 0 {
        return Duration::ZERO;
    }
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}
