//! Memory that a call holds outside of its virtual machine: publications and changes of the
//! message.
//!
//! The machine's own limit does not include this memory, so it has a separate limit of the same
//! size. Data that outlives the function that made it is charged here before it is copied.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use mlua::Error;

/// The account of one machine.
pub(super) struct HostMemory {
    bytes_held: AtomicUsize,
    bytes_max: usize,
}

impl HostMemory {
    pub(super) const fn new(bytes_max: usize) -> Self {
        Self {
            bytes_held: AtomicUsize::new(0),
            bytes_max,
        }
    }

    /// The most that a call may hold.
    pub(super) const fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// The memory that the current call holds.
    pub(super) fn bytes_held(&self) -> usize {
        self.bytes_held.load(Relaxed)
    }

    /// Counts `bytes` towards the limit.
    ///
    /// # Errors
    /// The limit would be exceeded; nothing was counted.
    pub(super) fn charge(&self, bytes: usize) -> mlua::Result<()> {
        // A machine runs on one thread at a time, so no other change intervenes.
        let held = self.bytes_held.load(Relaxed).saturating_add(bytes);
        if held > self.bytes_max {
            return Err(Error::runtime(format!(
                "the procedure used more memory than it may: what it publishes and changes has \
                 more than {} bytes",
                self.bytes_max
            )));
        }
        self.bytes_held.store(held, Relaxed);
        Ok(())
    }

    /// Begins a call: releases the memory of the last one.
    pub(super) fn clear(&self) {
        self.bytes_held.store(0, Relaxed);
    }
}
