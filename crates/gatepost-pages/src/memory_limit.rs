//! The limit of what a template may hold in memory.
//!
//! The template engine offers no hook where values grow: `~`, `*`, a captured block or a filter can
//! each ask for any amount, and where memory is refused Rust ends the process. So the allocator
//! itself counts, for a thread that evaluates a template and only while it does. It counts in two
//! steps:
//!
//! 1. Over the *limit*, the next place where our own code is asked (an expression that is printed,
//!    a turn of a `range`, a function) fails the page with an ordinary error, and everything is
//!    given back.
//! 2. What grows to [`STOP_FACTOR`] times as much between two such places is stopped in the
//!    allocation itself. It must not return (there is no memory to return), must not unwind
//!    (undefined for an allocator) and must not end the process. So it never returns: the thread is
//!    *set aside* for good with what it holds, and whoever began the page is told, from here, to
//!    answer without it. The page's version is not run again. Once there are [`SET_ASIDE_MAX`] such
//!    threads, templates are refused, while everything else goes on; only those that are under way
//!    then can add to them.
//!
//! Why a thread may stand still in the allocator: it must not hold what another waits for. Counted
//! is only what runs within [`watched`] and not within [`unwatched`]: the engine's own code. Our
//! functions, writers and loaders, which lock, log and send, run unwatched. The engine's locks are
//! in an environment and in values, and each environment and each value that is made belongs to one
//! evaluation; what evaluations share (filters, compiled instructions, constants) has no locks.
//! What the engine makes once for the process, behind a lock, is made before the first evaluation
//! (`engine::prepare`). A thread that panics is let through: its hook locks and logs. The allocator
//! below is asked only after the count, so none of its locks is held either.
//!
//! A thread that watches nothing pays for one test of a thread-local flag. In a program whose
//! global allocator is not a [`LimitedAllocator`] nothing is counted, and nothing limited.
//!
//! Invariant: values that are counted when they are made are counted when they are dropped, and the
//! other way round; so functions hand over copies that are made watched. The count never falls
//! below zero.

// `GlobalAlloc` is unsafe to implement. Each method hands its arguments on to the allocator below,
// unchanged, and returns what that returns; so whoever keeps the contract with us has kept it
// there. Between the two there is only the count: it touches plain cells of the thread, which need
// no initialisation and no drop, and never allocates. It may run `set_aside` first, which does not
// return, and does not unwind either: what it runs is caught. It may allocate itself, which is an
// ordinary call from the outside: the flag is down, so it is not counted.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// How often the limit may be held between two places where our own code is asked.
const STOP_FACTOR: usize = 8;

/// What an allocation counts beside its own bytes: its place in the allocator, and the stack that
/// it takes to drop what lies in it.
const OVERHEAD_BYTES: usize = 64;

/// The threads that may be set aside before templates are refused.
const SET_ASIDE_MAX: usize = 8;

/// The threads that were set aside so far.
static SET_ASIDE: AtomicUsize = AtomicUsize::new(0);

struct Account {
    /// Whether allocations are counted now.
    counts: Cell<bool>,
    /// Bytes that are held now.
    held: Cell<usize>,
    /// Bytes that may be held where our own code is asked.
    limit: Cell<usize>,
}

thread_local! {
    static ACCOUNT: Account = const {
        Account { counts: Cell::new(false), held: Cell::new(0), limit: Cell::new(usize::MAX) }
    };
    /// What is to be done when this thread is set aside.
    static STOPPED: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
}

/// An allocator that keeps the limits of templates: the program's global one.
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
            self.set_aside();
        }
    }

    #[cold]
    fn set_aside(&self) -> ! {
        self.counts.set(false);
        SET_ASIDE.fetch_add(1, Ordering::Relaxed);
        let told = catch_unwind(AssertUnwindSafe(|| {
            let stopped = STOPPED.take();
            if let Some(stopped) = stopped {
                stopped();
            }
        }));
        // To drop what a panic carries could panic again.
        std::mem::forget(told);
        loop {
            thread::park();
        }
    }
}

/// Too many threads were set aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exhausted;

/// Evaluates with at most `limit` bytes held. When it must be stopped, `stopped` runs on this
/// thread, which then stands still for good. Not to be nested.
pub(crate) fn watched<T>(
    limit: usize,
    stopped: impl FnOnce() + 'static,
    evaluate: impl FnOnce() -> T,
) -> Result<T, Exhausted> {
    if set_aside() >= SET_ASIDE_MAX {
        return Err(Exhausted);
    }
    STOPPED.set(Some(Box::new(stopped)));
    ACCOUNT.with(|account| {
        account.held.set(0);
        account.limit.set(limit);
    });
    /// Ends the watch, after a panic too.
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            ACCOUNT.with(|account| account.limit.set(usize::MAX));
            STOPPED.set(None);
        }
    }
    let _end = End;
    let _counting = Counting::set(true);
    Ok(evaluate())
}

/// Runs our own code from within an evaluation: it is not counted, and never stopped.
pub(crate) fn unwatched<T>(run: impl FnOnce() -> T) -> T {
    let _pause = Counting::set(false);
    run()
}

/// Counts or does not, until it is dropped.
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

/// Counts bytes that were not allocated here, but are held from here.
pub(crate) fn charge(bytes: usize) {
    ACCOUNT.with(|account| account.charge(bytes));
}

/// They are held no more.
pub(crate) fn refund(bytes: usize) {
    ACCOUNT.with(|account| account.refund(bytes));
}

/// Whether this thread's evaluation holds more than its limit.
pub(crate) fn is_over() -> bool {
    ACCOUNT.with(|account| account.held.get() > account.limit.get())
}

/// The threads that were set aside so far.
pub(crate) fn set_aside() -> usize {
    SET_ASIDE.load(Ordering::Relaxed)
}

#[cfg(test)]
#[global_allocator]
static ALLOCATOR: LimitedAllocator<std::alloc::System> = LimitedAllocator(std::alloc::System);

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn what_is_given_back_counts_no_more() {
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
        // Unwatched, anything goes.
        drop(vec![0_u8; 1 << 24]);
    }

    #[test]
    fn what_grows_without_end_is_set_aside_and_tells_it() {
        let (told, telling) = mpsc::channel();
        let grows = thread::Builder::new().spawn(move || {
            let stopped = move || told.send(()).expect("the test waits");
            let _ = watched(1 << 20, stopped, || {
                let mut held = Vec::new();
                loop {
                    held.push(vec![1_u8; 1 << 10]);
                }
            });
        });
        assert_eq!(telling.recv(), Ok(()));
        assert!(!grows.expect("it starts").is_finished());
        assert!(set_aside() > 0);
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
