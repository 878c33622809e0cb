//! A file in memory below an open file.
//!
//! The regions of shared memory are atomic integers, which may change although the reference is
//! shared; each is a box of its own that does not move, and lives until `xShmUnmap`, after which
//! SQLite does not use it. A database has one connection, so nothing else reads or writes them in
//! the meantime, except [`DiskFiles`](crate::memory_file::DiskFiles), which clears them between
//! transactions.

use std::ffi::{c_int, c_void};
use std::path::Path;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use rusqlite::ffi;

use crate::memory_file::DiskFile;
use crate::open_file::{SharedRegionRequest, VfsFile};
use crate::plan::{FileKind, FileOperation};
use crate::state::{FaultDecision, SharedDisk};

/// The value that SQLite's layer for Unix returns for every file.
const SECTOR_SIZE: c_int = 4_096;

/// A file that a connection has opened.
pub(crate) struct OpenMemoryFile {
    disk: Arc<SharedDisk>,
    place: usize,
    kind: FileKind,
}

impl OpenMemoryFile {
    /// Opens the file, or creates it if `creates`. `None` if it is missing, or open already.
    pub(crate) fn open(disk: &Arc<SharedDisk>, path: &Path, creates: bool) -> Option<Self> {
        let place = disk.files(|files| {
            if !creates && files.find(path).is_none() {
                return None;
            }
            let place = files.place_of(path);
            let opened = files.file(place);
            (!std::mem::replace(&mut opened.is_open, true)).then_some(place)
        });
        Some(Self {
            disk: disk.clone(),
            place: place.flatten()?,
            kind: FileKind::of(path),
        })
    }

    /// Returns `otherwise` if the disk is no longer there.
    fn with_file<T>(&self, otherwise: T, action: impl FnOnce(&mut DiskFile) -> T) -> T {
        let done = self.disk.files(|files| action(files.file(self.place)));
        done.unwrap_or(otherwise)
    }
}

impl VfsFile for OpenMemoryFile {
    fn decide(&self, operation: FileOperation) -> FaultDecision {
        self.disk.decide(operation, self.kind)
    }

    fn close(&self) -> c_int {
        self.with_file((), |file| file.is_open = false);
        ffi::SQLITE_OK
    }

    fn read(&self, buffer: &mut [u8], offset: i64) -> c_int {
        let wanted = buffer.len();
        self.with_file(ffi::SQLITE_IOERR_READ, |file| {
            if file.read(buffer, offset as usize) == wanted {
                ffi::SQLITE_OK
            } else {
                ffi::SQLITE_IOERR_SHORT_READ
            }
        })
    }

    fn write(&self, bytes: &[u8], offset: i64) -> c_int {
        self.with_file((), |file| file.write(bytes, offset as usize));
        ffi::SQLITE_OK
    }

    fn truncate(&self, length: i64) -> c_int {
        self.with_file((), |file| file.cut(length as usize));
        ffi::SQLITE_OK
    }

    fn sync(&self, _flags: c_int) -> c_int {
        self.with_file((), DiskFile::sync);
        ffi::SQLITE_OK
    }

    fn size(&self, result: &mut i64) -> c_int {
        *result = self.with_file(0, |file| file.len() as i64);
        ffi::SQLITE_OK
    }

    /// There is one connection, which waits for no other.
    fn lock(&self, _level: c_int) -> c_int {
        ffi::SQLITE_OK
    }

    fn unlock(&self, _level: c_int) -> c_int {
        ffi::SQLITE_OK
    }

    fn check_reserved_lock(&self, result: &mut c_int) -> c_int {
        *result = 0;
        ffi::SQLITE_OK
    }

    fn control(&self, _operation: c_int, _argument: *mut c_void) -> c_int {
        ffi::SQLITE_NOTFOUND
    }

    fn sector_size(&self) -> c_int {
        SECTOR_SIZE
    }

    fn device_characteristics(&self) -> c_int {
        ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE
    }

    fn map_shared(&self, region: SharedRegionRequest, memory: &mut *mut c_void) -> c_int {
        let number = region.number as usize;
        let words = region.bytes as usize / size_of::<AtomicU32>();
        *memory = self.with_file(ptr::null_mut(), |file| {
            while region.extend != 0 && file.regions.len() <= number {
                let zeros = std::iter::repeat_with(|| AtomicU32::new(0));
                file.regions.push(zeros.take(words).collect());
            }
            let found = file.regions.get(number);
            found.map_or(ptr::null_mut(), |found| found.as_ptr().cast_mut().cast())
        });
        ffi::SQLITE_OK
    }

    /// Counts the locks that are held, which are a transaction's.
    fn lock_shared(&self, _offset: c_int, count: c_int, flags: c_int) -> c_int {
        self.with_file((), |file| {
            let count = count.unsigned_abs();
            if flags & ffi::SQLITE_SHM_LOCK != 0 {
                file.shared_locks += count;
            } else {
                file.shared_locks -= count;
            }
        });
        ffi::SQLITE_OK
    }

    fn order_shared(&self) {
        fence(Ordering::SeqCst);
    }

    fn unmap_shared(&self, _delete: c_int) -> c_int {
        self.with_file((), |file| {
            file.regions.clear();
            file.shared_locks = 0;
        });
        ffi::SQLITE_OK
    }
}
