//! The CPU time of a process in nanoseconds, from the scheduler's accounting.
//!
//! `/proc` reports user and system time in ticks of 10 ms, a sixteenth of the time of a short scan.
//! A process's CPU clock (POSIX's `clock_getcpuclockid`) includes all its threads, also those that
//! have ended.
#![allow(unsafe_code)]

use std::mem::zeroed;

/// CPU seconds of the threads of a process, without its children; `None` if it does not exist or
/// the kernel does not permit the query.
pub(super) fn running_seconds(pid: u32) -> Option<f64> {
    let pid = libc::pid_t::try_from(pid).ok()?;
    // SAFETY: both calls only write to the variable whose address they receive. It has the type
    // that they write, is valid during the call and is plain data for which zero bytes are valid.
    let time = unsafe {
        let mut clock: libc::clockid_t = 0;
        if libc::clock_getcpuclockid(pid, &raw mut clock) != 0 {
            return None;
        }
        let mut time: libc::timespec = zeroed();
        if libc::clock_gettime(clock, &raw mut time) != 0 {
            return None;
        }
        time
    };
    Some(time.tv_sec as f64 + time.tv_nsec as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_that_is_gone_has_no_time() {
        let mut child = Command::new("true").spawn().expect("true");
        let pid = child.id();
        child.wait().expect("ended");
        assert_eq!(running_seconds(pid), None);
        assert_eq!(running_seconds(u32::MAX), None);
    }
}
