//! Pages that need the template engine: its limits, and the files that it reads.
//!
//! Each page has its own engine, so a change of an included file reloads only the pages that
//! include it. Rendering is bounded in steps, output, time and memory, and runs on a page worker,
//! never on an I/O thread. Compilation evaluates constants (`"a" * 100000000`), so it has the same
//! limits, on a thread of its own.
//!
//! Invariant: only one rendering at a time uses an environment, and our own code inside it runs
//! [`unwatched`]. So a rendering whose thread is parked ([`crate::memory_limit`]) holds no lock
//! of another rendering.

pub(crate) mod check;
mod functions;
mod live_span;
mod numbers;
mod present;
mod shown;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Once, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior};
use parking_lot::Mutex;

use crate::error::TemplateError;
use crate::memory_limit::{self, Exhausted, unwatched, watched};
use crate::resolve::{FileStamp, Root};
use crate::template::{LIVE_SCRIPT, body_end};
use crate::values::ValueSource;
use crate::workers::{self, Worker};
use functions::add_functions;
use live_span::LiveSpan;
use present::PresentJob;
pub(crate) use present::{RenderJob, RenderedTemplate};

/// The limits of a page.
#[derive(Debug, Clone, Copy)]
pub struct PageLimits {
    /// Steps of template code.
    pub steps: u64,
    /// Bytes of output.
    pub output_bytes: usize,
    /// Bytes of its values.
    pub memory_bytes: usize,
    /// The time limit of its compilation.
    pub time: Duration,
}

/// A compiled template with all files that it includes.
pub struct Engine {
    /// The original of the environments for rendering.
    compiled: Option<Environment<'static>>,
    /// Environments that no rendering currently uses.
    spare: Mutex<Vec<Environment<'static>>>,
    name: String,
    limits: PageLimits,
    /// The files that were read for it, with their states at that time.
    files: Files,
    /// The reason why it is no longer rendered.
    condemned: Arc<OnceLock<TemplateError>>,
}

type Files = Arc<Mutex<Vec<(String, FileStamp)>>>;

impl fmt::Debug for Engine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Engine({})", self.name)
    }
}

impl Engine {
    /// Compiles the template `name`, whose text is `source`.
    pub fn new(
        root: &Arc<Root>,
        name: &str,
        source: String,
        values: &Arc<dyn ValueSource>,
        limits: PageLimits,
    ) -> Result<Self, TemplateError> {
        let files = Files::default();
        let environment = environment(root, values, limits, &files);
        let condemned = Arc::new(OnceLock::new());
        let compiled = match compile(environment, name, source, limits) {
            Compiled::Ready(environment) => Some(environment),
            Compiled::Faulty(error) => return Err(error),
            Compiled::Lost(error) => {
                // Kept, so that the same text is not compiled again.
                tracing::error!(target: "pages", "{error}");
                let _ = condemned.set(error);
                None
            }
        };
        Ok(Self {
            compiled,
            spare: Mutex::default(),
            name: name.to_owned(),
            limits,
            files,
            condemned,
        })
    }

    /// Whether an included file has changed since it was read.
    pub fn is_stale(&self, root: &Root) -> bool {
        let files = self.files.lock();
        files
            .iter()
            .any(|(name, stamp)| root.stamp(Path::new(name)) != Some(*stamp))
    }

    /// The number of states of files that [`Engine::is_stale`] compares.
    #[cfg(test)]
    pub(crate) fn known_files(&self) -> usize {
        self.files.lock().len()
    }

    /// Renders the page. Blocks on `call()`: for page workers only.
    pub(crate) fn render(
        &self,
        job: &RenderJob,
        worker: &Worker,
    ) -> Result<RenderedTemplate, TemplateError> {
        if let Some(error) = self.condemned.get() {
            return Err(error.clone());
        }
        let environment = self.spare.lock().pop().or_else(|| self.compiled.clone());
        let environment = environment.ok_or_else(|| refused(&self.name))?;
        let mut output = Bounded {
            bytes: Vec::new(),
            left: self.limits.output_bytes,
            deadline: job.deadline,
        };
        let (condemned, worker) = (Arc::clone(&self.condemned), worker.clone());
        let error = memory_error(&self.name);
        let stopped = move || {
            tracing::error!(target: "pages", "{error}");
            let _ = condemned.set(error.clone());
            worker.replace_parked(error.into());
        };
        let present = PresentJob::begin(job.clone());
        let request = &*job.request;
        let rendered = watched(self.limits.memory_bytes, stopped, || {
            let template = environment.get_template(&self.name)?;
            let context = minijinja::context! { request };
            // The values of the page are dropped with it.
            template.render_captured_to(context, &mut output).map(drop)
        });
        let noted = PresentJob::end(present);
        let rendered = rendered.map_err(|Exhausted| refused(&self.name))?;
        rendered.map_err(|error| TemplateError::from_engine(&error, &self.name))?;
        self.spare.lock().push(environment);
        if let Some(detail) = noted.misused_live {
            return Err(TemplateError {
                file: self.name.clone(),
                line: 0,
                detail,
            });
        }
        let mut html = output.bytes;
        if noted.uses_live {
            let place = body_end(&html).unwrap_or(html.len());
            html.splice(place..place, LIVE_SCRIPT.bytes());
        }
        Ok(RenderedTemplate {
            html,
            reply: noted.reply,
            has_form: noted.has_form,
        })
    }
}

