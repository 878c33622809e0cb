//! The operations that fail, and the kind of failure.

use std::ffi::c_int;
use std::path::Path;
use std::time::Duration;

use rusqlite::ffi;

/// An operation on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileOperation {
    /// Opening or creating a file.
    Open,
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// `fsync` or `fdatasync`.
    Sync,
    /// Changing the length.
    Truncate,
    /// Removing a file.
    Delete,
}

impl FileOperation {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Open,
        Self::Read,
        Self::Write,
        Self::Sync,
        Self::Truncate,
        Self::Delete,
    ];
}

/// The kind of a database's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// The database itself.
    Database,
    /// Its write-ahead log.
    Log,
}

impl FileKind {
    pub(crate) fn of(path: &Path) -> Self {
        if path.as_os_str().as_encoded_bytes().ends_with(b"-wal") {
            Self::Log
        } else {
            Self::Database
        }
    }
}

/// The fault that replaces the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultEffect {
    /// EIO: the operation has no effect.
    Error,
    /// ENOSPC: the operation has no effect.
    Full,
    /// EMFILE, for [`FileOperation::Open`].
    NoDescriptor,
    /// Only this many bytes are written, and an error is returned.
    Short(usize),
    /// Only this many bytes are written, and success is returned: the state that a power cut
    /// leaves.
    Torn(usize),
    /// A sync that does nothing and returns success.
    Lie,
    /// As [`Disk::cut_power`](crate::Disk::cut_power), at this operation, which has no effect.
    PowerCut,
    /// The operation is performed after this time.
    Slow(Duration),
}

impl FaultEffect {
    /// SQLite's code of the fault.
    pub(crate) const fn code(self, otherwise: c_int) -> c_int {
        match self {
            Self::Full => ffi::SQLITE_FULL,
            Self::NoDescriptor => ffi::SQLITE_CANTOPEN,
            _ => otherwise,
        }
    }
}

/// A fault of the disk.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    pub(crate) operation: FileOperation,
    pub(crate) effect: FaultEffect,
    pub(crate) file: Option<FileKind>,
    pub(crate) skip: u64,
    pub(crate) times: u64,
}

impl Fault {
    /// A fault of every such operation on every file, from now on.
    pub const fn new(operation: FileOperation, effect: FaultEffect) -> Self {
        Self {
            operation,
            effect,
            file: None,
            skip: 0,
            times: u64::MAX,
        }
    }

    /// Restricts the fault to files of this kind.
    #[must_use]
    pub const fn on(mut self, file: FileKind) -> Self {
        self.file = Some(file);
        self
    }

    /// Delays the fault until this many such operations have succeeded.
    #[must_use]
    pub const fn after(mut self, count: u64) -> Self {
        self.skip = count;
        self
    }

    /// Limits the number of times that the fault occurs.
    #[must_use]
    pub const fn times(mut self, count: u64) -> Self {
        self.times = count;
        self
    }

    /// The effect on this operation, if the fault is due.
    pub(crate) fn take(&mut self, operation: FileOperation, file: FileKind) -> Option<FaultEffect> {
        if self.operation != operation || self.file.is_some_and(|kind| kind != file) {
            return None;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        if self.times == 0 {
            return None;
        }
        self.times -= 1;
        Some(self.effect)
    }
}
