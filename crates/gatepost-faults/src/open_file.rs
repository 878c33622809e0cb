//! An open file as SQLite holds it: the methods that SQLite calls, and the faults that replace
//! them. The file below is one of the system ([`crate::system_file`]) or one in memory
//! ([`crate::open_memory_file`]).
//!
//! Safety: SQLite gives each file `szOsFile` zeroed bytes, of which the registration asked for at
//! least [`OPEN_FILE_BYTES`], and calls [`install`] before and `xClose` after every other method.
//! Those bytes hold an [`OpenFile`], which begins with the pointer to its methods, as
//! `sqlite3_file` requires. `below` is a box that [`install`] leaks and `xClose` takes back; the
//! methods were installed with it, so its type is theirs. All other pointers are SQLite's
//! arguments, valid for the call and as long as it says.
#![allow(unsafe_code)] // the VFS interface of SQLite is one of C

use std::ffi::{c_int, c_void};
use std::slice;

use rusqlite::ffi;

use crate::plan::{FaultEffect, FileOperation};
use crate::state::FaultDecision;

/// The size of the memory of an open file.
pub(crate) const OPEN_FILE_BYTES: usize = size_of::<OpenFile<()>>();

#[repr(C)]
struct OpenFile<F> {
    base: ffi::sqlite3_file,
    below: *mut F,
}

/// The file below an open file. Each method returns one of SQLite's codes, unless stated otherwise.
pub(crate) trait VfsFile {
    /// Counts the operation and decides on it.
    fn decide(&self, operation: FileOperation) -> FaultDecision;

    fn close(&self) -> c_int;
    fn read(&self, buffer: &mut [u8], offset: i64) -> c_int;
    fn write(&self, bytes: &[u8], offset: i64) -> c_int;
    fn truncate(&self, length: i64) -> c_int;
    fn sync(&self, flags: c_int) -> c_int;
    fn size(&self, result: &mut i64) -> c_int;
    fn lock(&self, level: c_int) -> c_int;
    fn unlock(&self, level: c_int) -> c_int;
    fn check_reserved_lock(&self, result: &mut c_int) -> c_int;
    fn control(&self, operation: c_int, argument: *mut c_void) -> c_int;

    /// Bytes.
    fn sector_size(&self) -> c_int;

    /// Flags `SQLITE_IOCAP_…`.
    fn device_characteristics(&self) -> c_int;

    fn map_shared(&self, region: SharedRegionRequest, memory: &mut *mut c_void) -> c_int;
    fn lock_shared(&self, offset: c_int, count: c_int, flags: c_int) -> c_int;
    fn order_shared(&self);
    fn unmap_shared(&self, delete: c_int) -> c_int;
}

/// A part of the shared memory that SQLite asks for.
pub(crate) struct SharedRegionRequest {
    pub(crate) number: c_int,
    pub(crate) bytes: c_int,
    /// Not 0: the region is made where it is missing.
    pub(crate) extend: c_int,
}

/// Makes `file` an open file of `below`.
///
/// # Safety
///
/// `file` is what SQLite passed to `xOpen`.
pub(crate) unsafe fn install<F: VfsFile>(file: *mut ffi::sqlite3_file, below: F) {
    unsafe {
        (*file.cast::<OpenFile<F>>()).below = Box::into_raw(Box::new(below));
        (*file).pMethods = OpenFile::<F>::METHODS;
    }
}

/// The memory that follows the open file: the system's own file, if there is one below.
///
/// # Safety
///
/// As for [`install`].
pub(crate) unsafe fn memory_after(file: *mut ffi::sqlite3_file) -> *mut ffi::sqlite3_file {
    unsafe { file.cast::<OpenFile<()>>().add(1).cast() }
}

impl<F: VfsFile> OpenFile<F> {
    const METHODS: &'static ffi::sqlite3_io_methods = &ffi::sqlite3_io_methods {
        // The second version has shared memory and no memory-mapped reads.
        iVersion: 2,
        xClose: Some(close::<F>),
        xRead: Some(read::<F>),
        xWrite: Some(write::<F>),
        xTruncate: Some(truncate::<F>),
        xSync: Some(sync::<F>),
        xFileSize: Some(file_size::<F>),
        xLock: Some(lock::<F>),
        xUnlock: Some(unlock::<F>),
        xCheckReservedLock: Some(check_reserved_lock::<F>),
        xFileControl: Some(file_control::<F>),
        xSectorSize: Some(sector_size::<F>),
        xDeviceCharacteristics: Some(device_characteristics::<F>),
        xShmMap: Some(shm_map::<F>),
        xShmLock: Some(shm_lock::<F>),
        xShmBarrier: Some(shm_barrier::<F>),
        xShmUnmap: Some(shm_unmap::<F>),
        xFetch: None,
        xUnfetch: None,
    };
}

unsafe fn below<'a, F>(file: *mut ffi::sqlite3_file) -> &'a F {
    unsafe { &*(*file.cast::<OpenFile<F>>()).below }
}

