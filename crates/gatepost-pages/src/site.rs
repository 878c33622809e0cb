//! The folders of one host, with their content cache.
//!
//! [`Site::fresh`] answers from memory and never accesses the disk, so an I/O thread may call it
//! for every request; usually it uses the thread's own copy (`front.rs`). [`Site::load`] reads
//! content that is not cached, or was not compared with the disk for the time `recheck`, on a
//! thread that may block.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;
use parking_lot::RwLock;

use crate::clock;
use crate::encoding::Encoding;
use crate::engine::{Engine, PageLimits};
use crate::entry::{CachedPath, CheckTime, PathContent};
use crate::error::TemplateError;
use crate::file::StaticFile;
use crate::front;
use crate::gzip;
use crate::listing;
use crate::memory_file::MemoryFiles;
use crate::mime::is_compressible;
use crate::mounted::mount_prefix;
use crate::page::{CompiledPage, PageSegments};
use crate::readers::{PathAccess, ReaderTable};
use crate::resolve::{FileStamp, LocatedContent, Root};
use crate::settings::{PagesSettings, Recheck};
use crate::template::{self, TemplateNode};
use crate::values::ValueSource;

static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);

/// The folders of one host.
pub struct Site {
    /// The longest prefix first; the last one is empty.
    roots: Vec<(String, Arc<Root>)>,
    access: ReaderTable,
    /// Whether it is the site of hosts without one of their own.
    is_default: bool,
    values: Arc<dyn ValueSource>,
    settings: Arc<PagesSettings>,
    memory_files: Arc<MemoryFiles>,
    cache: RwLock<HashMap<Box<str>, Arc<CachedPath>>>,
    cached_bytes: AtomicUsize,
    /// Distinguishes the sites in the threads' own copies.
    number: u64,
}

