//! Files that exist in memory only: their contents, the synced part of them, and their state after
//! a crash.
//!
//! A file has two contents: the one that is read, and the one that was synced. Changes since the
//! last sync are kept in their order. A power cut begins with the synced content, and makes some
//! sectors of those changes again. No file needs a system call, so that a simulation can run
//! thousands of schedules in a second.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::power::sectors;

/// The header of the index that SQLite has of a write-ahead log (136 bytes), in the first region.
const INDEX_HEADER_WORDS: usize = 34;

/// The files of a disk in memory. A removed file keeps its place, so that the places of open files
/// stay as they are.
#[derive(Debug, Default)]
pub(crate) struct DiskFiles {
    files: Vec<DiskFile>,
}

/// A part of the memory that the connections of a database share, which SQLite writes by itself.
pub(crate) type SharedRegion = Box<[AtomicU32]>;

#[derive(Debug, Default)]
pub(crate) struct DiskFile {
    path: PathBuf,
    pub(crate) is_there: bool,
    /// A database has one connection: memory that several connections share is not simulated.
    pub(crate) is_open: bool,
    /// Locks of shared memory that are held: a transaction is open.
    pub(crate) shared_locks: u32,
    pub(crate) regions: Vec<SharedRegion>,
    content: Vec<u8>,
    synced: Vec<u8>,
    unsynced: Vec<UnsyncedChange>,
}

#[derive(Debug)]
enum UnsyncedChange {
    Write { offset: usize, bytes: Vec<u8> },
    Cut { length: usize },
}

/// The contents of a disk's files.
#[derive(Debug, Clone)]
pub struct DiskImage(Vec<(PathBuf, Vec<u8>)>);

impl DiskFiles {
    pub(crate) fn file(&mut self, index: usize) -> &mut DiskFile {
        &mut self.files[index]
    }

    pub(crate) fn find(&mut self, path: &Path) -> Option<&mut DiskFile> {
        let known = self.files.iter_mut().find(|file| file.path == path);
        known.filter(|file| file.is_there)
    }

    /// The place of this file, which is created if it is missing.
    pub(crate) fn place_of(&mut self, path: &Path) -> usize {
        let known = self.files.iter().position(|file| file.path == path);
        let index = known.unwrap_or_else(|| {
            self.files.push(DiskFile {
                path: path.to_owned(),
                ..DiskFile::default()
            });
            self.files.len() - 1
        });
        self.files[index].is_there = true;
        index
    }

    pub(crate) fn image(&self) -> DiskImage {
        let there = self.files.iter().filter(|file| file.is_there);
        let contents = there.map(|file| (file.path.clone(), file.content.clone()));
        DiskImage(contents.collect())
    }

    /// The files have their content from the time of the image, and all of it is synced.
    pub(crate) fn load(&mut self, image: &DiskImage) {
        for file in &mut self.files {
            file.remove();
        }
        for (path, bytes) in &image.0 {
            let index = self.place_of(path);
            let file = &mut self.files[index];
            file.content.extend_from_slice(bytes);
            file.synced.extend_from_slice(bytes);
        }
        self.forget_shared_memory();
    }

    pub(crate) fn settle(&mut self, choose: &mut dyn FnMut() -> bool) {
        for file in self.files.iter_mut().filter(|file| file.is_there) {
            file.settle(choose);
        }
        self.forget_shared_memory();
    }

    /// As after the end of every process. A connection that is still open finds its index of the
    /// write-ahead log empty, reads the log again, and drops all pages that it knew. The header is
    /// enough: SQLite writes the rest again before it reads it.
    fn forget_shared_memory(&self) {
        for file in &self.files {
            assert_eq!(file.shared_locks, 0, "a transaction is open");
            let header = file.regions.first().into_iter().flatten();
            for word in header.take(INDEX_HEADER_WORDS) {
                word.store(0, Ordering::Relaxed);
            }
        }
    }
}

