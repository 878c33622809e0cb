//! The layer itself: a SQLite VFS that passes every call on to the system's default VFS.
//!
//! Safety: SQLite gives each file `szOsFile` zeroed bytes, and calls `xOpen` before and `xClose`
//! after every other method. Those bytes hold a [`FaultFile`], directly followed by the file of the
//! system's VFS, whose size [`register`] requested; both start with the pointer to their methods,
//! as `sqlite3_file` requires. `FaultFile::context` is a box that `xOpen` leaks and `xClose` takes
//! back. All other pointers are SQLite's arguments, valid for the call, and are passed on
//! unchanged.
#![allow(unsafe_code)] // the VFS interface of SQLite is one of C

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::ptr;
use std::sync::{Arc, Once};

use rusqlite::ffi;

use crate::memory_vfs;
use crate::plan::{FaultEffect, FileKind, FileOperation};
use crate::state::{self, FaultDecision, SharedDisk};

#[repr(C)]
struct FaultFile {
    base: ffi::sqlite3_file,
    context: *mut Context,
}

/// State of an open file.
struct Context {
    path: PathBuf,
    disk: Option<Arc<SharedDisk>>,
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
    xUnlock: Some(unlock),
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

/// Makes the layer SQLite's default, once per process.
pub(crate) fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the VFS of the system lives as long as the process, and so does ours, which is
        // leaked.
        unsafe {
            let system = ffi::sqlite3_vfs_find(ptr::null());
            assert!(!system.is_null(), "SQLite has a default VFS");
            let mut vfs = ptr::read(system);
            vfs.szOsFile += size_of::<FaultFile>().max(memory_vfs::FILE_BYTES) as c_int;
            vfs.zName = c"faults".as_ptr();
            vfs.pNext = ptr::null_mut();
            vfs.pAppData = system.cast();
            vfs.xOpen = Some(open);
            vfs.xDelete = Some(delete);
            vfs.xAccess = Some(access);
            vfs.xFullPathname = Some(full_pathname);
            let vfs = Box::leak(Box::new(vfs));
            let registered = ffi::sqlite3_vfs_register(vfs, 1);
            assert_eq!(registered, ffi::SQLITE_OK, "the VFS is registered");
        }
    });
}

unsafe fn system_vfs(vfs: *mut ffi::sqlite3_vfs) -> *mut ffi::sqlite3_vfs {
    unsafe { (*vfs).pAppData.cast() }
}

/// The system's file that this file wraps.
unsafe fn system_file(file: *mut ffi::sqlite3_file) -> *mut ffi::sqlite3_file {
    unsafe { file.cast::<FaultFile>().add(1).cast() }
}

unsafe fn context<'a>(file: *mut ffi::sqlite3_file) -> &'a Context {
    unsafe { &*(*file.cast::<FaultFile>()).context }
}

unsafe fn path(name: *const c_char) -> PathBuf {
    if name.is_null() {
        return PathBuf::new(); // a temporary file
    }
    PathBuf::from(OsStr::from_bytes(
        unsafe { CStr::from_ptr(name) }.to_bytes(),
    ))
}

/// Calls a method of the system's file.
macro_rules! pass {
    ($file:expr, $method:ident $(, $argument:expr)*) => {{
        let system = system_file($file);
        match (*(*system).pMethods).$method {
            Some(method) => method(system $(, $argument)*),
            None => ffi::SQLITE_IOERR,
        }
    }};
}

fn decide(context: &Context, operation: FileOperation) -> FaultDecision {
    let disk = context.disk.as_ref();
    disk.map_or(FaultDecision::Do, |disk| {
        disk.decide(operation, FileKind::of(&context.path))
    })
}

unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    unsafe {
        (*file).pMethods = ptr::null(); // nothing to close, unless this goes well
        let path = path(name);
        let context = Context {
            disk: state::of(&path),
            path,
        };
        if let FaultDecision::Fail(effect) = decide(&context, FileOperation::Open) {
            return effect.code(ffi::SQLITE_CANTOPEN);
        }
        if let Some(disk) = context.disk.as_ref().filter(|disk| disk.is_in_memory()) {
            return memory_vfs::open(disk, &context.path, file, flags, out_flags);
        }
        let system = system_vfs(vfs);
        let Some(open) = (*system).xOpen else {
            return ffi::SQLITE_CANTOPEN;
        };
        let opened = open(system, name, system_file(file), flags, out_flags);
        if opened == ffi::SQLITE_OK {
            (*file.cast::<FaultFile>()).context = Box::into_raw(Box::new(context));
            (*file).pMethods = &raw const METHODS;
        }
        opened
    }
}

