//! The state of every folder whose disk may fail.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;

use crate::memory_file::DiskFiles;
use crate::plan::{Fault, FaultEffect, FileKind, FileOperation};
use crate::power::Unsynced;

pub(crate) static DISKS: LazyLock<Mutex<HashMap<PathBuf, Arc<SharedDisk>>>> =
    LazyLock::new(Mutex::default);

/// State that the disk's handle and its open files share.
#[derive(Debug, Default)]
pub(crate) struct SharedDisk {
    pub(crate) state: Mutex<DiskState>,
}

#[derive(Debug, Default)]
pub(crate) struct DiskState {
    pub(crate) faults: Vec<Fault>,
    pub(crate) counts: HashMap<FileOperation, u64>,
    pub(crate) has_power: bool,
    pub(crate) unsynced: Unsynced,
    /// The files of a disk in memory.
    pub(crate) files: Option<DiskFiles>,
}

/// The disk that this file is on, if it is a simulated one.
pub(crate) fn of(path: &Path) -> Option<Arc<SharedDisk>> {
    let disks = DISKS.lock();
    path.ancestors()
        .find_map(|folder| disks.get(folder).cloned())
}

/// The disk's decision on an operation.
pub(crate) enum FaultDecision {
    Do,
    Fail(FaultEffect),
}

impl SharedDisk {
    /// Counts the operation and returns the decision on it.
    pub(crate) fn decide(&self, operation: FileOperation, file: FileKind) -> FaultDecision {
        let mut state = self.state.lock();
        *state.counts.entry(operation).or_default() += 1;
        if !state.has_power {
            return FaultDecision::Fail(FaultEffect::Error);
        }
        let due = state
            .faults
            .iter_mut()
            .find_map(|fault| fault.take(operation, file));
        if due == Some(FaultEffect::PowerCut) {
            state.has_power = false;
        }
        drop(state);
        match due {
            None => FaultDecision::Do,
            Some(FaultEffect::Slow(time)) => {
                std::thread::sleep(time);
                FaultDecision::Do
            }
            Some(effect) => FaultDecision::Fail(effect),
        }
    }

    pub(crate) fn is_in_memory(&self) -> bool {
        self.state.lock().files.is_some()
    }

    /// The files, if this disk is one in memory.
    pub(crate) fn files<T>(&self, action: impl FnOnce(&mut DiskFiles) -> T) -> Option<T> {
        self.state.lock().files.as_mut().map(action)
    }

    pub(crate) fn unsynced(&self, change: impl FnOnce(&mut Unsynced)) {
        change(&mut self.state.lock().unsynced);
    }
}
