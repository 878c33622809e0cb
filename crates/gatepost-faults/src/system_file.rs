//! A file of the system below an open file: every call is passed on, and the writes that were not
//! synced are remembered.
//!
//! Safety: `system` points to the memory that follows the open file, whose size
//! [`crate::vfs::register`] requested. The system's VFS has opened it before a [`SystemFile`] is
//! made, and it is closed once, by [`VfsFile::close`], after which SQLite calls nothing. Pointers
//! of SQLite are passed on unchanged.
#![allow(unsafe_code)] // the VFS interface of SQLite is one of C

use std::ffi::{c_int, c_void};
use std::path::PathBuf;
use std::sync::Arc;

use rusqlite::ffi;

use crate::open_file::{SharedRegionRequest, VfsFile};
use crate::plan::{FileKind, FileOperation};
use crate::state::{FaultDecision, SharedDisk};

/// A file that the system's VFS has opened.
pub(crate) struct SystemFile {
    path: PathBuf,
    /// Absent for a file of another folder.
    disk: Option<Arc<SharedDisk>>,
    system: *mut ffi::sqlite3_file,
}

/// Calls a method of the system's file.
macro_rules! pass {
    ($self:expr, $method:ident $(, $argument:expr)*) => {
        // SAFETY: see the head of this file.
        unsafe {
            match (*(*$self.system).pMethods).$method {
                Some(method) => method($self.system $(, $argument)*),
                None => ffi::SQLITE_IOERR,
            }
        }
    };
}

impl SystemFile {
    /// # Safety
    ///
    /// The system's VFS has opened `system`, which lives until it is closed.
    pub(crate) const unsafe fn new(
        path: PathBuf,
        disk: Option<Arc<SharedDisk>>,
        system: *mut ffi::sqlite3_file,
    ) -> Self {
        Self { path, disk, system }
    }

    /// The file's length, and at most `count` of its bytes from `offset` on.
    fn content(&self, offset: i64, count: usize) -> (u64, Vec<u8>) {
        let mut length = 0;
        let _ = self.size(&mut length);
        let there = usize::try_from(length - offset).unwrap_or_default();
        let mut before = vec![0_u8; there.min(count)];
        if !before.is_empty() {
            let _ = self.read(&mut before, offset);
        }
        (length as u64, before)
    }
}

impl VfsFile for SystemFile {
    fn decide(&self, operation: FileOperation) -> FaultDecision {
        let disk = self.disk.as_ref();
        disk.map_or(FaultDecision::Do, |disk| {
            disk.decide(operation, FileKind::of(&self.path))
        })
    }

    fn close(&self) -> c_int {
        pass!(self, xClose)
    }

    fn read(&self, buffer: &mut [u8], offset: i64) -> c_int {
        let count = buffer.len() as c_int;
        pass!(self, xRead, buffer.as_mut_ptr().cast(), count, offset)
    }

    fn write(&self, bytes: &[u8], offset: i64) -> c_int {
        if let Some(disk) = &self.disk {
            let (length, before) = self.content(offset, bytes.len());
            disk.unsynced(|unsynced| {
                let written = bytes.to_vec();
                unsynced.write(&self.path, length, offset as u64, before, written);
            });
        }
        let count = bytes.len() as c_int;
        pass!(self, xWrite, bytes.as_ptr().cast(), count, offset)
    }

    fn truncate(&self, length: i64) -> c_int {
        if let Some(disk) = &self.disk {
            let (before, tail) = self.content(length, c_int::MAX as usize);
            disk.unsynced(|unsynced| {
                unsynced.truncate(&self.path, before, length as u64, tail);
            });
        }
        pass!(self, xTruncate, length)
    }

    fn sync(&self, flags: c_int) -> c_int {
        if let Some(disk) = &self.disk {
            // The power cut is simulated: the layer knows which writes are synced, so there is no
            // need to wait for the real disk of the test machine.
            disk.unsynced(|unsynced| unsynced.sync(&self.path));
            return ffi::SQLITE_OK;
        }
        pass!(self, xSync, flags)
    }

    fn size(&self, result: &mut i64) -> c_int {
        pass!(self, xFileSize, result)
    }

    fn lock(&self, level: c_int) -> c_int {
        pass!(self, xLock, level)
    }

    fn unlock(&self, level: c_int) -> c_int {
        pass!(self, xUnlock, level)
    }

    fn check_reserved_lock(&self, result: &mut c_int) -> c_int {
        pass!(self, xCheckReservedLock, result)
    }

    fn control(&self, operation: c_int, argument: *mut c_void) -> c_int {
        pass!(self, xFileControl, operation, argument)
    }

    fn sector_size(&self) -> c_int {
        pass!(self, xSectorSize)
    }

    fn device_characteristics(&self) -> c_int {
        pass!(self, xDeviceCharacteristics)
    }

    fn map_shared(&self, region: SharedRegionRequest, memory: &mut *mut c_void) -> c_int {
        let SharedRegionRequest {
            number,
            bytes,
            extend,
        } = region;
        pass!(self, xShmMap, number, bytes, extend, memory)
    }

    fn lock_shared(&self, offset: c_int, count: c_int, flags: c_int) -> c_int {
        pass!(self, xShmLock, offset, count, flags)
    }

    fn order_shared(&self) {
        // SAFETY: see the head of this file.
        unsafe {
            if let Some(barrier) = (*(*self.system).pMethods).xShmBarrier {
                barrier(self.system);
            }
        }
    }

    fn unmap_shared(&self, delete: c_int) -> c_int {
        pass!(self, xShmUnmap, delete)
    }
}
