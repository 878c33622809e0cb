//! The folders of one host, with their content cache.
//!
//! [`Site::fresh`] answers from memory and never touches the disk, so an I/O thread may call it
//! for every request; what it does not know, or has not checked for as long as `recheck` says,
//! [`Site::load`] reads on a thread that may block.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use bytes::Bytes;
use parking_lot::RwLock;

use crate::encoding::Encoding;
use crate::engine::{Engine, Limits, TemplateError};
use crate::file::StaticFile;
use crate::gzip;
use crate::listing;
use crate::mime::is_compressible;
use crate::page::{Page, Pieces};
use crate::resolve::{Located, Root, Stamp};
use crate::settings::{PagesSettings, Recheck};
use crate::template;
use crate::values::Values;

/// What a path holds.
#[derive(Debug)]
pub enum Content {
    /// A template.
    Page(Page),
    /// A file served as it is.
    File(StaticFile),
    /// What is in a folder, as HTML.
    Listing(Bytes),
    /// A folder, whose address ends in a slash.
    Folder,
}

/// A path's content as it was when last read.
#[derive(Debug)]
pub struct Entry {
    /// The content.
    pub content: Content,
    /// What page workers know the page by.
    pub(crate) name: Arc<str>,
    root: Arc<Root>,
    file: PathBuf,
    stamp: Stamp,
    /// The files in other codings beside it, as they were then.
    beside: Vec<(PathBuf, Option<Stamp>)>,
    /// When it was last compared with the disk, in milliseconds since the cache began.
    checked_ms: AtomicU64,
}

impl Entry {
    /// Opens a file that is not kept in memory: the entry's own or one of its variants. Blocks
    /// on the disk.
    pub fn open(&self, file: &StaticFile) -> Option<std::fs::File> {
        self.root.open(&file.path).map(|(file, _)| file)
    }

    fn is_unchanged(&self) -> bool {
        let same = |file: &Path, stamp: Option<Stamp>| self.root.stamp(file) == stamp;
        let beside = || self.beside.iter().all(|(file, stamp)| same(file, *stamp));
        same(&self.file, Some(self.stamp))
            && beside()
            && match &self.content {
                Content::Page(Page::Engine(engine)) => !engine.is_stale(&self.root),
                // What was missing may be there now.
                Content::Page(Page::Broken(_)) | Content::Folder => false,
                _ => true,
            }
    }

    /// The memory that it takes, more or less.
    fn weight(&self, path: &str) -> usize {
        let content = match &self.content {
            Content::File(file) => {
                let variants = file.variants.iter().map(|variant| &variant.file);
                let all = std::iter::once(file).chain(variants);
                all.filter_map(|file| file.content.as_ref())
                    .map(Bytes::len)
                    .sum()
            }
            Content::Listing(html) => html.len(),
            _ => self.stamp.length as usize,
        };
        content + path.len()
    }
}

/// The folders of one host.
pub struct Site {
    /// The longest prefix first; the last one is empty.
    roots: Vec<(String, Arc<Root>)>,
    values: Arc<dyn Values>,
    settings: Arc<PagesSettings>,
    cache: RwLock<HashMap<Box<str>, Arc<Entry>>>,
    cached_bytes: AtomicUsize,
    began: Instant,
}

impl Site {
    /// The site at `path`, with the mounted folders of the settings.
    pub(crate) fn new(
        path: &Path,
        settings: &Arc<PagesSettings>,
        values: &Arc<dyn Values>,
    ) -> Self {
        let root = |path: &Path| {
            let root = Root::new(path, settings.follow_symlinks);
            Arc::new(root.with_listings(settings.listings))
        };
        let mut roots: Vec<_> = settings
            .mounts
            .iter()
            .map(|(prefix, path)| (format!("/{}", prefix.trim_matches('/')), root(path)))
            .filter(|(prefix, _)| prefix != "/")
            .collect();
        roots.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        roots.push((String::new(), root(path)));
        Self {
            roots,
            values: Arc::clone(values),
            settings: Arc::clone(settings),
            cache: RwLock::default(),
            cached_bytes: AtomicUsize::new(0),
            began: Instant::now(),
        }
    }

    /// The content of a decoded path, if it is in memory and need not be checked now.
    pub fn fresh(&self, path: &str) -> Option<Arc<Entry>> {
        let entry = self.cache.read().get(path).map(Arc::clone)?;
        let due = match self.settings.recheck {
            Recheck::Manual => false,
            Recheck::Always => true,
            Recheck::After(period) => {
                let age_ms = self
                    .now_ms()
                    .saturating_sub(entry.checked_ms.load(Ordering::Relaxed));
                age_ms >= period.duration().as_millis() as u64
            }
        };
        (!due).then_some(entry)
    }

    /// Compares the content of a decoded path with the disk and reads it where it changed.
    /// Blocks on the disk.
    pub fn load(&self, path: &str) -> Option<Arc<Entry>> {
        let cached = self.cache.read().get(path).map(Arc::clone);
        if let Some(entry) = cached
            && entry.is_unchanged()
        {
            entry.checked_ms.store(self.now_ms(), Ordering::Relaxed);
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
        self.cache.write().clear();
        self.cached_bytes.store(0, Ordering::Relaxed);
    }

    /// The folder that a path lies in, and the path from there.
    fn root_of<'a>(&self, path: &'a str) -> Option<(&Arc<Root>, &'a str)> {
        self.roots.iter().find_map(|(prefix, root)| {
            let rest = path.strip_prefix(prefix.as_str())?;
            // A mount's own address without the slash is a folder's.
            (rest.is_empty() || rest.starts_with('/')).then_some((root, rest))
        })
    }

