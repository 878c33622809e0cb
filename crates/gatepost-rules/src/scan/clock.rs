//! The processor time of a thread, for which the standard library has no clock.
//!
//! The C library is called, not the vDSO: emulators that count instructions support only that.
#![allow(unsafe_code)]

use std::time::Duration;

/// The processor time of this thread; zero where the system has no such clock.
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
