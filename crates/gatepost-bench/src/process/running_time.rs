//! How long a process has run, to the nanosecond, as the scheduler keeps its books.
//!
//! `/proc` tells user and system time in ticks of 10 ms, which is a sixteenth of what a scan of
//! a fifth of a second uses. A process's CPU clock (POSIX's `clock_getcpuclockid`) has all its
//! threads, those that have ended too.
#![allow(unsafe_code)]

use std::mem::zeroed;

/// Seconds that the threads of a process have run, those of its children not; `None` once it is
/// gone, or where the kernel does not let us ask.
pub(super) fn running_seconds(pid: u32) -> Option<f64> {
    let pid = libc::pid_t::try_from(pid).ok()?;
    // SAFETY: both calls only write to the variable whose address they get, which is of the type
    // that they write, lives over the call and is plain data for which zero bytes are valid.
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
