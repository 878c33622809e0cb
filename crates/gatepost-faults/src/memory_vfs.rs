//! Files of a disk in memory, as SQLite uses them.
//!
//! Safety: as in the layer itself, SQLite gives each file `szOsFile` zeroed bytes, of which the
//! registration asked for at least [`FILE_BYTES`], and calls [`open`] before and `xClose` after
//! every other method. Those bytes hold an [`OpenFile`], which begins with the pointer to its
//! methods; its `context` is a box that [`open`] leaks and `xClose` takes back. Buffers that SQLite
//! passes are valid for the call and as long as it says. The regions of shared memory are atomic
//! integers, which may change behind a shared reference; each is a box of its own that does not
//! move, and lives until `xShmUnmap`, after which SQLite does not use it. A database has one
//! connection, so nothing else reads or writes them in the meantime, except
//! [`DiskFiles`](crate::memory_file::MemoryFiles), which clears them between transactions.
#![allow(unsafe_code)] // the VFS interface of SQLite is one of C

use std::ffi::{c_int, c_void};
use std::path::Path;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use rusqlite::ffi;

use crate::memory_file::DiskFile;
use crate::plan::{FaultEffect, FileKind, FileOperation};
use crate::state::{FaultDecision, SharedDisk};

/// The size of the memory of an open file.
pub(crate) const FILE_BYTES: usize = size_of::<OpenFile>();
/// As SQLite's layer for Unix says of every file.
const SECTOR_SIZE: c_int = 4_096;

#[repr(C)]
struct OpenFile {
    base: ffi::sqlite3_file,
    context: *mut MemoryContext,
}

