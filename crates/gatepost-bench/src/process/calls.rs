//! System calls of a running server, counted by the kernel (`perf_event_open`, the tracepoint
//! `raw_syscalls:sys_enter`). The count is exact but not free: while it is enabled, every system
//! call of the machine takes a slower path into the kernel and about 100 ns longer. Counting is
//! therefore off unless the user requests it.
//!
//! It requires a mounted trace file system and permission to count (root, or
//! `kernel.perf_event_paranoid` below 0). Without either there is no figure, never an estimate.
#![allow(unsafe_code)]

use std::fs;
use std::io;
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
struct PerfEventAttributes {
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

/// An event that the kernel counts.
#[derive(Clone, Copy)]
struct Event {
    kind: u32,
    number: u64,
    /// Flags that restrict where the event counts.
    scope: u64,
}

impl Event {
    /// The beginning of a system call; `None` if the trace file system is not mounted or not
    /// readable.
    fn system_call() -> Option<Self> {
        let number = TRACEPOINTS
            .iter()
            .find_map(|path| fs::read_to_string(path).ok())?;
        Some(Self {
            kind: TYPE_TRACEPOINT,
            number: number.trim().parse().ok()?,
            scope: 0,
        })
    }
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
        Self::of_processes(&watched.processes(), Event::system_call()?)
    }

    /// A counter for this process.
    pub fn of_self() -> Option<Self> {
        Self::of_processes(&[std::process::id()], Event::system_call()?)
    }

    fn of_processes(processes: &[u32], event: Event) -> Option<Self> {
        let threads = processes.iter().flat_map(|pid| {
            let folder = fs::read_dir(format!("/proc/{pid}/task"));
            folder.into_iter().flatten().flatten()
        });
        let counters: Vec<OwnedFd> = threads
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter_map(|thread: i32| open(event, thread).ok())
            .collect();
        (!counters.is_empty()).then_some(Self { counters })
    }

    /// The number of events so far.
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

/// A counter of one event of a thread; an error if the kernel does not permit it.
fn open(event: Event, thread: i32) -> io::Result<OwnedFd> {
    let attributes = PerfEventAttributes {
        kind: event.kind,
        size: size_of::<PerfEventAttributes>() as u32,
        config: event.number,
        flags: FLAG_INHERIT | event.scope,
        ..PerfEventAttributes::default()
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
        let descriptor = i32::try_from(descriptor).unwrap_or(-1);
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(descriptor))
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{EventfdFlags, eventfd};

    use super::*;

    /// `PERF_COUNT_SW_PAGE_FAULTS` of `PERF_TYPE_SOFTWARE` with the bit of `exclude_kernel`. Most
    /// kernels count it without privileges, hardware and trace file system.
    const PAGE_FAULT: Event = Event {
        kind: 1,
        number: 2,
        scope: 1 << 5,
    };
    const THIS_THREAD: i32 = 0;

    /// Whether the kernel lets this process count an event. Any error but a refusal is a defect.
    fn may_count(event: Event) -> bool {
        let opened = open(event, THIS_THREAD).map_err(|error| error.kind());
        let refusals = [io::ErrorKind::PermissionDenied, io::ErrorKind::Unsupported];
        let is_refused = opened.as_ref().is_err_and(|kind| refusals.contains(kind));
        assert!(opened.is_ok() || is_refused, "{opened:?}");
        opened.is_ok()
    }

    /// The number of events during `action`, which runs on a thread that begins after the counter;
    /// `None` if the kernel does not permit counting.
    fn counted(event: Event, action: fn()) -> Option<u64> {
        let counter = CallCounter::of_processes(&[std::process::id()], event);
        assert_eq!(counter.is_some(), may_count(event));
        let counter = counter?;
        let before = counter.count();
        std::thread::spawn(action).join().expect("ended");
        Some(counter.count() - before)
    }

    #[test]
    fn system_calls_are_counted_where_the_kernel_permits_it() {
        const CALLS: u64 = 1_000;
        let call = || {
            for _ in 0..CALLS {
                std::hint::black_box(rustix::process::getppid());
            }
        };
        let count = Event::system_call().and_then(|event| counted(event, call));
        assert!(count.is_none_or(|count| count >= CALLS), "{count:?}");
    }

    #[test]
    fn page_faults_are_counted_where_the_kernel_permits_it() {
        const BLOCKS: u64 = 200;
        let touch = || {
            for _ in 0..BLOCKS {
                // A block of this size has a mapping of its own, so writing to it causes a page
                // fault.
                let mut block = vec![0_u8; 64 << 20];
                std::hint::black_box(&mut block)[0] = 1;
            }
        };
        let count = counted(PAGE_FAULT, touch);
        assert!(count.is_none_or(|count| count >= BLOCKS), "{count:?}");
    }

    /// An eventfd is read like a counter and needs no permission.
    #[test]
    fn the_count_is_the_sum_of_all_counters() {
        let counters = [3, 4_000_000_000]
            .map(|value| eventfd(value, EventfdFlags::empty()).expect("an eventfd"));
        let counter = CallCounter {
            counters: counters.into(),
        };
        assert_eq!(counter.count(), 4_000_000_003);
    }

    #[test]
    fn a_process_has_a_counter_until_it_is_gone() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("cat");
        let processes = WatchedServer::Process(child.id()).processes();
        let has_counter = || CallCounter::of_processes(&processes, PAGE_FAULT).is_some();
        assert_eq!(has_counter(), may_count(PAGE_FAULT));
        // The end of its input ends it.
        drop(child.stdin.take());
        child.wait().expect("ended");
        assert!(!has_counter());
    }
}
