//! Pages and static files of all hosts, and their rendering.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use crate::encoding::Encoding;
use crate::engine::{Engine, RenderJob};
use crate::entry::{CachedPath, PathContent};
use crate::error::RenderError;
use crate::forms::{Form, FormError, Forms};
use crate::gzip;
use crate::memory_file::MemoryFiles;
use crate::page::{CompiledPage, InsertionTexts, PageSegments, RenderedPage};
use crate::request::PageRequest;
use crate::settings::PagesSettings;
use crate::site::Site;
use crate::values::{CallError, PageCall, ProcedureResponse, ValueSource};
use crate::workers::{self, Bounds, PageWorkers, Worker};

/// The time beyond `time_max` for which a page is awaited, since its code may still run at the end
/// of its time.
const GRACE: std::time::Duration = std::time::Duration::from_millis(250);

/// The sites, and the data for rendering their pages.
pub struct Pages {
    /// The site of every host without a site of its own.
    default: Site,
    hosts: Vec<(String, Site)>,
    values: Arc<dyn ValueSource>,
    settings: Arc<PagesSettings>,
    workers: PageWorkers,
    forms: Arc<Option<Forms>>,
}

impl Pages {
    /// Serves the folders that the settings name.
    pub fn new(settings: PagesSettings, values: Arc<dyn ValueSource>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let workers = PageWorkers::start(Bounds {
            workers: if settings.workers == 0 {
                cores
            } else {
                settings.workers
            },
            queue_max: settings.queue,
            requests_max: settings.requests_max,
            patience: settings.patience.duration(),
            stragglers_max: settings.stragglers_max,
            stack_bytes: workers::stack_bytes(settings.memory_max.as_usize()),
        });
        let settings = Arc::new(settings);
        let memory_files =
            MemoryFiles::new(settings.sendfile_max, settings.sendfile_min.as_usize());
        let memory_files = Arc::new(memory_files);
        let site = |path: &PathBuf| Site::new(path, &settings, &values, &memory_files);
        let hosts = settings.hosts.iter();
        Self {
            default: site(&settings.path),
            hosts: hosts
                .map(|(host, path)| (host.clone(), site(path)))
                .collect(),
            forms: Arc::new(Forms::new(settings.forms_valid.duration())),
            values,
            settings,
            workers,
        }
    }

    /// Sets the source of values for insertion points.
    pub fn values(&self) -> &dyn ValueSource {
        &*self.values
    }

    /// The site of a request with this `Host`.
    pub fn site(&self, host: Option<&[u8]>) -> &Site {
        let Some(host) = host.filter(|_| !self.hosts.is_empty()) else {
            return &self.default;
        };
        let host = bare_host(host);
        let named = self.hosts.iter().find(|(name, _)| is_host(name, host));
        let below = || {
            let hosts = self.hosts.iter().filter(|(name, _)| covers(name, host));
            hosts.max_by_key(|(name, _)| name.len())
        };
        named.or_else(below).map_or(&self.default, |(_, site)| site)
    }

    /// Empties the caches: the next request of each path reads its file again.
    pub fn reload(&self) {
        self.default.reload();
        for (_, site) in &self.hosts {
            site.reload();
        }
    }

    /// The number of replaced page workers.
    pub fn workers_replaced(&self) -> u64 {
        self.workers.replaced()
    }

    /// The number of threads that were parked because of the memory of their pages.
    pub fn parked_threads(&self) -> u64 {
        crate::memory_limit::parked_threads() as u64
    }

    /// The action of this request's form; removes its hidden field.
    pub fn take_form(&self, request: &mut PageRequest) -> Result<Form, FormError> {
        let forms = self.forms.as_ref().as_ref();
        forms.ok_or(FormError::Foreign)?.take(request)
    }

    /// Runs the procedure of this request's form on a page worker; returns the request.
    pub async fn call(
        &self,
        path: &str,
        request: PageRequest,
    ) -> Result<(Result<ProcedureResponse, CallError>, PageRequest), RenderError> {
        let time_max = self.settings.time_max.duration();
        let deadline = Instant::now() + time_max;
        let (values, name) = (Arc::clone(&self.values), Arc::<str>::from(path));
        let called = Arc::clone(&name);
        let work = move |_: &Worker| {
            let arguments: Vec<_> = request.form.clone().into_iter().collect();
            let answer = values.call(&PageCall {
                path: &called,
                arguments: &arguments,
                request: &request,
                deadline,
            });
            (answer, request)
        };
        self.workers.run(&name, time_max + GRACE, work).await
    }

