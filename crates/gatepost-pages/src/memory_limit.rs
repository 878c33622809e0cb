//! The memory limit of templates.
//!
//! The template engine offers no hook where values grow: `~`, `*`, a captured block or a filter can
//! each request any amount, and Rust ends the process if an allocation fails. So the allocator
//! itself counts, for a thread that evaluates a template and only during the evaluation. It has two
//! limits:
//!
//! 1. Above the *limit*, the next check in our own code (an expression that is printed, an
//!    iteration of a `range`, a function) fails the page with an ordinary error, and all its memory
//!    is freed.
//! 2. An evaluation that exceeds [`STOP_FACTOR`] times the limit between two checks is stopped in
//!    the allocation itself. The allocation must not return (there is no memory to return), must
//!    not unwind (undefined for an allocator) and must not end the process. So it never returns:
//!    the thread is *parked* permanently with its memory, and the request is answered from here
//!    with an error. This version of the page is not rendered again. Once there are
//!    [`PARKED_THREADS_MAX`] such threads, templates are refused, while everything else continues;
//!    only evaluations in progress can then add to them.
//!
//! Fuel and a bound on values cannot replace this. The engine's fuel counts instructions, and ten
//! of them double a text: `{% set page.a = page.a ~ page.a %}`, in a loop of 26 rounds over a
//! namespace whose text has 10 bytes, makes a text of 671 MB with 272 units of fuel (`minijinja`
//! 2.24; 1.6 GB at the peak). Any fuel that an ordinary page needs is enough for that. A bound on
//! values could only be checked where our own code sees them, in functions and filters; `~`, `*`
//! and captured blocks are evaluated within the engine.
//!
//! A thread can be parked in the allocator only if it holds no lock for which another thread
//! waits. Only code within [`watched`] and not within [`unwatched`] is counted: the engine's own
//! code. Our functions, writers and loaders, which lock, log and send, run unwatched. The engine's
//! locks are in environments and values, and each environment and each new value belongs to one
//! evaluation; the data that evaluations share (filters, compiled instructions, constants) has no
//! locks. The engine's global data that a lock guards is initialised before the first evaluation
//! (`engine::prepare`). A panicking thread is not parked: its hook locks and logs. The
//! underlying allocator is called only after the count, so none of its locks is held either.
//!
//! A thread outside an evaluation pays for one test of a thread-local flag. In a program whose
//! global allocator is not a [`LimitedAllocator`], nothing is counted and nothing is limited.
//!
//! Invariant: values that are counted when they are allocated are counted when they are dropped,
//! and vice versa; so functions return copies that are allocated watched. The count never falls
//! below zero.

// `GlobalAlloc` is unsafe to implement. Each method passes its arguments unchanged to the
// underlying allocator and returns its result, so a caller that satisfies the contract here
// satisfies it there. In between there is only the count: it uses plain cells of the thread, which
// need no initialisation and no drop, and never allocates. It may run `park` first, which does
// not return, and does not unwind either: panics in it are caught. `park` may allocate, which
// is an ordinary call from outside: the flag is cleared, so it is not counted.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The factor by which the limit may be exceeded between two checks.
const STOP_FACTOR: usize = 8;

/// The overhead of an allocation: its management by the allocator, and the stack that is needed to
/// drop nested values.
const OVERHEAD_BYTES: usize = 64;

/// The number of parked threads from which templates are refused.
const PARKED_THREADS_MAX: usize = 8;

/// The number of parked threads.
static PARKED_THREADS: AtomicUsize = AtomicUsize::new(0);

struct Account {
    /// Whether allocations are currently counted.
    counts: Cell<bool>,
    /// The bytes currently held.
    held: Cell<usize>,
    /// The limit at checks in our own code.
    limit: Cell<usize>,
}

thread_local! {
    static ACCOUNT: Account = const {
        Account { counts: Cell::new(false), held: Cell::new(0), limit: Cell::new(usize::MAX) }
    };
    /// The action when this thread is parked.
    static STOPPED: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
}

/// An allocator that enforces the limits of templates; it is the program's global one.
#[derive(Debug)]
pub struct LimitedAllocator<A>(pub A);

