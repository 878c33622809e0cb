//! Ctrl-C: the first ends the run and keeps its results so far, the second ends the process and the
//! servers that it has started. A terminal that is closed counts like Ctrl-C.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// The conductor of a run on several hosts was interrupted; this process was not.
static RUN_STOPPED: AtomicBool = AtomicBool::new(false);
/// The process groups of the servers that run; 0 where there is none. One runs at a time.
static GROUPS: [AtomicI32; 4] = [const { AtomicI32::new(0) }; 4];

extern "C" fn handle(signal: libc::c_int) {
    if !INTERRUPTED.swap(true, Ordering::Relaxed) {
        return;
    }
    for group in &GROUPS {
        let group = group.load(Ordering::Relaxed);
        if group > 0 {
            // SAFETY: kill only takes numbers; it is async-signal-safe.
            unsafe { libc::kill(-group, libc::SIGKILL) };
        }
    }
    // SAFETY: both only take numbers and are async-signal-safe; the raised signal ends the process
    // once this handler has returned.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// Handles `SIGINT`, `SIGTERM` and, unless it is ignored (nohup), `SIGHUP`.
pub fn install() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the structs are plain data for which zero bytes are valid, and are valid during
        // the calls; the handler uses only atomics and functions that are async-signal-safe.
        unsafe {
            let mut known: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &raw mut known);
            if signal == libc::SIGHUP && known.sa_sigaction == libc::SIG_IGN {
                continue;
            }
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handle as extern "C" fn(libc::c_int) as usize;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

/// The process group of a server that must not outlive this process, by the id of its leader.
pub(crate) fn end_with_us(leader: u32) {
    replace(0, leader.cast_signed());
}

/// The group has ended.
pub(crate) fn forget_group(leader: u32) {
    replace(leader.cast_signed(), 0);
}

fn replace(old: i32, new: i32) {
    let relaxed = Ordering::Relaxed;
    let replaced = |group: &AtomicI32| group.compare_exchange(old, new, relaxed, relaxed).is_ok();
    // If there is no place left, the server ends only with its run.
    let _ = GROUPS.iter().any(replaced);
}

/// Whether the user has requested a stop, here or at the conductor of the run.
pub fn interrupted() -> bool {
    is_signalled() || RUN_STOPPED.load(Ordering::Relaxed)
}

/// Whether the user has requested a stop this process.
pub fn is_signalled() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Stops the current run of this process, or permits the next one.
pub(crate) fn stop_run(stopped: bool) {
    RUN_STOPPED.store(stopped, Ordering::Relaxed);
}