    /// Renders a page, on a page worker if it contains code.
    pub async fn render(
        &self,
        entry: Arc<CachedPath>,
        request: PageRequest,
        accept_encoding: Option<&[u8]>,
    ) -> Result<RenderedPage, RenderError> {
        let wants_gzip = takes_gzip(accept_encoding);
        match &entry.content {
            PathContent::Page(CompiledPage::Broken(error)) => {
                Err(RenderError::Template(error.clone()))
            }
            PathContent::Page(CompiledPage::Pieces(pieces)) => {
                let filled = if pieces.needs().worker {
                    self.fill(&entry, request).await?
                } else {
                    pieces.fill(&self.job(request).context())
                };
                Ok(render_filled(pieces, filled, wants_gzip))
            }
            PathContent::Page(CompiledPage::Engine(engine)) => {
                let compress_min = self.settings.compress_min.as_usize();
                let compress_min = self.settings.compress.then_some(compress_min);
                let (engine, job) = (Arc::clone(engine), self.job(request));
                let work = move |worker: &Worker| {
                    render_engine(&engine, &job, worker, wants_gzip, compress_min)
                };
                self.on_worker(&entry, work).await?
            }
            _ => Ok(RenderedPage::default()),
        }
    }

    /// Makes the texts of a page's insertion points, on a page worker.
    pub async fn fill(
        &self,
        entry: &Arc<CachedPath>,
        request: PageRequest,
    ) -> Result<InsertionTexts, RenderError> {
        let (page, job) = (Arc::clone(entry), self.job(request));
        let work = move |_: &Worker| match &page.content {
            PathContent::Page(CompiledPage::Pieces(pieces)) => pieces.fill(&job.context()),
            _ => InsertionTexts::default(),
        };
        self.on_worker(entry, work).await
    }

    async fn on_worker<T: Send + 'static>(
        &self,
        entry: &CachedPath,
        work: impl FnOnce(&Worker) -> T + Send + 'static,
    ) -> Result<T, RenderError> {
        let time_max = self.settings.time_max.duration() + GRACE;
        self.workers.run(&entry.name, time_max, work).await
    }

    fn job(&self, request: PageRequest) -> RenderJob {
        RenderJob {
            values: Arc::clone(&self.values),
            forms: Arc::clone(&self.forms),
            request: Arc::new(request),
            deadline: Instant::now() + self.settings.time_max.duration(),
        }
    }
}

/// A page with all its insertion points, as pieces.
pub fn rendered(
    pieces: &PageSegments,
    filled: InsertionTexts,
    accept_encoding: Option<&[u8]>,
) -> RenderedPage {
    render_filled(pieces, filled, takes_gzip(accept_encoding))
}

/// Whether the client accepts gzip, the coding of pages.
pub fn takes_gzip(accept_encoding: Option<&[u8]>) -> bool {
    Encoding::choose(accept_encoding, std::iter::once(Encoding::Gzip)).is_some()
}

fn is_host(name: &str, host: &[u8]) -> bool {
    name.as_bytes().eq_ignore_ascii_case(host)
}

/// Whether a name such as `*.example.org` covers a host: a name below it, at any depth.
fn covers(name: &str, host: &[u8]) -> bool {
    let Some(end) = name.strip_prefix('*').filter(|end| end.starts_with('.')) else {
        return false;
    };
    let start = host.len().checked_sub(end.len()).filter(|start| *start > 0);
    start
        .and_then(|start| host.get(start..))
        .is_some_and(|found| is_host(end, found))
}

/// `example.org:8080`, `[::1]:8080` and `example.org.` without the port and the final dot.
fn bare_host(host: &[u8]) -> &[u8] {
    let name = match memchr::memrchr(b':', host) {
        Some(colon) if host.get(colon..).is_some_and(|port| !port.contains(&b']')) => {
            host.get(..colon).unwrap_or(host)
        }
        _ => host,
    };
    name.strip_suffix(b".").unwrap_or(name)
}

fn render_filled(pieces: &PageSegments, filled: InsertionTexts, wants_gzip: bool) -> RenderedPage {
    let mut rendered = RenderedPage {
        with_gzip: wants_gzip && pieces.is_compressed(),
        varies: pieces.is_compressed(),
        personal: pieces.needs().request,
        ..RenderedPage::default()
    };
    pieces.render_filled(&filled, rendered.with_gzip, &mut rendered);
    rendered.reply = filled.reply;
    rendered.session = filled.session;
    rendered
}

/// Runs on a page worker.
fn render_engine(
    engine: &Engine,
    job: &RenderJob,
    worker: &Worker,
    wants_gzip: bool,
    compress_min: Option<usize>,
) -> Result<RenderedPage, RenderError> {
    let made = engine.render(job, worker)?;
    // Compressing a secret beside text that a visitor chose would reveal the secret by the length.
    let varies = compress_min.is_some_and(|min| made.html.len() >= min) && !made.has_form;
    let compressed = (wants_gzip && varies).then(|| gzip::compress(&made.html, gzip::EACH_TIME));
    let compressed = compressed.flatten();
    Ok(RenderedPage {
        with_gzip: compressed.is_some(),
        varies,
        pieces: vec![Bytes::from(compressed.unwrap_or(made.html))],
        reply: made.reply,
        session: job.request.session.new_name().map(str::to_owned),
        personal: true,
    })
}

#[cfg(test)]
mod tests;