unsafe extern "C" fn delete(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    sync_folder: c_int,
) -> c_int {
    unsafe {
        let path = path(name);
        if let Some(disk) = state::of(&path) {
            if let FaultDecision::Fail(effect) =
                disk.decide(FileOperation::Delete, FileKind::of(&path))
            {
                return effect.code(ffi::SQLITE_IOERR_DELETE);
            }
            if disk.is_in_memory() {
                return memory_vfs::delete(&disk, &path);
            }
            disk.unsynced(|unsynced| unsynced.sync(&path));
        }
        let system = system_vfs(vfs);
        (*system).xDelete.map_or(ffi::SQLITE_IOERR, |delete| {
            delete(system, name, sync_folder)
        })
    }
}

unsafe extern "C" fn access(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    flags: c_int,
    result: *mut c_int,
) -> c_int {
    unsafe {
        let path = path(name);
        if let Some(disk) = state::of(&path).filter(|disk| disk.is_in_memory()) {
            *result = memory_vfs::is_there(&disk, &path).into();
            return ffi::SQLITE_OK;
        }
        let system = system_vfs(vfs);
        (*system).xAccess.map_or(ffi::SQLITE_IOERR, |access| {
            access(system, name, flags, result)
        })
    }
}

unsafe extern "C" fn full_pathname(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    length: c_int,
    result: *mut c_char,
) -> c_int {
    unsafe {
        let given = CStr::from_ptr(name).to_bytes_with_nul();
        let is_in_memory = state::of(&path(name)).is_some_and(|disk| disk.is_in_memory());
        if is_in_memory && given.len() <= length as usize {
            ptr::copy_nonoverlapping(name, result, given.len());
            return ffi::SQLITE_OK;
        }
        let system = system_vfs(vfs);
        (*system)
            .xFullPathname
            .map_or(ffi::SQLITE_IOERR, |full| full(system, name, length, result))
    }
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    unsafe {
        let closed = pass!(file, xClose);
        drop(Box::from_raw((*file.cast::<FaultFile>()).context));
        closed
    }
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    buffer: *mut c_void,
    count: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    unsafe {
        match decide(context(file), FileOperation::Read) {
            FaultDecision::Do => pass!(file, xRead, buffer, count, offset),
            FaultDecision::Fail(effect) => effect.code(ffi::SQLITE_IOERR_READ),
        }
    }
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    bytes: *const c_void,
    count: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    unsafe {
        let (arriving, answer) = match decide(context(file), FileOperation::Write) {
            FaultDecision::Do => (count, ffi::SQLITE_OK),
            FaultDecision::Fail(FaultEffect::Short(part)) => {
                (count.min(part as c_int), ffi::SQLITE_IOERR_WRITE)
            }
            FaultDecision::Fail(FaultEffect::Torn(part)) => {
                (count.min(part as c_int), ffi::SQLITE_OK)
            }
            FaultDecision::Fail(effect) => return effect.code(ffi::SQLITE_IOERR_WRITE),
        };
        remember_write(file, bytes, arriving, offset);
        match pass!(file, xWrite, bytes, arriving, offset) {
            ffi::SQLITE_OK => answer,
            error => error,
        }
    }
}

/// Records the bytes that are about to be overwritten.
unsafe fn remember_write(
    file: *mut ffi::sqlite3_file,
    bytes: *const c_void,
    count: c_int,
    offset: ffi::sqlite3_int64,
) {
    unsafe {
        let context = context(file);
        let Some(disk) = &context.disk else {
            return;
        };
        let (length, before) = content(file, offset, count);
        let written = std::slice::from_raw_parts(bytes.cast::<u8>(), count as usize).to_vec();
        disk.unsynced(|unsynced| {
            unsynced.write(&context.path, length, offset as u64, before, written);
        });
    }
}