struct MemoryContext {
    disk: Arc<SharedDisk>,
    place: usize,
    kind: FileKind,
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    // The second version has shared memory and no memory-mapped reads.
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(lock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

impl MemoryContext {
    fn decide(&self, operation: FileOperation) -> FaultDecision {
        self.disk.decide(operation, self.kind)
    }

    fn with_file<T>(&self, action: impl FnOnce(&mut DiskFile) -> T) -> Option<T> {
        self.disk.files(|files| action(files.file(self.place)))
    }
}

unsafe fn context<'a>(file: *mut ffi::sqlite3_file) -> &'a MemoryContext {
    unsafe { &*(*file.cast::<OpenFile>()).context }
}

/// Opens or creates. A second connection is refused.
///
/// # Safety
///
/// `file` is what SQLite passed to `xOpen`, and `out_flags` too.
pub(crate) unsafe fn open(
    disk: &Arc<SharedDisk>,
    path: &Path,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    let place = disk.files(|files| {
        let creates = flags & ffi::SQLITE_OPEN_CREATE != 0;
        if !creates && files.find(path).is_none() {
            return None;
        }
        let place = files.place_of(path);
        let opened = files.file(place);
        (!std::mem::replace(&mut opened.is_open, true)).then_some(place)
    });
    let Some(place) = place.flatten() else {
        return ffi::SQLITE_CANTOPEN;
    };
    let context = MemoryContext {
        disk: disk.clone(),
        place,
        kind: FileKind::of(path),
    };
    unsafe {
        (*file.cast::<OpenFile>()).context = Box::into_raw(Box::new(context));
        (*file).pMethods = &raw const METHODS;
        if !out_flags.is_null() {
            *out_flags = flags;
        }
    }
    ffi::SQLITE_OK
}

pub(crate) fn delete(disk: &SharedDisk, path: &Path) -> c_int {
    let removed = disk.files(|files| files.find(path).map(DiskFile::remove));
    match removed.flatten() {
        Some(()) => ffi::SQLITE_OK,
        None => ffi::SQLITE_IOERR_DELETE_NOENT,
    }
}

pub(crate) fn is_there(disk: &SharedDisk, path: &Path) -> bool {
    let found = disk.files(|files| files.find(path).is_some_and(|file| file.has_content()));
    found.unwrap_or_default()
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    unsafe {
        let context = Box::from_raw((*file.cast::<OpenFile>()).context);
        context.with_file(|file| file.is_open = false);
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    buffer: *mut c_void,
    count: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    let (context, buffer) = unsafe {
        let buffer = slice::from_raw_parts_mut(buffer.cast::<u8>(), count as usize);
        (context(file), buffer)
    };
    if let FaultDecision::Fail(effect) = context.decide(FileOperation::Read) {
        return effect.code(ffi::SQLITE_IOERR_READ);
    }
    let wanted = buffer.len();
    match context.with_file(|file| file.read(buffer, offset as usize)) {
        Some(count) if count == wanted => ffi::SQLITE_OK,
        Some(_) => ffi::SQLITE_IOERR_SHORT_READ,
        None => ffi::SQLITE_IOERR_READ,
    }
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    bytes: *const c_void,
    count: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    let (context, bytes) = unsafe {
        let bytes = slice::from_raw_parts(bytes.cast::<u8>(), count as usize);
        (context(file), bytes)
    };
    let (arriving, answer) = match context.decide(FileOperation::Write) {
        FaultDecision::Do => (bytes.len(), ffi::SQLITE_OK),
        FaultDecision::Fail(FaultEffect::Short(part)) => (part, ffi::SQLITE_IOERR_WRITE),
        FaultDecision::Fail(FaultEffect::Torn(part)) => (part, ffi::SQLITE_OK),
        FaultDecision::Fail(effect) => return effect.code(ffi::SQLITE_IOERR_WRITE),
    };
    let arriving = &bytes[..arriving.min(bytes.len())];
    context.with_file(|file| file.write(arriving, offset as usize));
    answer
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, length: ffi::sqlite3_int64) -> c_int {
    let context = unsafe { context(file) };
    if let FaultDecision::Fail(effect) = context.decide(FileOperation::Truncate) {
        return effect.code(ffi::SQLITE_IOERR_TRUNCATE);
    }
    context.with_file(|file| file.cut(length as usize));
    ffi::SQLITE_OK
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, _flags: c_int) -> c_int {
    let context = unsafe { context(file) };
    match context.decide(FileOperation::Sync) {
        FaultDecision::Fail(FaultEffect::Lie) => return ffi::SQLITE_OK,
        FaultDecision::Fail(effect) => return effect.code(ffi::SQLITE_IOERR_FSYNC),
        FaultDecision::Do => {}
    }
    context.with_file(DiskFile::sync);
    ffi::SQLITE_OK
}

unsafe extern "C" fn file_size(
    file: *mut ffi::sqlite3_file,
    size: *mut ffi::sqlite3_int64,
) -> c_int {
    unsafe {
        let length = context(file).with_file(|file| file.len());
        *size = length.unwrap_or_default() as ffi::sqlite3_int64;
    }
    ffi::SQLITE_OK
}

/// There is one connection, which waits for no other.
const unsafe extern "C" fn lock(_file: *mut ffi::sqlite3_file, _level: c_int) -> c_int {
    ffi::SQLITE_OK
}

const unsafe extern "C" fn check_reserved_lock(
    _file: *mut ffi::sqlite3_file,
    result: *mut c_int,
) -> c_int {
    unsafe { *result = 0 };
    ffi::SQLITE_OK
}

const unsafe extern "C" fn file_control(
    _file: *mut ffi::sqlite3_file,
    _operation: c_int,
    _argument: *mut c_void,
) -> c_int {
    ffi::SQLITE_NOTFOUND
}

const unsafe extern "C" fn sector_size(_file: *mut ffi::sqlite3_file) -> c_int {
    SECTOR_SIZE
}

const unsafe extern "C" fn device_characteristics(_file: *mut ffi::sqlite3_file) -> c_int {
    ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE
}

unsafe extern "C" fn shm_map(
    file: *mut ffi::sqlite3_file,
    region: c_int,
    region_bytes: c_int,
    extend: c_int,
    memory: *mut *mut c_void,
) -> c_int {
    let context = unsafe { context(file) };
    let region = region as usize;
    let words = region_bytes as usize / size_of::<AtomicU32>();
    let address = context.with_file(|file| {
        while extend != 0 && file.regions.len() <= region {
            let zeros = std::iter::repeat_with(|| AtomicU32::new(0));
            file.regions.push(zeros.take(words).collect());
        }
        let region = file.regions.get(region);
        region.map_or(std::ptr::null_mut(), |region| region.as_ptr().cast_mut())
    });
    unsafe { *memory = address.map_or(std::ptr::null_mut(), <*mut AtomicU32>::cast) };
    ffi::SQLITE_OK
}

/// Counts the locks that are held, which are a transaction's.
unsafe extern "C" fn shm_lock(
    file: *mut ffi::sqlite3_file,
    _offset: c_int,
    count: c_int,
    flags: c_int,
) -> c_int {
    let context = unsafe { context(file) };
    context.with_file(|file| {
        let count = count.unsigned_abs();
        if flags & ffi::SQLITE_SHM_LOCK != 0 {
            file.shared_locks += count;
        } else {
            file.shared_locks -= count;
        }
    });
    ffi::SQLITE_OK
}

unsafe extern "C" fn shm_barrier(_file: *mut ffi::sqlite3_file) {
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

unsafe extern "C" fn shm_unmap(file: *mut ffi::sqlite3_file, _delete: c_int) -> c_int {
    let context = unsafe { context(file) };
    context.with_file(|file| {
        file.regions.clear();
        file.shared_locks = 0;
    });
    ffi::SQLITE_OK
}
