//! The disk of one folder, as a test handles it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::plan::{Fault, Operation};
use crate::state::{DISKS, SharedDisk};
use crate::vfs;

/// The disk below one folder. Dropped, it works without faults again.
#[derive(Debug)]
pub struct Disk {
    folder: PathBuf,
    shared: Arc<SharedDisk>,
}

impl Disk {
    /// Puts the layer below this folder, for databases that are opened from now on.
    pub fn at(folder: &Path) -> Self {
        vfs::register();
        let folder = folder
            .canonicalize()
            .unwrap_or_else(|_| folder.to_path_buf());
        let shared = Arc::new(SharedDisk::default());
        shared.state.lock().has_power = true;
        DISKS.lock().insert(folder.clone(), shared.clone());
        Self { folder, shared }
    }

    /// Adds a fault. The first that is due decides.
    pub fn inject(&self, fault: Fault) {
        self.shared.state.lock().faults.push(fault);
    }

    /// Removes all faults. Writes that only seemed to be synced stay unsynced.
    pub fn heal(&self) {
        self.shared.state.lock().faults.clear();
    }

    /// How many such operations were asked for, well done or not.
    pub fn count(&self, operation: Operation) -> u64 {
        let state = self.shared.state.lock();
        state.counts.get(&operation).copied().unwrap_or_default()
    }

    /// Cuts the power: from now on every operation fails and does nothing. Close all databases of
    /// the folder, then call [`Disk::restore_power`].
    pub fn cut_power(&self) {
        self.shared.state.lock().has_power = false;
    }

    /// Leaves the files as a power cut may leave them: what was synced is there, and of every other
    /// write `choose` says for each sector of 512 bytes whether it arrived. No database of the
    /// folder may be open.
    pub fn restore_power(&self, choose: &mut dyn FnMut() -> bool) -> std::io::Result<()> {
        let mut state = self.shared.state.lock();
        state.faults.clear();
        state.has_power = true;
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
