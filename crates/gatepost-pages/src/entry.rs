//! The content of one path in the cache of a site.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use crate::encoding::Encoding;
use crate::file::StaticFile;
use crate::memory_file::MemoryFile;
use crate::page::CompiledPage;
use crate::readers::PathAccess;
use crate::resolve::{FileStamp, Root};

/// The content of a path.
#[derive(Debug)]
pub enum PathContent {
    /// A template.
    Page(CompiledPage),
    /// A static file.
    File(StaticFile),
    /// The listing of a folder, as HTML.
    Listing(Bytes),
    /// A folder, whose URL ends with a slash.
    Folder,
}

/// The content of a path when it was last read.
#[derive(Debug)]
pub struct CachedPath {
    /// The content.
    pub content: PathContent,
    /// The visitors who may read it.
    pub access: PathAccess,
    /// The key of the page for page workers.
    pub(crate) name: Arc<str>,
    pub(crate) root: Arc<Root>,
    pub(crate) file: PathBuf,
    pub(crate) stamp: FileStamp,
    /// The precompressed files beside it, with their states at that time.
    pub(crate) beside: Vec<(PathBuf, Option<FileStamp>)>,
    pub(crate) checked: Arc<CheckTime>,
}

/// A file that was opened to be sent.
#[derive(Debug)]
pub struct OpenedFile {
    /// The file.
    pub file: std::fs::File,
    /// Its header texts, if it has changed since the entry was read: those of the entry describe
    /// another content.
    pub changed: Option<StaticFile>,
}

impl CachedPath {
    /// Opens a file that is not kept in memory: the entry's own, or its variant in this coding.
    /// Blocks on the disk.
    pub fn open(&self, encoding: Option<Encoding>) -> Option<OpenedFile> {
        let PathContent::File(own) = &self.content else {
            return None;
        };
        let known = match encoding {
            None => own,
            Some(encoding) => {
                let mut variants = own.variants.iter();
                &variants.find(|variant| variant.encoding == encoding)?.file
            }
        };
        let (file, now) = self.root.open(&known.path)?;
        let changed = known.changed(now, encoding);
        Some(OpenedFile { file, changed })
    }

    pub(crate) fn is_unchanged(&self) -> bool {
        let same = |file: &Path, stamp: Option<FileStamp>| self.root.stamp(file) == stamp;
        let beside = || self.beside.iter().all(|(file, stamp)| same(file, *stamp));
        same(&self.file, Some(self.stamp))
            && beside()
            && match &self.content {
                PathContent::Page(CompiledPage::Engine(engine)) => !engine.is_stale(&self.root),
                // A file that did not exist then may exist now; and the time of a folder does not
                // change with the sizes and times of its files.
                PathContent::Page(CompiledPage::Broken(_))
                | PathContent::Folder
                | PathContent::Listing(_) => false,
                _ => true,
            }
    }

    /// A copy with reference counts of its own; `None` for content that is made for each request.
    pub(crate) fn unshared_copy(&self) -> Option<Self> {
        let content = match &self.content {
            PathContent::Page(CompiledPage::Pieces(pieces)) => {
                PathContent::Page(CompiledPage::Pieces(pieces.unshared_copy()))
            }
            PathContent::File(file) => PathContent::File(file.unshared_copy()),
            _ => return None,
        };
        Some(Self {
            content,
            access: self.access.clone(),
            name: self.name.as_ref().into(),
            root: Arc::clone(&self.root),
            file: self.file.clone(),
            stamp: self.stamp,
            beside: self.beside.clone(),
            checked: Arc::clone(&self.checked),
        })
    }

    /// Its approximate memory.
    pub(crate) fn weight(&self, path: &str) -> usize {
        let content = match &self.content {
            PathContent::File(file) => {
                let variants = file.variants.iter().map(|variant| &variant.file);
                let all = std::iter::once(file).chain(variants);
                all.map(|file| {
                    let content = file.content.as_ref().map_or(0, Bytes::len);
                    content + file.file.as_deref().map_or(0, MemoryFile::length)
                })
                .sum()
            }
            PathContent::Listing(html) => html.len(),
            PathContent::Page(CompiledPage::Pieces(pieces)) => {
                self.stamp.length as usize + pieces.filed_bytes()
            }
            _ => self.stamp.length as usize,
        };
        content + path.len()
    }
}

/// The time at which an entry was last compared with the disk. All copies of it share this time.
#[derive(Debug)]
pub(crate) struct CheckTime(AtomicU64);

impl CheckTime {
    /// Not a time, but a mark that the entry was replaced.
    const RETIRED: u64 = u64::MAX;

    pub(crate) const fn at(now_ms: u64) -> Self {
        Self(AtomicU64::new(now_ms))
    }

    /// The entry was compared now, and had not changed.
    pub(crate) fn again(&self, now_ms: u64) {
        // An entry that was retired in the meantime stays retired.
        let _ = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |checked| {
                (checked != Self::RETIRED).then_some(now_ms)
            });
    }

    pub(crate) fn retire(&self) {
        self.0.store(Self::RETIRED, Ordering::Release);
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.0.load(Ordering::Acquire) == Self::RETIRED
    }

    /// The age of the last comparison.
    pub(crate) fn age_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.0.load(Ordering::Relaxed))
    }
}
