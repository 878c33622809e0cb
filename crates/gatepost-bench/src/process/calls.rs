//! System calls of a running server, counted by the kernel (`perf_event_open`, the tracepoint
//! `raw_syscalls:sys_enter`). The count is exact but not free: while it is enabled, every system
//! call of the machine takes a slower path into the kernel and about 100 ns longer. Counting is
//! therefore off unless the user requests it.
//!
//! It requires a mounted trace file system and permission to count (root, or
//! `kernel.perf_event_paranoid` below 0). Without either there is no figure, never an estimate.
#![allow(unsafe_code)]

use std::fs;
use std::mem::size_of;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fd::{FromRawFd, OwnedFd};
use rustix::io::read;

use super::WatchedServer;

/// Files with the tracepoint's number, one for each usual mount point of the trace file system.
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

/// The first version of `struct perf_event_attr` (`PERF_ATTR_SIZE_VER0`), which every kernel
/// accepts.
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

/// Whether the user requested it.
static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Enables counting of system calls in samplers.
pub fn count_system_calls() {
    REQUESTED.store(true, Ordering::Relaxed);
}

/// Whether samplers count system calls.
pub(super) fn are_requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}

/// Counters of all threads of a server.
pub struct CallCounter {
    counters: Vec<OwnedFd>,
}

impl CallCounter {
    /// Starts counting; `None` if the kernel does not permit it.
    pub fn of(watched: &WatchedServer) -> Option<Self> {
        Self::of_processes(&watched.processes())
    }

    /// A counter for this process.
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
            .filter_map(|thread: i32| open(TYPE_TRACEPOINT, number, thread))
            .collect();
        (!counters.is_empty()).then_some(Self { counters })
    }

    /// The number of calls so far.
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

/// A counter of one event of a thread; `None` if the kernel does not permit it.
fn open(kind: u32, event: u64, thread: i32) -> Option<OwnedFd> {
    let attributes = Attributes {
        kind,
        size: size_of::<Attributes>() as u32,
        config: event,
        flags: FLAG_INHERIT,
        ..Attributes::default()
    };
    const ANY_PROCESSOR: libc::c_int = -1;
    const NO_GROUP: libc::c_int = -1;
    // SAFETY: the struct is valid during the call, its size field states its size, and the kernel
    // only reads it. The result is an error or a new descriptor that has no other owner.
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

    /// `PERF_TYPE_SOFTWARE`: events that the kernel counts without hardware and trace file system.
    const TYPE_SOFTWARE: u32 = 1;
    /// `PERF_COUNT_SW_CONTEXT_SWITCHES`.
    const CONTEXT_SWITCHES: u64 = 3;
    const THIS_THREAD: i32 = 0;

    /// Whether a counter is expected: determined without [`CallCounter`].
    fn may_count() -> bool {
        let is_permitted = open(TYPE_SOFTWARE, CONTEXT_SWITCHES, THIS_THREAD).is_some();
        is_permitted && TRACEPOINTS.iter().any(|path| fs::read(path).is_ok())
    }

    #[test]
    fn there_is_a_counter_exactly_where_the_kernel_permits_it() {
        const CALLS: u64 = 1_000;
        let counter = CallCounter::of_self();
        assert_eq!(counter.is_some(), may_count());
        let Some(counter) = counter else { return };
        let before = counter.count();
        for _ in 0..CALLS {
            std::hint::black_box(rustix::process::getppid());
        }
        assert!(counter.count() - before >= CALLS);
    }

    #[test]
    fn a_process_that_is_gone_has_no_counter() {
        let mut child = std::process::Command::new("true").spawn().expect("true");
        let pid = child.id();
        child.wait().expect("ended");
        assert!(CallCounter::of(&WatchedServer::Process(pid)).is_none());
    }
}
