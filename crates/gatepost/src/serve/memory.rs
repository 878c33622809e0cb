//! Returns memory to the kernel that the start, a reload or a burst has freed.
//!
//! Starting and loading rules allocate many times the memory that they keep. The allocator returns
//! freed memory when it is used again after a while, which an idle server never does: two thirds of
//! such a server's memory was free. So the allocator is called to return all of it at the end of
//! the start and of each loading of rules, and every [`COLLECT_INTERVAL`] the memory that has been
//! free for a while.
//!
//! Code that only the start runs remains mapped too, in pieces of 64 KiB around each used page. It
//! is unmapped from the process; the kernel keeps the file's pages in its cache as long as it has
//! memory for them, and maps code again when it runs again.

// SAFETY of the module: `mi_collect` is the allocator's own function, may be called on any thread
// at any time and frees only what is free already. `madvise` is called for the parts of loaded
// programs that are mapped from their files without the permission to write, as the loader lists
// them: nothing has changed these pages, so that what is read again from the file is the same.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::time::Duration;

use tokio::time::MissedTickBehavior;

/// The interval at which memory that has been free for a while is given back.
const COLLECT_INTERVAL: Duration = Duration::from_secs(10);

unsafe extern "C" {
    /// Frees what this thread holds in reserve, and returns free memory to the kernel: all of it
    /// with `force`, otherwise the memory that has been free for a while.
    fn mi_collect(force: bool);
}

/// Returns all free memory, and unmaps code. To be called after a large task, on its thread.
pub(super) fn give_back() {
    // SAFETY: see the module.
    unsafe { mi_collect(true) };
    unmap_code();
}

/// Returns freed memory periodically; runs until dropped.
pub(super) async fn return_memory_periodically() {
    let mut ticks = tokio::time::interval(COLLECT_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        // SAFETY: see the module.
        unsafe { mi_collect(false) };
    }
}

/// Unmaps the pages of programs and libraries that nothing can have changed; each is mapped again
/// when it is used.
fn unmap_code() {
    // SAFETY: the function only reads what it is given, and only during the call.
    unsafe { libc::dl_iterate_phdr(Some(unmap_object), std::ptr::null_mut()) };
}

/// Unmaps the segments of one object that cannot be written.
unsafe extern "C" fn unmap_object(
    object: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    _data: *mut c_void,
) -> c_int {
    // SAFETY: the loader passes a valid description.
    let object = unsafe { &*object };
    if object.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: the loader's list of the object's segments, which is as long as it says.
    let segments =
        unsafe { std::slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum)) };
    let page = rustix::param::page_size() as u64;
    for segment in segments {
        let is_changed = segment.p_flags & libc::PF_W != 0;
        if segment.p_type != libc::PT_LOAD || is_changed {
            continue;
        }
        let start = (object.dlpi_addr + segment.p_vaddr).next_multiple_of(page);
        let end = (object.dlpi_addr + segment.p_vaddr + segment.p_filesz) / page * page;
        if start < end {
            let length = (end - start) as usize;
            // SAFETY: see the module. A failure leaves the pages mapped.
            unsafe { libc::madvise(start as *mut c_void, length, libc::MADV_DONTNEED) };
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_in_use_keeps_its_content_when_free_memory_is_returned() {
        let text = || {
            let lines = (0..10_000).map(|number| format!("{number:>9}"));
            lines.collect::<Vec<_>>().join("\n")
        };
        let before = text();
        give_back();
        assert_eq!(text(), before);
        give_back();
        assert_eq!(before.len(), 99_999);
    }
}
