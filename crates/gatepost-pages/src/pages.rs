//! The folder of pages and static files, with its content cache.
//!
//! [`Pages::fresh`] answers from memory and never touches the disk, so an I/O thread may call it
//! for every request; what it does not know, or has not checked for as long as `recheck` says,
//! [`Pages::load`] reads on a thread that may block.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use bytes::Bytes;
use parking_lot::RwLock;
use tokio::sync::Semaphore;

use crate::engine::{Engine, Limits, PageRequest, TemplateError};
use crate::file::StaticFile;
use crate::page::{Page, RenderError, Rendered};
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
    /// A folder, whose address ends in a slash.
    Folder,
}

/// A path's content as it was when last read.
#[derive(Debug)]
pub struct Entry {
    /// The content.
    pub content: Content,
    file: PathBuf,
    stamp: Stamp,
    /// When it was last compared with the disk, in milliseconds since the cache began.
    checked_ms: AtomicU64,
}

/// Pages and static files under one folder.
pub struct Pages {
    root: Arc<Root>,
    values: Arc<dyn Values>,
    settings: PagesSettings,
    cache: RwLock<HashMap<Box<str>, Arc<Entry>>>,
    cached_bytes: AtomicUsize,
    workers: Arc<Semaphore>,
    waiting: AtomicUsize,
    began: Instant,
}

impl Pages {
    /// Serves the folder that the settings name.
    pub fn new(settings: PagesSettings, values: Arc<dyn Values>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let workers = if settings.workers == 0 {
            cores
        } else {
            settings.workers
        };
        Self {
            root: Arc::new(Root::new(&settings.path, settings.follow_symlinks)),
            values,
            settings,
            cache: RwLock::default(),
            cached_bytes: AtomicUsize::new(0),
            workers: Arc::new(Semaphore::new(workers)),
            waiting: AtomicUsize::new(0),
            began: Instant::now(),
        }
    }

    /// Where the values of insertion points come from.
    pub fn values(&self) -> &dyn Values {
        &*self.values
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
            && self.is_unchanged(&entry)
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
    pub fn reload(&self) {
        self.cache.write().clear();
        self.cached_bytes.store(0, Ordering::Relaxed);
    }

    /// Opens a file that is not kept in memory. Blocks on the disk.
    pub fn open(&self, entry: &Entry) -> Option<std::fs::File> {
        self.root.open(&entry.file).map(|(file, _)| file)
    }

    /// Renders a page, waiting for its values and, where it needs the template engine, for a
    /// page worker.
    pub async fn render(
        &self,
        entry: Arc<Entry>,
        request: PageRequest,
    ) -> Result<Rendered, RenderError> {
        let Content::Page(page) = &entry.content else {
            return Ok(Rendered::default());
        };
        let engine = match page {
            Page::Broken(error) => return Err(RenderError::Template(error.clone())),
            Page::Pieces { pieces, .. } => {
                let rendering = Page::render_waiting(pieces, &*self.values);
                let limit = self.settings.time_max.duration();
                return tokio::time::timeout(limit, rendering)
                    .await
                    .map_err(|_| RenderError::Late);
            }
            Page::Engine(engine) => Arc::clone(engine),
        };
        let html = self.on_worker(move || engine.render(&request)).await??;
        Ok(Rendered {
            pieces: vec![Bytes::from(html)],
        })
    }

    /// Runs `work` on a page worker, or says that too many wait or that it took too long.
    async fn on_worker<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, RenderError> {
        let place = Waiting::enter(&self.waiting, self.settings.queue).ok_or(RenderError::Busy)?;
        let limit = self.settings.time_max.duration();
        let running = async {
            let permit = Arc::clone(&self.workers)
                .acquire_owned()
                .await
                .map_err(|_| RenderError::Busy)?;
            // The permit goes along: an overrunning page keeps its worker until its steps end.
            tokio::task::spawn_blocking(move || {
                let result = work();
                drop(permit);
                result
            })
            .await
            .map_err(|_| RenderError::Fault)
        };
        let result = tokio::time::timeout(limit, running)
            .await
            .map_err(|_| RenderError::Late)?;
        drop(place);
        result
    }

    fn read(&self, path: &str) -> Option<Entry> {
        let checked_ms = AtomicU64::new(self.now_ms());
        let file = match self.root.locate(path) {
            Located::File(file) => file,
            Located::Folder => {
                let file = PathBuf::from(path.trim_start_matches('/'));
                return Some(Entry {
                    content: Content::Folder,
                    stamp: self.root.stamp(&file)?,
                    file,
                    checked_ms,
                });
            }
            Located::Nothing => return None,
        };
        let is_page = file
            .extension()
            .is_some_and(|extension| extension == "html");
        let (content, stamp) = if is_page {
            self.read_page(&file)?
        } else {
            self.read_file(&file)?
        };
        Some(Entry {
            content,
            file,
            stamp,
            checked_ms,
        })
    }

    fn read_page(&self, file: &Path) -> Option<(Content, Stamp)> {
        let (source, stamp) = self.root.read(file, self.settings.output_max.bytes())?;
        let page = match template::split(&source) {
            Some(pieces) => Page::from_pieces(pieces),
            None => self.compile(file, &source),
        };
        Some((Content::Page(page), stamp))
    }

    fn compile(&self, file: &Path, source: &Bytes) -> Page {
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
            .and_then(|text| Engine::new(&self.root, &name, text.to_owned(), &self.values, limits));
        match compiled {
            Ok(engine) => Page::Engine(Arc::new(engine)),
            Err(error) => {
                tracing::error!(target: "pages", "{error}");
                Page::Broken(error)
            }
        }
    }

    fn read_file(&self, file: &Path) -> Option<(Content, Stamp)> {
        let stamp = self.root.stamp(file)?;
        let name = file.to_string_lossy();
        let cached_max = self.settings.cached_file_max.bytes();
        if stamp.length > cached_max {
            return Some((Content::File(StaticFile::on_disk(&name, stamp)), stamp));
        }
        let (content, stamp) = self.root.read(file, cached_max)?;
        Some((
            Content::File(StaticFile::in_memory(&name, stamp, content)),
            stamp,
        ))
    }

    fn is_unchanged(&self, entry: &Entry) -> bool {
        let same = self.root.stamp(&entry.file) == Some(entry.stamp);
        same && match &entry.content {
            Content::Page(Page::Engine(engine)) => !engine.is_stale(&self.root),
            // What was missing may be there now.
            Content::Page(Page::Broken(_)) | Content::Folder => false,
            _ => true,
        }
    }

    fn remember(&self, path: &str, entry: &Arc<Entry>) {
        let weight = |entry: &Entry| {
            entry
                .stamp
                .length
                .min(self.settings.cached_file_max.bytes())
        };
        let mut cache = self.cache.write();
        let added = weight(entry) as usize + path.len();
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

/// A place among the pages that wait for a worker.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn enter(count: &'a AtomicUsize, limit: usize) -> Option<Self> {
        if count.fetch_add(1, Ordering::Relaxed) >= limit {
            count.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(Self(count))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
