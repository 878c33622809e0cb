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