impl DiskFile {
    /// Only a file with content counts, as in SQLite's layer for Unix.
    pub(crate) const fn has_content(&self) -> bool {
        self.is_there && !self.content.is_empty()
    }

    pub(crate) const fn len(&self) -> usize {
        self.content.len()
    }

    /// Fills the buffer and returns the number of bytes read. The rest is zero.
    pub(crate) fn read(&self, buffer: &mut [u8], offset: usize) -> usize {
        let there = self.content.get(offset..).unwrap_or_default();
        let count = there.len().min(buffer.len());
        buffer[..count].copy_from_slice(&there[..count]);
        buffer[count..].fill(0);
        count
    }

    pub(crate) fn write(&mut self, bytes: &[u8], offset: usize) {
        put(&mut self.content, offset, bytes);
        let bytes = bytes.to_vec();
        self.unsynced.push(UnsyncedChange::Write { offset, bytes });
    }

    pub(crate) fn cut(&mut self, length: usize) {
        self.content.truncate(length);
        self.unsynced.push(UnsyncedChange::Cut { length });
    }

    pub(crate) fn sync(&mut self) {
        for change in self.unsynced.drain(..) {
            match change {
                UnsyncedChange::Write { offset, bytes } => put(&mut self.synced, offset, &bytes),
                UnsyncedChange::Cut { length } => self.synced.truncate(length),
            }
        }
    }

    pub(crate) fn remove(&mut self) {
        self.is_there = false;
        self.content.clear();
        self.synced.clear();
        self.unsynced.clear();
    }

    fn settle(&mut self, choose: &mut dyn FnMut() -> bool) {
        for change in self.unsynced.drain(..) {
            match change {
                UnsyncedChange::Write { offset, bytes } => {
                    for part in sectors(offset, bytes.len()) {
                        if choose() {
                            let start = offset + part.start;
                            put(&mut self.synced, start, &bytes[part]);
                        }
                    }
                }
                UnsyncedChange::Cut { length } => {
                    if choose() {
                        self.synced.truncate(length);
                    }
                }
            }
        }
        self.content.clone_from(&self.synced);
    }
}

/// Writes into the content, which grows as a file does.
fn put(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    if content.len() < offset {
        content.resize(offset, 0);
    }
    let replaced = bytes.len().min(content.len() - offset);
    let (over, beyond) = bytes.split_at(replaced);
    content[offset..offset + replaced].copy_from_slice(over);
    content.extend_from_slice(beyond);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(choices: &[bool]) -> Vec<u8> {
        let mut files = DiskFiles::default();
        let index = files.place_of(Path::new("/a"));
        files.file(index).write(&[1; 1_024], 0);
        files.file(index).sync();
        files.file(index).write(&[2; 600], 300);
        files.file(index).cut(700);
        let mut choices = choices.iter();
        files.settle(&mut || *choices.next().expect("a choice"));
        files.file(index).content.clone()
    }

    #[test]
    fn a_power_cut_decides_on_each_sector_and_cut() {
        let whole = [&[1; 300][..], &[2; 600], &[1; 124]].concat();
        assert_eq!(settled(&[false, false, false]), [1; 1_024]);
        assert_eq!(settled(&[true, true, false]), whole);
        assert_eq!(settled(&[true, true, true]), whole[..700]);
        let second = [&[1; 512][..], &[2; 388], &[1; 124]].concat();
        assert_eq!(settled(&[false, true, false]), second);
    }

    #[test]
    fn an_image_equals_the_contents_of_the_files() {
        let mut files = DiskFiles::default();
        let index = files.place_of(Path::new("/a"));
        files.file(index).write(b"one", 2);
        let image = files.image();
        files.file(index).write(b"another", 0);
        let index = files.place_of(Path::new("/b"));
        files.load(&image);
        assert!(!files.file(index).is_there);
        files.settle(&mut || unreachable!("all is synced"));
        let mut read = [9; 6];
        let file = files.find(Path::new("/a")).expect("it is there");
        assert_eq!((file.read(&mut read, 0), read), (5, *b"\0\0one\0"));
    }
}
