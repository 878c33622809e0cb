//! The disk of one folder, as a test controls it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::memory_file::{DiskFiles, DiskImage};
use crate::plan::{Fault, FileOperation};
use crate::state::{DISKS, SharedDisk};
use crate::vfs;

/// The disk below one folder. When this is dropped, the disk works without faults again.
#[derive(Debug)]
pub struct Disk {
    folder: PathBuf,
    shared: Arc<SharedDisk>,
}

impl Disk {
    /// Installs the layer for this folder, for databases that are opened from now on.
    pub fn at(folder: &Path) -> Self {
        let canonical = folder.canonicalize();
        let folder = canonical.unwrap_or_else(|_| folder.to_path_buf());
        Self::new(folder, None)
    }

    /// A disk whose files are in memory, below a folder that no file system has. Each database has
    /// one connection.
    pub fn in_memory() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = PathBuf::from(format!("/disk in memory {number}"));
        Self::new(folder, Some(DiskFiles::default()))
    }

    fn new(folder: PathBuf, files: Option<DiskFiles>) -> Self {
        vfs::register();
        let shared = Arc::new(SharedDisk::default());
        let mut state = shared.state.lock();
        state.has_power = true;
        state.files = files;
        drop(state);
        DISKS.lock().insert(folder.clone(), shared.clone());
        Self { folder, shared }
    }

    /// The folder whose files are on this disk.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The contents of the files of a disk in memory; `None` for another disk.
    pub fn image(&self) -> Option<DiskImage> {
        self.shared.files(|files| files.image())
    }

    /// Restores the files of a disk in memory from the image, and removes all others. No
    /// transaction may be open.
    pub fn load(&self, image: &DiskImage) {
        self.shared.files(|files| files.load(image));
    }

    /// Adds a fault. The first that is due decides.
    pub fn inject(&self, fault: Fault) {
        self.shared.state.lock().faults.push(fault);
    }

    /// Removes all faults. Writes that only seemed to be synced stay unsynced.
    pub fn remove_faults(&self) {
        self.shared.state.lock().faults.clear();
    }

    /// The number of operations of this kind that were requested, failed ones included.
    pub fn count(&self, operation: FileOperation) -> u64 {
        let state = self.shared.state.lock();
        state.counts.get(&operation).copied().unwrap_or_default()
    }

    /// Cuts the power: from now on every operation fails and does nothing. Close all databases of
    /// the folder, then call [`Disk::restore_power`]. The connections of a disk in memory may stay
    /// open without a transaction: their next transaction finds the same state as a new process
    /// would.
    pub fn cut_power(&self) {
        self.shared.state.lock().has_power = false;
    }

    /// Leaves the files as a power cut may leave them: all synced data is on disk, and for each
    /// sector of 512 bytes of every other write `choose` decides whether it is. No database of the
    /// folder may be open; on a disk in memory, no transaction.
    pub fn restore_power(&self, choose: &mut dyn FnMut() -> bool) -> std::io::Result<()> {
        let mut state = self.shared.state.lock();
        state.faults.clear();
        state.has_power = true;
        if let Some(files) = &mut state.files {
            files.settle(choose);
        }
        std::mem::take(&mut state.unsynced).settle(choose)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let mut disks = DISKS.lock();
        if disks
            .get(&self.folder)
            .is_some_and(|shared| Arc::ptr_eq(shared, &self.shared))
        {
            disks.remove(&self.folder);
        }
    }
}
