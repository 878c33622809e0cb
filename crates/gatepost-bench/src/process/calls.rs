//! System calls of a running server, counted by the kernel (`perf_event_open`, the tracepoint
//! `raw_syscalls:sys_enter`): exact, but not free. While anyone counts, every system call of the
//! machine takes the kernel's slow way in, some 100 ns longer; so it is done only where asked for.
//!
//! It needs the trace file system mounted and the right to count (root, or
//! `kernel.perf_event_paranoid` below 0); where either is missing there is no figure, never a
//! guessed one.
#![allow(unsafe_code)]

use super::Watched;
use rustix::fd::{FromRawFd, OwnedFd};
use rustix::io::read;
use std::fs;
use std::mem::size_of;
use std::sync::atomic::{AtomicBool, Ordering};

/// Where the kernel tells the tracepoint's number, by where the file system may be mounted.
const TRACEPOINTS: [&str; 2] = [
    "/sys/kernel/tracing/events/raw_syscalls/sys_enter/id",
    "/sys/kernel/debug/tracing/events/raw_syscalls/sys_enter/id",
];
/// `PERF_TYPE_TRACEPOINT` of perf_event_open(2).
const TYPE_TRACEPOINT: u32 = 2;
/// The bit of `inherit`: threads and children that begin later count too.
const FLAG_INHERIT: u64 = 1 << 1;
/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_ulong = 8;

/// The first version of `struct perf_event_attr` (`PERF_ATTR_SIZE_VER0`), which every kernel takes.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    breakpoint_address: u64,
}

/// Whether the user asked for it.
static ASKED_FOR: AtomicBool = AtomicBool::new(false);

/// From now on samplers count system calls too.
pub fn count_system_calls() {
    ASKED_FOR.store(true, Ordering::Relaxed);
}

/// Whether they do.
pub(super) fn are_asked_for() -> bool {
    ASKED_FOR.load(Ordering::Relaxed)
}

/// Counters of all threads of a server.
pub struct CallCounter {
    counters: Vec<OwnedFd>,
}

impl CallCounter {
    /// Begins to count; `None` where the kernel does not let us.
    pub fn of(watched: &Watched) -> Option<Self> {
        Self::of_processes(&watched.processes())
    }

    /// The same for this process.
    pub fn of_self() -> Option<Self> {
        Self::of_processes(&[std::process::id()])
    }

    fn of_processes(processes: &[u32]) -> Option<Self> {
        let number = TRACEPOINTS
            .iter()
            .find_map(|path| fs::read_to_string(path).ok())?;
        let number = number.trim().parse().ok()?;
        let threads = processes.iter().flat_map(|pid| {
            let folder = fs::read_dir(format!("/proc/{pid}/task"));
            folder.into_iter().flatten().flatten()
        });
        let counters: Vec<OwnedFd> = threads
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter_map(|thread: i32| open(number, thread))
            .collect();
        (!counters.is_empty()).then_some(Self { counters })
    }

    /// How many calls there were so far.
    pub fn count(&self) -> u64 {
        let count_of = |counter: &OwnedFd| {
            let mut value = [0; 8];
            match read(counter, &mut value) {
                Ok(8) => u64::from_ne_bytes(value),
                _ => 0,
            }
        };
        self.counters.iter().map(count_of).sum()
    }
}

fn open(tracepoint: u64, thread: i32) -> Option<OwnedFd> {
    let attributes = Attributes {
        kind: TYPE_TRACEPOINT,
        size: size_of::<Attributes>() as u32,
        config: tracepoint,
        flags: FLAG_INHERIT,
        ..Attributes::default()
    };
    const ANY_PROCESSOR: libc::c_int = -1;
    const NO_GROUP: libc::c_int = -1;
    // SAFETY: the struct lives over the call, its size field says how much of it there is, and the
    // kernel only reads it. The result is an error or a new descriptor that nobody else owns.
    unsafe {
        let descriptor = libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            thread,
            ANY_PROCESSOR,
            NO_GROUP,
            CLOSE_ON_EXEC,
        );
        let descriptor = i32::try_from(descriptor)
            .ok()
            .filter(|&number| number >= 0)?;
        Some(OwnedFd::from_raw_fd(descriptor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_or_not_at_all() {
        const CALLS: u64 = 1_000;
        let Some(counter) = CallCounter::of_self() else {
            // Without the right to count there must be no figure.
            return;
        };
        let before = counter.count();
        for _ in 0..CALLS {
            std::hint::black_box(rustix::process::getppid());
        }
        assert!(counter.count() - before >= CALLS);
    }
}
