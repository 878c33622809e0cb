//! Fetching memory into the cache before it is needed.
//!
//! In a fan-out each delivery is to another session, and the `send` before it has replaced most of
//! the cache. Without a prefetch the delivery waits for main memory three times, which takes longer
//! than all its instructions.

// One operation here is unsafe, and sound for every address: a prefetch is a hint, which neither
// changes memory nor faults.
#![allow(unsafe_code)]

/// Bytes of a cache line.
pub(crate) const CACHE_LINE_BYTES: usize = 64;

/// Starts to fetch the cache line at which `value` begins, or one of the following `line` lines.
#[inline]
pub(crate) fn prefetch<T: ?Sized>(value: &T, line: usize) {
    let address = std::ptr::from_ref(value)
        .cast::<i8>()
        .wrapping_add(line * CACHE_LINE_BYTES);
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint for any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address) };
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a hint for any address.
    unsafe {
        std::arch::asm!(
            "prfm pldl1keep, [{address}]",
            address = in(reg) address,
            options(nostack, preserves_flags, readonly),
        );
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}

/// Starts to fetch all cache lines of `value`.
#[inline]
pub(crate) fn prefetch_all<T: ?Sized>(value: &T) {
    for line in 0..size_of_val(value).div_ceil(CACHE_LINE_BYTES) {
        prefetch(value, line);
    }
}

/// A receiver of publications, whose memory may be in no cache.
pub(crate) trait Prefetch {
    /// Fetches what a delivery uses of the receiver itself.
    fn prefetch(&self);

    /// Fetches what the receiver refers to, after [`Prefetch::prefetch`] has had time for the
    /// reference.
    fn prefetch_referents(&self);
}

/// Receivers whose memory is fetched at once: the processor walks their page tables at the same
/// time, while one prefetch waits for its own.
const PREFETCHED_AT_ONCE: usize = 8;

/// Iterates over items that have a receiver each, with the memory of the next ones on its way into
/// the cache.
#[inline]
pub(crate) fn prefetched<T, R: Prefetch>(
    items: &[T],
    receiver: fn(&T) -> &R,
) -> impl Iterator<Item = &T> {
    // The memory of a few is needed too soon.
    let are_many = items.len() > PREFETCHED_AT_ONCE;
    items.iter().enumerate().map(move |(index, item)| {
        if are_many && index % PREFETCHED_AT_ONCE == 0 {
            prefetch_next(&items[index..], receiver);
        }
        item
    })
}

/// Fetches the referents of the first items, and the receivers of those after them.
#[inline(never)]
fn prefetch_next<T, R: Prefetch>(items: &[T], receiver: fn(&T) -> &R) {
    let (now, later) = items.split_at(items.len().min(PREFETCHED_AT_ONCE));
    for item in later.iter().take(PREFETCHED_AT_ONCE) {
        receiver(item).prefetch();
    }
    for item in now {
        receiver(item).prefetch_referents();
    }
}