// SAFETY: at the top of this module.
unsafe impl<A: GlobalAlloc> GlobalAlloc for LimitedAllocator<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        take(layout.size());
        // SAFETY: at the top of this module.
        unsafe { self.0.alloc(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        give(layout.size());
        // SAFETY: at the top of this module.
        unsafe { self.0.dealloc(memory, layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        take(layout.size());
        // SAFETY: at the top of this module.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size > layout.size() {
            take_more(size - layout.size());
        } else {
            give_some(layout.size() - size);
        }
        // SAFETY: at the top of this module.
        unsafe { self.0.realloc(memory, layout, size) }
    }
}

#[inline]
fn take(bytes: usize) {
    take_more(bytes.saturating_add(OVERHEAD_BYTES));
}

#[inline]
fn take_more(bytes: usize) {
    ACCOUNT.with(|account| {
        if account.counts.get() {
            account.take(bytes);
        }
    });
}

#[inline]
fn give(bytes: usize) {
    give_some(bytes.saturating_add(OVERHEAD_BYTES));
}

#[inline]
fn give_some(bytes: usize) {
    ACCOUNT.with(|account| {
        if account.counts.get() {
            account.refund(bytes);
        }
    });
}

impl Account {
    fn charge(&self, bytes: usize) {
        self.held.set(self.held.get().saturating_add(bytes));
    }

    fn refund(&self, bytes: usize) {
        self.held.set(self.held.get().saturating_sub(bytes));
    }

    fn take(&self, bytes: usize) {
        self.charge(bytes);
        let stop = self.limit.get().saturating_mul(STOP_FACTOR);
        if self.held.get() > stop && !thread::panicking() {
            self.park();
        }
    }

    #[cold]
    fn park(&self) -> ! {
        self.counts.set(false);
        PARKED_THREADS.fetch_add(1, Ordering::Relaxed);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let stopped = STOPPED.take();
            if let Some(stopped) = stopped {
                stopped();
            }
        }));
        // Dropping a panic's payload could panic again.
        std::mem::forget(outcome);
        loop {
            thread::park();
        }
    }
}

/// Too many threads are parked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exhausted;

/// Evaluates with at most `limit` bytes. If the evaluation must be stopped, `stopped` runs on this
/// thread, which is then parked permanently. Must not be nested.
pub(crate) fn watched<T>(
    limit: usize,
    stopped: impl FnOnce() + 'static,
    evaluate: impl FnOnce() -> T,
) -> Result<T, Exhausted> {
    if parked_threads() >= PARKED_THREADS_MAX {
        return Err(Exhausted);
    }
    STOPPED.set(Some(Box::new(stopped)));
    ACCOUNT.with(|account| {
        account.held.set(0);
        account.limit.set(limit);
    });
    /// Ends the count, also after a panic.
    struct CountGuard;
    impl Drop for CountGuard {
        fn drop(&mut self) {
            ACCOUNT.with(|account| account.limit.set(usize::MAX));
            STOPPED.set(None);
        }
    }
    let _end = CountGuard;
    let _counting = Counting::set(true);
    Ok(evaluate())
}

/// Runs our own code from within an evaluation: it is neither counted nor stopped.
pub(crate) fn unwatched<T>(run: impl FnOnce() -> T) -> T {
    let _pause = Counting::set(false);
    run()
}

/// Enables or disables counting until it is dropped.
struct Counting {
    before: bool,
}

impl Counting {
    fn set(counts: bool) -> Self {
        let before = ACCOUNT.with(|account| account.counts.replace(counts));
        Self { before }
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        ACCOUNT.with(|account| account.counts.set(self.before));
    }
}

/// Counts bytes that were allocated elsewhere, but are held from now on.
pub(crate) fn charge(bytes: usize) {
    ACCOUNT.with(|account| account.charge(bytes));
}

/// The bytes are no longer held.
pub(crate) fn refund(bytes: usize) {
    ACCOUNT.with(|account| account.refund(bytes));
}

/// Whether this thread's evaluation exceeds its limit.
pub(crate) fn is_over() -> bool {
    ACCOUNT.with(|account| account.held.get() > account.limit.get())
}

/// The number of parked threads.
pub(crate) fn parked_threads() -> usize {
    PARKED_THREADS.load(Ordering::Relaxed)
}

#[cfg(test)]
#[global_allocator]
static ALLOCATOR: LimitedAllocator<std::alloc::System> = LimitedAllocator(std::alloc::System);

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn freed_memory_is_subtracted() {
        let counted = watched(
            1 << 20,
            || {},
            || {
                for _ in 0..100 {
                    drop(vec![0_u8; 1 << 19]);
                }
                assert!(!is_over());
                let held = vec![0_u8; 1 << 21];
                assert!(is_over());
                let mut grown = unwatched(|| vec![0_u8; 1 << 24]);
                unwatched(|| grown.push(1));
                unwatched(|| drop(grown));
                assert!(is_over());
                drop(held);
                is_over()
            },
        );
        assert_eq!(counted, Ok(false));
        // Unwatched code has no limit.
        drop(vec![0_u8; 1 << 24]);
    }

    #[test]
    fn unbounded_output_is_stopped_and_reported() {
        let (stopped_sender, stopped_receiver) = mpsc::channel();
        let grows = thread::Builder::new().spawn(move || {
            let stopped = move || stopped_sender.send(()).expect("the test waits");
            let _ = watched(1 << 20, stopped, || {
                let mut held = Vec::new();
                loop {
                    held.push(vec![1_u8; 1 << 10]);
                }
            });
        });
        assert_eq!(stopped_receiver.recv(), Ok(()));
        assert!(!grows.expect("it starts").is_finished());
        assert!(parked_threads() > 0);
    }

    #[test]
    fn a_panic_ends_the_watch() {
        let panicked = catch_unwind(|| {
            let _ = watched(1 << 10, || {}, || panic!("as meant"));
        });
        assert!(panicked.is_err());
        drop(vec![0_u8; 1 << 20]);
    }
}