    fn read(&self, path: &str) -> Option<Entry> {
        let checked_ms = AtomicU64::new(self.now_ms());
        let (root, rest) = self.root_of(path)?;
        let located = match rest {
            "" => match root.locate("/") {
                Located::Nothing => Located::Nothing,
                _ => Located::Folder,
            },
            rest => root.locate(rest),
        };
        let mut beside = Vec::new();
        let (content, file, stamp) = match located {
            Located::File(file) if file.extension().is_some_and(|end| end == "html") => {
                let (content, stamp) = self.read_page(root, &file)?;
                (content, file, stamp)
            }
            Located::File(file) => {
                let (content, stamp) = self.read_file(root, &file, &mut beside)?;
                (Content::File(content), file, stamp)
            }
            Located::Folder => {
                let folder = PathBuf::from(rest.trim_matches('/'));
                let stamp = root.stamp(&folder)?;
                (Content::Folder, folder, stamp)
            }
            Located::Listing(folder) => {
                let stamp = root.stamp(&folder)?;
                let html = listing::html(path, &root.list(&folder));
                (Content::Listing(html.into()), folder, stamp)
            }
            Located::Nothing => return None,
        };
        Some(Entry {
            content,
            name: path.into(),
            root: Arc::clone(root),
            file,
            stamp,
            beside,
            checked_ms,
        })
    }

    fn read_page(&self, root: &Arc<Root>, file: &Path) -> Option<(Content, Stamp)> {
        let (source, stamp) = root.read(file, self.settings.output_max.bytes())?;
        let compress_min = self
            .settings
            .compress
            .then(|| self.settings.compress_min.as_usize());
        let page = match template::split(&source) {
            Some(pieces) => Page::Pieces(Pieces::new(pieces, compress_min)),
            None => self.compile(root, file, &source),
        };
        Some((Content::Page(page), stamp))
    }

    fn compile(&self, root: &Arc<Root>, file: &Path, source: &Bytes) -> Page {
        let name = file.to_string_lossy();
        let limits = Limits {
            steps: self.settings.steps_max,
            output_bytes: self.settings.output_max.as_usize(),
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
            Ok(engine) => Page::Engine(Arc::new(engine)),
            Err(error) => {
                tracing::error!(target: "pages", "{error}");
                Page::Broken(error)
            }
        }
    }

    fn read_file(
        &self,
        root: &Root,
        file: &Path,
        beside: &mut Vec<(PathBuf, Option<Stamp>)>,
    ) -> Option<(StaticFile, Stamp)> {
        let (mut found, stamp) = self.read_one(root, file)?;
        if self.settings.compress && is_compressible(found.mime) {
            self.add_beside(root, &mut found, stamp, beside);
            self.add_gzip(&mut found, stamp);
        }
        Some((found, stamp))
    }

    fn read_one(&self, root: &Root, file: &Path) -> Option<(StaticFile, Stamp)> {
        let stamp = root.stamp(file)?;
        let name = file.to_string_lossy();
        let cached_max = self.settings.cached_file_max.bytes();
        if stamp.length > cached_max {
            return Some((StaticFile::on_disk(&name, stamp), stamp));
        }
        let (content, stamp) = root.read(file, cached_max)?;
        Some((StaticFile::in_memory(&name, stamp, content), stamp))
    }

    /// Adds the compressed files that lie beside the original and are not older.
    fn add_beside(
        &self,
        root: &Root,
        found: &mut StaticFile,
        original: Stamp,
        beside: &mut Vec<(PathBuf, Option<Stamp>)>,
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

    /// Compresses what is kept in memory, once, where nobody else did.
    fn add_gzip(&self, found: &mut StaticFile, original: Stamp) {
        let mut variants = found.variants.iter();
        let has_gzip = variants.any(|variant| variant.encoding == Encoding::Gzip);
        let worth = found.length >= self.settings.compress_min.bytes();
        let Some(content) = found.content.as_ref().filter(|_| worth && !has_gzip) else {
            return;
        };
        let compressed = gzip::compress(content, gzip::ONCE);
        if let Some(compressed) = compressed.filter(|smaller| smaller.len() < content.len()) {
            let stamp = Stamp {
                modified: original.modified,
                length: compressed.len() as u64,
            };
            found.add_variant(Encoding::Gzip, stamp, Some(compressed.into()));
        }
    }

    fn remember(&self, path: &str, entry: &Arc<Entry>) {
        let mut cache = self.cache.write();
        let added = entry.weight(path);
        let total = self.cached_bytes.fetch_add(added, Ordering::Relaxed) + added;
        if total > self.settings.cache_max.as_usize() {
            // Rare and simple: what is in use comes back with its next request.
            cache.clear();
            self.cached_bytes.store(added, Ordering::Relaxed);
        }
        cache.insert(path.into(), Arc::clone(entry));
    }

    fn forget(&self, path: &str) {
        if self.cache.read().contains_key(path) {
            self.cache.write().remove(path);
        }
    }

    fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }
}