unsafe extern "C" fn close<F: VfsFile>(file: *mut ffi::sqlite3_file) -> c_int {
    let below = unsafe { Box::from_raw((*file.cast::<OpenFile<F>>()).below) };
    below.close()
}

unsafe extern "C" fn read<F: VfsFile>(
    file: *mut ffi::sqlite3_file,
    buffer: *mut c_void,
    count: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    let below = unsafe { below::<F>(file) };
    let buffer = unsafe { slice::from_raw_parts_mut(buffer.cast::<u8>(), count as usize) };
    match below.decide(FileOperation::Read) {
        FaultDecision::Do => below.read(buffer, offset),
        FaultDecision::Fail(effect) => effect.code(ffi::SQLITE_IOERR_READ),
    }
}

unsafe extern "C" fn write<F: VfsFile>(
    file: *mut ffi::sqlite3_file,
    bytes: *const c_void,
    count: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    let below = unsafe { below::<F>(file) };
    let bytes = unsafe { slice::from_raw_parts(bytes.cast::<u8>(), count as usize) };
    let (arriving, answer) = match below.decide(FileOperation::Write) {
        FaultDecision::Do => (bytes.len(), ffi::SQLITE_OK),
        FaultDecision::Fail(FaultEffect::Short(part)) => (part, ffi::SQLITE_IOERR_WRITE),
        FaultDecision::Fail(FaultEffect::Torn(part)) => (part, ffi::SQLITE_OK),
        FaultDecision::Fail(effect) => return effect.code(ffi::SQLITE_IOERR_WRITE),
    };
    match below.write(&bytes[..arriving.min(bytes.len())], offset) {
        ffi::SQLITE_OK => answer,
        error => error,
    }
}

unsafe extern "C" fn truncate<F: VfsFile>(
    file: *mut ffi::sqlite3_file,
    length: ffi::sqlite3_int64,
) -> c_int {
    let below = unsafe { below::<F>(file) };
    match below.decide(FileOperation::Truncate) {
        FaultDecision::Do => below.truncate(length),
        FaultDecision::Fail(effect) => effect.code(ffi::SQLITE_IOERR_TRUNCATE),
    }
}

unsafe extern "C" fn sync<F: VfsFile>(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    let below = unsafe { below::<F>(file) };
    match below.decide(FileOperation::Sync) {
        FaultDecision::Do => below.sync(flags),
        FaultDecision::Fail(FaultEffect::Lie) => ffi::SQLITE_OK,
        FaultDecision::Fail(effect) => effect.code(ffi::SQLITE_IOERR_FSYNC),
    }
}

unsafe extern "C" fn file_size<F: VfsFile>(
    file: *mut ffi::sqlite3_file,
    size: *mut ffi::sqlite3_int64,
) -> c_int {
    unsafe { below::<F>(file).size(&mut *size) }
}

unsafe extern "C" fn lock<F: VfsFile>(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    unsafe { below::<F>(file) }.lock(level)
}

unsafe extern "C" fn unlock<F: VfsFile>(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    unsafe { below::<F>(file) }.unlock(level)
}

unsafe extern "C" fn check_reserved_lock<F: VfsFile>(
    file: *mut ffi::sqlite3_file,
    result: *mut c_int,
) -> c_int {
    unsafe { below::<F>(file).check_reserved_lock(&mut *result) }
}

unsafe extern "C" fn file_control<F: VfsFile>(
    file: *mut ffi::sqlite3_file,
    operation: c_int,
    argument: *mut c_void,
) -> c_int {
    unsafe { below::<F>(file) }.control(operation, argument)
}

unsafe extern "C" fn sector_size<F: VfsFile>(file: *mut ffi::sqlite3_file) -> c_int {
    unsafe { below::<F>(file) }.sector_size()
}

unsafe extern "C" fn device_characteristics<F: VfsFile>(file: *mut ffi::sqlite3_file) -> c_int {
    unsafe { below::<F>(file) }.device_characteristics()
}

unsafe extern "C" fn shm_map<F: VfsFile>(
    file: *mut ffi::sqlite3_file,
    number: c_int,
    bytes: c_int,
    extend: c_int,
    memory: *mut *mut c_void,
) -> c_int {
    let region = SharedRegionRequest {
        number,
        bytes,
        extend,
    };
    unsafe { below::<F>(file).map_shared(region, &mut *memory) }
}

unsafe extern "C" fn shm_lock<F: VfsFile>(
    file: *mut ffi::sqlite3_file,
    offset: c_int,
    count: c_int,
    flags: c_int,
) -> c_int {
    unsafe { below::<F>(file) }.lock_shared(offset, count, flags)
}

unsafe extern "C" fn shm_barrier<F: VfsFile>(file: *mut ffi::sqlite3_file) {
    unsafe { below::<F>(file) }.order_shared();
}

unsafe extern "C" fn shm_unmap<F: VfsFile>(file: *mut ffi::sqlite3_file, delete: c_int) -> c_int {
    unsafe { below::<F>(file) }.unmap_shared(delete)
}
