//! Writes that were not synced, and which of them survive a power cut.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A disk writes a sector whole or not at all.
const SECTOR_BYTES: usize = 512;

/// The changes of each file since its last sync, in their order.
#[derive(Debug, Default)]
pub(crate) struct Unsynced {
    files: HashMap<PathBuf, Vec<UnsyncedWrite>>,
}

#[derive(Debug)]
struct UnsyncedWrite {
    length_before: u64,
    offset: u64,
    /// The previous bytes from `offset` on.
    before: Vec<u8>,
    /// The bytes that were written there; `None` if the file was truncated at `offset`.
    written: Option<Vec<u8>>,
}

impl Unsynced {
    /// `before` contains the bytes that were overwritten, up to the end of the file.
    pub(crate) fn write(
        &mut self,
        path: &Path,
        length_before: u64,
        offset: u64,
        before: Vec<u8>,
        written: Vec<u8>,
    ) {
        self.push(path, length_before, offset, before, Some(written));
    }

    /// `before` contains the bytes that were cut off.
    pub(crate) fn truncate(
        &mut self,
        path: &Path,
        length_before: u64,
        offset: u64,
        before: Vec<u8>,
    ) {
        self.push(path, length_before, offset, before, None);
    }

    fn push(
        &mut self,
        path: &Path,
        length_before: u64,
        offset: u64,
        before: Vec<u8>,
        written: Option<Vec<u8>>,
    ) {
        self.files
            .entry(path.to_owned())
            .or_default()
            .push(UnsyncedWrite {
                length_before,
                offset,
                before,
                written,
            });
    }

    pub(crate) fn sync(&mut self, path: &Path) {
        self.files.remove(path);
    }

    /// Reverts every change, then repeats those that reached the disk.
    pub(crate) fn settle(self, choose: &mut dyn FnMut() -> bool) -> io::Result<()> {
        // In a fixed order, so that the same choices have the same result.
        let mut files: Vec<_> = self.files.into_iter().collect();
        files.sort_by(|one, other| one.0.cmp(&other.0));
        for (path, changes) in files {
            let Ok(file) = OpenOptions::new().write(true).open(&path) else {
                continue; // removed meanwhile
            };
            for change in changes.iter().rev() {
                file.set_len(change.length_before.max(change.offset))?;
                file.write_all_at(&change.before, change.offset)?;
                file.set_len(change.length_before)?;
            }
            for change in &changes {
                change.make_again(&file, choose)?;
            }
        }
        Ok(())
    }
}

impl UnsyncedWrite {
    fn make_again(&self, file: &File, choose: &mut dyn FnMut() -> bool) -> io::Result<()> {
        let Some(written) = &self.written else {
            return if choose() {
                file.set_len(self.offset)
            } else {
                Ok(())
            };
        };
        for part in sectors(self.offset as usize, written.len()) {
            if choose() {
                let start = self.offset + part.start as u64;
                file.write_all_at(&written[part], start)?;
            }
        }
        Ok(())
    }
}

/// The parts of a write that share a sector each: ranges of its bytes.
pub(crate) fn sectors(offset: usize, length: usize) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let next = ((offset + start) / SECTOR_BYTES + 1) * SECTOR_BYTES - offset;
        let part = start..next.min(length);
        start = part.end;
        (!part.is_empty()).then_some(part)
    })
}