impl Site {
    /// The site at `path`, with the mounted folders of the settings.
    pub(crate) fn new(
        path: &Path,
        settings: &Arc<PagesSettings>,
        values: &Arc<dyn ValueSource>,
        memory_files: &Arc<MemoryFiles>,
    ) -> Self {
        let root = |path: &Path, templates: bool| {
            let root = Root::new(path, settings.follow_symlinks).with_templates(templates);
            Arc::new(root.with_listings(settings.listings))
        };
        let mut roots: Vec<_> = settings
            .mounts
            .iter()
            .filter_map(|(path, mounted)| {
                Some((mount_prefix(path)?, root(&mounted.path, mounted.templates)))
            })
            .collect();
        roots.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        roots.push((String::new(), root(path, true)));
        Self {
            roots,
            access: ReaderTable::new(&settings.access),
            is_default: path == settings.path,
            values: Arc::clone(values),
            settings: Arc::clone(settings),
            memory_files: Arc::clone(memory_files),
            cache: RwLock::default(),
            cached_bytes: AtomicUsize::new(0),
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// The content of a decoded path, if it is in memory and need not be compared now.
    pub fn fresh(&self, path: &str) -> Option<Arc<CachedPath>> {
        if let Some(own) = front::find(self.number, path) {
            return (!self.is_due(&own)).then_some(own);
        }
        let entry = self.cache.read().get(path).map(Arc::clone)?;
        let due = self.is_due(&entry);
        (!due).then(|| front::keep(self.number, path, entry))
    }

    fn is_due(&self, entry: &CachedPath) -> bool {
        match self.settings.recheck {
            Recheck::Manual => false,
            Recheck::Always => true,
            Recheck::After(period) => {
                entry.checked.age_ms(clock::coarse_ms()) >= period.duration().as_millis() as u64
            }
        }
    }

    /// Compares the content of a decoded path with the disk and reads it if it changed. Blocks on
    /// the disk.
    pub fn load(&self, path: &str) -> Option<Arc<CachedPath>> {
        let cached = self.cache.read().get(path).map(Arc::clone);
        if let Some(entry) = cached
            && entry.is_unchanged()
        {
            entry.checked.again(clock::coarse_ms());
            return Some(entry);
        }
        let Some(entry) = self.read(path) else {
            self.forget(path);
            return None;
        };
        let entry = Arc::new(entry);
        self.remember(path, &entry);
        Some(entry)
    }

    /// Empties the cache: the next request of each path reads its file again.
    pub(crate) fn reload(&self) {
        let mut cache = self.cache.write();
        retire_all(&mut cache);
        self.cached_bytes.store(0, Ordering::Relaxed);
    }

    /// The folder that contains a path, and the path relative to it.
    fn root_of<'a>(&self, path: &'a str) -> Option<(&str, &Arc<Root>, &'a str)> {
        self.roots.iter().find_map(|(prefix, root)| {
            let rest = path.strip_prefix(prefix.as_str())?;
            // A mount's own URL without the slash is that of a folder.
            let is_whole = rest.is_empty() || rest.starts_with('/');
            is_whole.then_some((prefix.as_str(), root, rest))
        })
    }

    /// The visitors who may read a decoded path at which there is nothing: the answer to others
    /// must not show that.
    pub fn access_of_missing(&self, path: &str) -> PathAccess {
        if self.access.is_empty() {
            return PathAccess::default();
        }
        self.access.of(&[path.to_owned()])
    }

    /// The visitors who may read a file or folder of a root: by its path on the site and, if it is
    /// reached by a link, also by the path of the link's target.
    fn access_of(&self, prefix: &str, root: &Root, file: &Path) -> PathAccess {
        if self.access.is_empty() {
            return PathAccess::default();
        }
        let on_site = |file: &Path| format!("{prefix}/{}", file.to_string_lossy());
        let target = root.target(file).map(|target| on_site(&target));
        let paths: Vec<_> = std::iter::once(on_site(file)).chain(target).collect();
        self.access.of(&paths)
    }

    /// The listing of a folder, without entries that have other rules than the folder.
    fn listing(&self, path: &str, (prefix, root): (&str, &Root), folder: &Path) -> Bytes {
        let readers = |file: &Path| {
            let access = self.access_of(prefix, root, file);
            let rules = access.rules().iter();
            rules.map(|rule| rule.readers.clone()).collect::<Vec<_>>()
        };
        let own = readers(folder);
        let mut names = root.list(folder);
        names.retain(|(name, _)| {
            let theirs = readers(&folder.join(name));
            theirs.is_empty() || theirs == own
        });
        listing::html(path, &names).into()
    }

    fn read(&self, path: &str) -> Option<CachedPath> {
        let checked = Arc::new(CheckTime::at(clock::coarse_ms()));
        let (prefix, root, rest) = self.root_of(path)?;
        let located = match rest {
            "" => match root.locate("/") {
                LocatedContent::Nothing => LocatedContent::Nothing,
                _ => LocatedContent::Folder,
            },
            rest => root.locate(rest),
        };
        let mut beside = Vec::new();
        let (content, file, stamp) = match located {
            LocatedContent::File(file) if root.is_template(&file) => {
                let (content, stamp) = self.read_page(root, &file, &mut beside)?;
                (content, file, stamp)
            }
            LocatedContent::File(file) => {
                let (content, stamp) = self.read_file(root, &file, &mut beside)?;
                (PathContent::File(content), file, stamp)
            }
            LocatedContent::Folder => {
                let folder = PathBuf::from(rest.trim_matches('/'));
                let stamp = root.stamp(&folder)?;
                (PathContent::Folder, folder, stamp)
            }
            // The address of the dashboard.
            LocatedContent::Listing(_) if path == "/" && self.is_default => return None,
            LocatedContent::Listing(folder) => {
                let stamp = root.stamp(&folder)?;
                let html = self.listing(path, (prefix, root), &folder);
                (PathContent::Listing(html), folder, stamp)
            }
            LocatedContent::Nothing => return None,
        };
        Some(CachedPath {
            content,
            access: self.access_of(prefix, root, &file),
            name: path.into(),
            root: Arc::clone(root),
            file,
            stamp,
            beside,
            checked,
        })
    }

    fn read_page(
        &self,
        root: &Arc<Root>,
        file: &Path,
        beside: &mut Vec<(PathBuf, Option<FileStamp>)>,
    ) -> Option<(PathContent, FileStamp)> {
        let (source, stamp) = root.read(file, self.settings.output_max.bytes())?;
        let compress_min = self
            .settings
            .compress
            .then(|| self.settings.compress_min.as_usize());
        let page = match template::split(&source) {
            // A page that is the same for every request is a file, which browsers may keep.
            Some(pieces) if pieces.iter().all(TemplateNode::is_static) => {
                let found = StaticFile::in_memory(&file.to_string_lossy(), stamp, source);
                let content = self.completed(root, found, stamp, beside);
                return Some((PathContent::File(content), stamp));
            }
            Some(pieces) => {
                let pieces = PageSegments::new(pieces, compress_min);
                CompiledPage::Pieces(
                    pieces.filed(|longest| self.memory_files.make(&source, longest)),
                )
            }
            None => self.compile(root, file, &source),
        };
        Some((PathContent::Page(page), stamp))
    }

    fn compile(&self, root: &Arc<Root>, file: &Path, source: &Bytes) -> CompiledPage {
        let name = file.to_string_lossy();
        let limits = PageLimits {
            steps: self.settings.steps_max,
            output_bytes: self.settings.output_max.as_usize(),
            memory_bytes: self.settings.memory_max.as_usize(),
            time: self.settings.time_max.duration(),
        };
        let compiled = std::str::from_utf8(source)
            .map_err(|error| TemplateError {
                file: name.to_string(),
                line: 1 + memchr::memchr_iter(
                    b'\n',
                    source.get(..error.valid_up_to()).unwrap_or_default(),
                )
                .count(),
                detail: "the template is not UTF-8 text".to_owned(),
            })
            .and_then(|text| Engine::new(root, &name, text.to_owned(), &self.values, limits));
        match compiled {
            Ok(engine) => CompiledPage::Engine(Arc::new(engine)),
            Err(error) => {
                tracing::error!(target: "pages", "{error}");
                CompiledPage::Broken(error)
            }
        }
    }

    fn read_file(
        &self,
        root: &Root,
        file: &Path,
        beside: &mut Vec<(PathBuf, Option<FileStamp>)>,
    ) -> Option<(StaticFile, FileStamp)> {
        let (found, stamp) = self.read_one(root, file)?;
        Some((self.completed(root, found, stamp, beside), stamp))
    }

    /// The file with its other codings, and with long content also in a file in memory.
    fn completed(
        &self,
        root: &Root,
        mut found: StaticFile,
        stamp: FileStamp,
        beside: &mut Vec<(PathBuf, Option<FileStamp>)>,
    ) -> StaticFile {
        if self.settings.compress && is_compressible(found.mime) {
            self.add_beside(root, &mut found, stamp, beside);
            self.add_gzip(&mut found, stamp);
        }
        self.move_to_memory_file(&mut found);
        for variant in &mut found.variants {
            self.move_to_memory_file(&mut variant.file);
        }
        found
    }

    fn move_to_memory_file(&self, file: &mut StaticFile) {
        let content = file.content.as_ref();
        file.file = content.and_then(|content| self.memory_files.make(content, content.len()));
    }

    fn read_one(&self, root: &Root, file: &Path) -> Option<(StaticFile, FileStamp)> {
        let stamp = root.stamp(file)?;
        let name = file.to_string_lossy();
        let cached_max = self.settings.cached_file_max.bytes();
        if stamp.length > cached_max {
            return Some((StaticFile::on_disk(&name, stamp), stamp));
        }
        let (content, stamp) = root.read(file, cached_max)?;
        Some((StaticFile::in_memory(&name, stamp, content), stamp))
    }

    /// Adds the precompressed files that are beside the original and not older.
    fn add_beside(
        &self,
        root: &Root,
        found: &mut StaticFile,
        original: FileStamp,
        beside: &mut Vec<(PathBuf, Option<FileStamp>)>,
    ) {
        for encoding in Encoding::ALL {
            let mut name = found.path.clone().into_os_string();
            name.push(encoding.suffix());
            let path = PathBuf::from(name);
            let there = root.stamp(&path);
            beside.push((path.clone(), there));
            if there.is_some_and(|stamp| stamp.modified >= original.modified)
                && let Some((file, stamp)) = self.read_one(root, &path)
            {
                found.add_variant(encoding, stamp, file.content);
            }
        }
    }

    /// Compresses content in memory, once, if no precompressed file exists.
    fn add_gzip(&self, found: &mut StaticFile, original: FileStamp) {
        let mut variants = found.variants.iter();
        let has_gzip = variants.any(|variant| variant.encoding == Encoding::Gzip);
        let worth = found.length >= self.settings.compress_min.bytes();
        let Some(content) = found.content.as_ref().filter(|_| worth && !has_gzip) else {
            return;
        };
        let compressed = gzip::compress(content, gzip::ONCE);
        if let Some(compressed) = compressed.filter(|smaller| smaller.len() < content.len()) {
            let stamp = FileStamp {
                modified: original.modified,
                length: compressed.len() as u64,
            };
            found.add_variant(Encoding::Gzip, stamp, Some(compressed.into()));
        }
    }

    fn remember(&self, path: &str, entry: &Arc<CachedPath>) {
        let mut cache = self.cache.write();
        let added = entry.weight(path);
        let total = self.cached_bytes.fetch_add(added, Ordering::Relaxed) + added;
        if total > self.settings.cache_max.as_usize() {
            // Rare and simple: entries in use are loaded again by their next request.
            retire_all(&mut cache);
            self.cached_bytes.store(added, Ordering::Relaxed);
        }
        if let Some(replaced) = cache.insert(path.into(), Arc::clone(entry)) {
            self.retire(path, &replaced);
        }
    }

    /// Retires an entry that was removed from the cache, under the cache's lock.
    fn retire(&self, path: &str, removed: &CachedPath) {
        removed.checked.retire();
        self.cached_bytes
            .fetch_sub(removed.weight(path), Ordering::Relaxed);
    }

    fn forget(&self, path: &str) {
        // Most unknown paths have no entry: there is no need to lock out other threads.
        if !self.cache.read().contains_key(path) {
            return;
        }
        let mut cache = self.cache.write();
        if let Some(forgotten) = cache.remove(path) {
            self.retire(path, &forgotten);
        }
    }
}

fn retire_all(cache: &mut HashMap<Box<str>, Arc<CachedPath>>) {
    for (_, entry) in cache.drain() {
        entry.checked.retire();
    }
}