/// The file's length, and its bytes from `offset` to its end.
unsafe fn content(
    file: *mut ffi::sqlite3_file,
    offset: ffi::sqlite3_int64,
    count: c_int,
) -> (u64, Vec<u8>) {
    unsafe {
        let mut length: ffi::sqlite3_int64 = 0;
        let _ = pass!(file, xFileSize, &raw mut length);
        let there = (length - offset).clamp(0, count.into()) as usize;
        let mut before = vec![0_u8; there];
        if there > 0 {
            let _ = pass!(
                file,
                xRead,
                before.as_mut_ptr().cast(),
                there as c_int,
                offset
            );
        }
        (length as u64, before)
    }
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, length: ffi::sqlite3_int64) -> c_int {
    unsafe {
        let context = context(file);
        if let FaultDecision::Fail(effect) = decide(context, FileOperation::Truncate) {
            return effect.code(ffi::SQLITE_IOERR_TRUNCATE);
        }
        if let Some(disk) = &context.disk {
            let (before, tail) = content(file, length, c_int::MAX);
            disk.unsynced(|unsynced| {
                unsynced.truncate(&context.path, before, length as u64, tail);
            });
        }
        pass!(file, xTruncate, length)
    }
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    unsafe {
        let context = context(file);
        match decide(context, FileOperation::Sync) {
            FaultDecision::Fail(FaultEffect::Lie) => return ffi::SQLITE_OK,
            FaultDecision::Fail(effect) => return effect.code(ffi::SQLITE_IOERR_FSYNC),
            FaultDecision::Do => {}
        }
        if let Some(disk) = &context.disk {
            // The power cut is simulated: the layer knows which writes are synced, so there is no
            // need to wait for the real disk of the test machine.
            disk.unsynced(|unsynced| unsynced.sync(&context.path));
            return ffi::SQLITE_OK;
        }
        pass!(file, xSync, flags)
    }
}

unsafe extern "C" fn file_size(
    file: *mut ffi::sqlite3_file,
    size: *mut ffi::sqlite3_int64,
) -> c_int {
    unsafe { pass!(file, xFileSize, size) }
}

unsafe extern "C" fn lock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    unsafe { pass!(file, xLock, level) }
}

unsafe extern "C" fn unlock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    unsafe { pass!(file, xUnlock, level) }
}

unsafe extern "C" fn check_reserved_lock(
    file: *mut ffi::sqlite3_file,
    result: *mut c_int,
) -> c_int {
    unsafe { pass!(file, xCheckReservedLock, result) }
}

unsafe extern "C" fn file_control(
    file: *mut ffi::sqlite3_file,
    operation: c_int,
    argument: *mut c_void,
) -> c_int {
    unsafe { pass!(file, xFileControl, operation, argument) }
}

unsafe extern "C" fn sector_size(file: *mut ffi::sqlite3_file) -> c_int {
    unsafe { pass!(file, xSectorSize) }
}

unsafe extern "C" fn device_characteristics(file: *mut ffi::sqlite3_file) -> c_int {
    unsafe { pass!(file, xDeviceCharacteristics) }
}

unsafe extern "C" fn shm_map(
    file: *mut ffi::sqlite3_file,
    page: c_int,
    page_bytes: c_int,
    extend: c_int,
    memory: *mut *mut c_void,
) -> c_int {
    unsafe { pass!(file, xShmMap, page, page_bytes, extend, memory) }
}

unsafe extern "C" fn shm_lock(
    file: *mut ffi::sqlite3_file,
    offset: c_int,
    count: c_int,
    flags: c_int,
) -> c_int {
    unsafe { pass!(file, xShmLock, offset, count, flags) }
}

unsafe extern "C" fn shm_barrier(file: *mut ffi::sqlite3_file) {
    unsafe {
        let system = system_file(file);
        if let Some(barrier) = (*(*system).pMethods).xShmBarrier {
            barrier(system);
        }
    }
}

unsafe extern "C" fn shm_unmap(file: *mut ffi::sqlite3_file, delete: c_int) -> c_int {
    unsafe { pass!(file, xShmUnmap, delete) }
}
