//! Ctrl-C: the first ends the run and keeps its results so far, the second ends the process.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// The conductor of a run on several hosts was interrupted; this process was not.
static RUN_STOPPED: AtomicBool = AtomicBool::new(false);

extern "C" fn remember(_signal: libc::c_int) {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// Handles `SIGINT` and `SIGTERM` once each; the next signal of the same kind has its usual effect.
pub fn install() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the struct is plain data for which zero bytes are valid; the handler only stores
        // to an atomic, which is async-signal-safe; SA_RESETHAND restores the default action before
        // the handler runs.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = remember as extern "C" fn(libc::c_int) as usize;
            action.sa_flags = libc::SA_RESETHAND;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
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
