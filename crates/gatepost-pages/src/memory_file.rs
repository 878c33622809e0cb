//! Long constant content in a second form: a file in memory, from which the kernel can send it.
//!
//! The kernel copies the bytes that a program writes to a socket, but sends those of a file without
//! a copy. From some tens of kilobytes on this copy is most of the cost of a response, so the
//! static bytes of large pages and files are written to a file in memory once, when they are read.
//!
//! Invariants: such a file is sealed once it is written, so the data that a socket still refers to
//! does not change, even after the page is removed. Each file uses a descriptor, so their number is
//! limited by a setting; beyond the limit the bytes are written as usual.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

/// Creates the files, and counts them.
#[derive(Debug)]
pub(crate) struct MemoryFiles {
    open: Arc<AtomicUsize>,
    open_max: usize,
    part_min: usize,
}

impl MemoryFiles {
    /// At most `open_max` at a time, for parts of at least `part_min` bytes.
    pub(crate) fn new(open_max: usize, part_min: usize) -> Self {
        Self {
            open: Arc::default(),
            open_max,
            part_min,
        }
    }

    /// A file that contains `bytes`; `None` if a file has no advantage, or the limit is reached.
    /// `longest` is the longest part that will be sent.
    pub(crate) fn make(&self, bytes: &Bytes, longest: usize) -> Option<Arc<MemoryFile>> {
        if longest < self.part_min.max(1) {
            return None;
        }
        let place = DescriptorPermit::take(&self.open, self.open_max)?;
        match sealed(bytes) {
            Ok(file) => Some(Arc::new(MemoryFile {
                file,
                of: bytes.clone(),
                part_min: self.part_min,
                _place: place,
            })),
            Err(error) => {
                tracing::debug!(target: "pages", %error, "no file in memory: its bytes are copied");
                None
            }
        }
    }
}

fn sealed(bytes: &[u8]) -> std::io::Result<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut file = File::from(memfd_create("gatepost-page", flags)?);
    file.write_all(bytes)?;
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    fcntl_add_seals(&file, seals)?;
    Ok(file)
}

/// The permit for a descriptor.
#[derive(Debug)]
struct DescriptorPermit(Arc<AtomicUsize>);

impl DescriptorPermit {
    fn take(open: &Arc<AtomicUsize>, max: usize) -> Option<Self> {
        let taken = open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |open| {
            (open < max).then_some(open + 1)
        });
        taken.is_ok().then(|| Self(Arc::clone(open)))
    }
}

impl Drop for DescriptorPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Bytes in a file in memory.
#[derive(Debug)]
pub struct MemoryFile {
    file: File,
    of: Bytes,
    part_min: usize,
    _place: DescriptorPermit,
}

impl MemoryFile {
    /// The offset of `part`, a slice of the bytes from which the file was made; `None` for other
    /// slices, and for slices so short that writing them costs the same.
    pub fn place_of(&self, part: &Bytes) -> Option<u64> {
        if part.len() < self.part_min {
            return None;
        }
        // The address identifies a slice of a buffer.
        let start = (part.as_ptr() as usize).checked_sub(self.of.as_ptr() as usize)?;
        (start + part.len() <= self.of.len()).then_some(start as u64)
    }

    /// Its memory.
    pub(crate) const fn length(&self) -> usize {
        self.of.len()
    }
}

impl AsFd for MemoryFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// The same bytes with a reference count of their own, so that clones on different threads do not
/// share a cache line.
pub(crate) fn recounted(bytes: &Bytes) -> Bytes {
    Bytes::from_owner(bytes.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn parts_are_found_where_they_lie() {
        let files = MemoryFiles::new(1, 4);
        let all = Bytes::from_static(b"0123456789");
        let file = files.make(&all, all.len()).expect("a file in memory");
        assert_eq!(file.place_of(&all.slice(3..)), Some(3));
        assert_eq!(file.place_of(&all.slice(8..)), None, "too short");
        assert_eq!(file.place_of(&Bytes::from(b"3456".to_vec())), None);
        let mut text = String::new();
        let mut reader = &file.file;
        std::io::Seek::rewind(&mut reader).expect("a file");
        reader.read_to_string(&mut text).expect("text");
        assert_eq!(text, "0123456789");
        assert!((&file.file).write_all(b"x").is_err(), "it is sealed");
    }

    #[test]
    fn there_are_no_more_than_are_allowed() {
        let files = MemoryFiles::new(1, 4);
        let bytes = Bytes::from_static(b"0123456789");
        let first = files.make(&bytes, 10);
        assert!(first.is_some());
        assert!(files.make(&bytes, 10).is_none());
        drop(first);
        assert!(files.make(&bytes, 3).is_none(), "nothing is gained");
        assert!(files.make(&bytes, 10).is_some());
    }
}