fn memory_error(page: &str) -> TemplateError {
    TemplateError {
        file: page.to_owned(),
        line: 0,
        detail: "its values grew far over memory_max; it is not made again until the file changes"
            .to_owned(),
    }
}

fn refused(page: &str) -> TemplateError {
    TemplateError {
        file: page.to_owned(),
        line: 0,
        detail:
            "templates are refused: too many pages grew far over memory_max, and what they took \
                 comes back only with a restart"
                .to_owned(),
    }
}

fn environment(
    root: &Arc<Root>,
    values: &Arc<dyn ValueSource>,
    limits: PageLimits,
    files: &Files,
) -> Environment<'static> {
    prepare();
    let mut environment = Environment::new();
    environment.set_keep_trailing_newline(true);
    environment.set_undefined_behavior(UndefinedBehavior::Chainable);
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_fuel(Some(limits.steps));
    environment.set_formatter(|output, state, value| {
        check_memory()?;
        if let Some(live) = LiveSpan::of(value) {
            return output.write_str(&own(live.html()?)).map_err(Error::from);
        }
        minijinja::escape_formatter(output, state, value)
    });
    let (root, loaded) = (Arc::clone(root), Arc::clone(files));
    environment.set_loader(move |name| {
        let found = unwatched(|| {
            let found = root.template(name)?;
            note(&loaded, name, found.stamp);
            Some(found.text)
        });
        Ok(found.map(own))
    });
    add_functions(&mut environment, values);
    environment
}

/// Records a file that was read. Each environment reads it again, and a rendering that fails drops
/// its environment, so the same state is recorded once.
fn note(files: &Files, name: &str, stamp: FileStamp) {
    let mut files = files.lock();
    let is_known = |(known, state): &(String, FileStamp)| known == name && *state == stamp;
    if !files.iter().any(is_known) {
        files.push((name.to_owned(), stamp));
    }
}

/// Initialises the engine's global data, which a lock protects: the texts of small numbers.
fn prepare() {
    static PREPARED: Once = Once::new();
    PREPARED.call_once(|| {
        let _ = Environment::new().render_str("{{ 1 }}", ());
    });
}

enum Compiled {
    Ready(Environment<'static>),
    Faulty(TemplateError),
    /// The rendering was abandoned, with its thread.
    Lost(TemplateError),
}

/// Compiles on a thread of its own, which may be lost.
fn compile(
    mut environment: Environment<'static>,
    name: &str,
    source: String,
    limits: PageLimits,
) -> Compiled {
    let (reply, answer) = mpsc::channel();
    let owned_name = name.to_owned();
    let compiling = move || {
        let (stopped, error) = (reply.clone(), memory_error(&owned_name));
        let stopped = move || drop(stopped.send(Compiled::Lost(error)));
        let compiled = watched(limits.memory_bytes, stopped, || {
            environment.add_template_owned(owned_name.clone(), source)
        });
        let _ = reply.send(match compiled {
            Ok(Ok(())) => Compiled::Ready(environment),
            Ok(Err(error)) => Compiled::Faulty(TemplateError::from_engine(&error, &owned_name)),
            Err(Exhausted) => Compiled::Faulty(refused(&owned_name)),
        });
    };
    let fault = |detail: &str| TemplateError {
        file: name.to_owned(),
        line: 0,
        detail: detail.to_owned(),
    };
    let started = thread::Builder::new()
        .name("page-compile".to_owned())
        .stack_size(workers::stack_bytes(limits.memory_bytes))
        .spawn(compiling);
    if let Err(error) = started {
        return Compiled::Faulty(fault(&format!("no thread to compile it on: {error}")));
    }
    match answer.recv_timeout(limits.time) {
        Ok(compiled) => compiled,
        Err(RecvTimeoutError::Timeout) => Compiled::Lost(fault(
            "its constants take longer than time_max; it is not compiled again until the file \
             changes",
        )),
        Err(RecvTimeoutError::Disconnected) => Compiled::Faulty(fault("it cannot be compiled")),
    }
}

/// Fails a page whose values exceed its limit.
fn check_memory() -> Result<(), Error> {
    if memory_limit::is_over() {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            "the page's values grew larger than memory_max",
        ));
    }
    Ok(())
}

/// A copy that counts towards the page's limit.
fn own(text: String) -> String {
    let copy = text.as_str().to_owned();
    unwatched(|| drop(text));
    copy
}

/// A writer that fails when its output exceeds the limit, or the time is over.
struct Bounded {
    bytes: Vec<u8>,
    left: usize,
    deadline: Instant,
}

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.left = self
            .left
            .checked_sub(bytes.len())
            .ok_or_else(|| io::Error::other("the page grew larger than output_max"))?;
        if Instant::now() >= self.deadline {
            return Err(io::Error::other("the page took longer than time_max"));
        }
        // Counted by `left`.
        unwatched(|| self.bytes.extend_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
