//! The layer itself: a SQLite VFS that passes every call on to the system's default VFS, except
//! for files of a disk in memory.
//!
//! Safety: an open file of the system is an [`open_file`], directly followed by the file of the
//! system's VFS; [`register`] requests memory for both. All pointers are SQLite's arguments, valid
//! for the call, and are passed on unchanged.
#![allow(unsafe_code)] // the VFS interface of SQLite is one of C

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Once;

use rusqlite::ffi;

use crate::memory_file::DiskFile;
use crate::open_file::{self, OPEN_FILE_BYTES};
use crate::open_memory_file::OpenMemoryFile;
use crate::plan::{FileKind, FileOperation};
use crate::state::{self, FaultDecision, SharedDisk};
use crate::system_file::SystemFile;

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
            vfs.szOsFile += OPEN_FILE_BYTES as c_int;
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

unsafe fn path(name: *const c_char) -> PathBuf {
    if name.is_null() {
        return PathBuf::new(); // a temporary file
    }
    PathBuf::from(OsStr::from_bytes(
        unsafe { CStr::from_ptr(name) }.to_bytes(),
    ))
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
        let disk = state::of(&path);
        if let Some(disk) = &disk
            && let FaultDecision::Fail(effect) =
                disk.decide(FileOperation::Open, FileKind::of(&path))
        {
            return effect.code(ffi::SQLITE_CANTOPEN);
        }
        if let Some(disk) = disk.as_ref().filter(|disk| disk.is_in_memory()) {
            let creates = flags & ffi::SQLITE_OPEN_CREATE != 0;
            let Some(opened) = OpenMemoryFile::open(disk, &path, creates) else {
                return ffi::SQLITE_CANTOPEN;
            };
            open_file::install(file, opened);
            if !out_flags.is_null() {
                *out_flags = flags;
            }
            return ffi::SQLITE_OK;
        }
        let system = system_vfs(vfs);
        let Some(open) = (*system).xOpen else {
            return ffi::SQLITE_CANTOPEN;
        };
        let system_file = open_file::memory_after(file);
        let opened = open(system, name, system_file, flags, out_flags);
        if opened == ffi::SQLITE_OK {
            open_file::install(file, SystemFile::new(path, disk, system_file));
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
                return delete_in_memory(&disk, &path);
            }
            disk.unsynced(|unsynced| unsynced.sync(&path));
        }
        let system = system_vfs(vfs);
        (*system).xDelete.map_or(ffi::SQLITE_IOERR, |delete| {
            delete(system, name, sync_folder)
        })
    }
}

fn delete_in_memory(disk: &SharedDisk, path: &Path) -> c_int {
    let removed = disk.files(|files| files.find(path).map(DiskFile::remove));
    match removed.flatten() {
        Some(()) => ffi::SQLITE_OK,
        None => ffi::SQLITE_IOERR_DELETE_NOENT,
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
            let found =
                disk.files(|files| files.find(&path).is_some_and(|file| file.has_content()));
            *result = found.unwrap_or_default().into();
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
