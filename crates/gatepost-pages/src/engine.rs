//! Pages that need the template engine: its functions, its limits, and the files it reads.
//!
//! Each page has an engine of its own, so a change of a file that one page includes reloads that
//! page alone. Rendering is bounded in steps, in output, in time and in memory, and runs on a page worker, never
//! on an I/O thread. Compiling computes constants (`"a" * 100000000`), so it has the same limits, on a
//! thread of its own. For whom a thread renders at present is known to the thread: so functions find it
//! in macros and includes too, which see no context.
//!
//! Invariant: an environment belongs to one rendering at a time, and what runs in it that is ours runs
//! [`unwatched`]. So a rendering that is set aside ([`crate::memory_limit`]) holds no lock of another.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Once, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use gatepost_message::{Publication, Reply, TopicFilter};
use minijinja::value::{Enumerator, Kwargs, Object, Value, ValueIter};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior};
use parking_lot::Mutex;

use crate::clock;
use crate::forms::{Form, FormAction, Forms};
use crate::insertion::{Making, call, failure_comment, push_form, push_live, text_of};
use crate::memory_limit::{self, Exhausted, unwatched, watched};
use crate::request::PageRequest;
use crate::resolve::{Root, Stamp};
use crate::template::{LIVE_SCRIPT, body_end};
use crate::values::Values;
use crate::workers::{self, Worker};

/// The most publications that one `history()` returns.
const HISTORY_MAX: usize = 10_000;

/// What a page may cost.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Steps of template code.
    pub steps: u64,
    /// Bytes of output.
    pub output_bytes: usize,
    /// Bytes of the values that it holds.
    pub memory_bytes: usize,
    /// How long it may take to compile it.
    pub time: Duration,
}

/// A template's fault, with its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {detail}")]
pub struct TemplateError {
    /// The file, relative to the pages' folder.
    pub file: String,
    /// The line, from 1; 0 where unknown.
    pub line: usize,
    /// What is wrong.
    pub detail: String,
}

impl TemplateError {
    fn from_engine(error: &Error, page: &str) -> Self {
        let mut detail = error.kind().to_string();
        if let Some(more) = error.detail() {
            detail = format!("{detail}: {more}");
        }
        Self {
            file: error.name().unwrap_or(page).to_owned(),
            line: error.line().unwrap_or(0),
            detail,
        }
    }
}

/// A compiled template with everything it includes.
pub struct Engine {
    /// What the environments of renderings are copied from.
    compiled: Option<Environment<'static>>,
    /// Environments that no rendering uses at present.
    spare: Mutex<Vec<Environment<'static>>>,
    name: String,
    limits: Limits,
    /// The files that were read for it, as they were then.
    files: Files,
    /// Why it is not run any more.
    condemned: Arc<OnceLock<TemplateError>>,
}

type Files = Arc<Mutex<Vec<(String, Stamp)>>>;

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
        values: &Arc<dyn Values>,
        limits: Limits,
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

    /// Renders the page. Blocks on `call()`: for page workers only.
    pub(crate) fn render(&self, job: &Job, worker: &Worker) -> Result<Made, TemplateError> {
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
        let error = grew(&self.name);
        let stopped = move || {
            tracing::error!(target: "pages", "{error}");
            let _ = condemned.set(error.clone());
            worker.set_aside(error.into());
        };
        let present = Present::begin(job.clone());
        let request = &*job.request;
        let rendered = watched(self.limits.memory_bytes, stopped, || {
            let template = environment.get_template(&self.name)?;
            let context = minijinja::context! { request };
            // With it go the values that it held.
            template.render_captured_to(context, &mut output).map(drop)
        });
        let noted = Present::end(present);
        let rendered = rendered.map_err(|Exhausted| refused(&self.name))?;
        rendered.map_err(|error| TemplateError::from_engine(&error, &self.name))?;
        self.spare.lock().push(environment);
        let mut html = output.bytes;
        if noted.uses_live {
            let place = body_end(&html).unwrap_or(html.len());
            html.splice(place..place, LIVE_SCRIPT.bytes());
        }
        Ok(Made {
            html,
            reply: noted.reply,
            has_form: noted.has_form,
        })
    }
}

fn grew(page: &str) -> TemplateError {
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
    values: &Arc<dyn Values>,
    limits: Limits,
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
        minijinja::escape_formatter(output, state, value)
    });
    let (root, loaded) = (Arc::clone(root), Arc::clone(files));
    environment.set_loader(move |name| {
        let found = unwatched(|| {
            let found = root.template(name)?;
            loaded.lock().push((name.to_owned(), found.stamp));
            Some(found.text)
        });
        Ok(found.map(own))
    });
    add_functions(&mut environment, values);
    environment
}

/// Has the engine make what it makes once for the process, behind a lock: the texts of small numbers.
fn prepare() {
    static PREPARED: Once = Once::new();
    PREPARED.call_once(|| {
        let _ = Environment::new().render_str("{{ 1 }}", ());
    });
}

enum Compiled {
    Ready(Environment<'static>),
    Faulty(TemplateError),
    /// It was given up, with its thread.
    Lost(TemplateError),
}

/// Compiles on a thread of its own, which may be lost.
fn compile(
    mut environment: Environment<'static>,
    name: &str,
    source: String,
    limits: Limits,
) -> Compiled {
    let (reply, answer) = mpsc::channel();
    let owned_name = name.to_owned();
    let compiling = move || {
        let (stopped, error) = (reply.clone(), grew(&owned_name));
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
            "its constants take longer than time_max; it is not compiled again until the file changes",
        )),
        Err(RecvTimeoutError::Disconnected) => Compiled::Faulty(fault("it cannot be compiled")),
    }
}

/// Fails a page whose values have grown over their limit.
fn check_memory() -> Result<(), Error> {
    if memory_limit::is_over() {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            "the page's values grew larger than memory_max",
        ));
    }
    Ok(())
}

/// A copy that counts as the page's.
fn own(text: String) -> String {
    let copy = text.as_str().to_owned();
    unwatched(|| drop(text));
    copy
}

/// One page to be made.
#[derive(Clone)]
pub(crate) struct Job {
    pub(crate) values: Arc<dyn Values>,
    pub(crate) forms: Arc<Option<Forms>>,
    pub(crate) request: Arc<PageRequest>,
    pub(crate) deadline: Instant,
}

impl Job {
    pub(crate) fn making(&self) -> Making<'_> {
        Making {
            values: &*self.values,
            forms: self.forms.as_ref().as_ref(),
            request: &self.request,
            deadline: self.deadline,
        }
    }
}

/// A page that was made.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) html: Vec<u8>,
    pub(crate) reply: Reply,
    /// Whether a form on it is signed for one browser.
    pub(crate) has_form: bool,
}

/// What the functions of a template note beside their text.
#[derive(Default)]
struct Noted {
    reply: Reply,
    uses_live: bool,
    has_form: bool,
}

thread_local! {
    /// The page that this thread renders.
    static PRESENT: RefCell<Option<(Job, Noted)>> = const { RefCell::new(None) };
}

/// Holds the thread's page; gone when it is dropped, by a panic too.
struct Present;

impl Present {
    fn begin(job: Job) -> Self {
        PRESENT.set(Some((job, Noted::default())));
        Self
    }

    fn end(present: Self) -> Noted {
        let noted = PRESENT.take().map(|(_, noted)| noted).unwrap_or_default();
        drop(present);
        noted
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        PRESENT.set(None);
    }
}

/// Lends the thread's page to a function of a template. No function calls another.
fn with_present<T>(act: impl FnOnce(&Job, &mut Noted) -> T) -> Result<T, Error> {
    PRESENT.with_borrow_mut(|present| match present {
        Some((job, noted)) => Ok(act(job, noted)),
        None => Err(Error::new(
            ErrorKind::InvalidOperation,
            "only while a page is made",
        )),
    })
}

/// A writer that refuses to grow over its bound, or to go on when the time is over.
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

fn add_functions(environment: &mut Environment<'static>, values: &Arc<dyn Values>) {
    environment.add_function("range", range);
    environment.add_function("now", |format: Option<String>| {
        let text = unwatched(|| match &format {
            None => {
                let mut text = Vec::new();
                clock::push_page_date(&mut text);
                Ok(String::from_utf8_lossy(&text).into_owned())
            }
            Some(format) => clock::format_now(format).map_err(|detail| failure_comment(&detail)),
        });
        text_or_comment(text)
    });
    let source = Arc::clone(values);
    environment.add_function("latest", move |topic: &str| {
        check_memory()?;
        let latest = unwatched(|| source.latest(topic));
        Ok::<_, Error>(latest.map_or(Value::UNDEFINED, Shown::value))
    });
    let source = Arc::clone(values);
    environment.add_function("history", move |filter: &str, count: Option<usize>| {
        check_memory()?;
        let filter = TopicFilter::new(filter)
            .map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))?;
        let count = count.unwrap_or(20).min(HISTORY_MAX);
        let mut publications = unwatched(|| source.history(&filter, count).into_iter());
        let mut shown = Vec::with_capacity(publications.len());
        shown.extend(publications.by_ref().map(Shown::value));
        unwatched(|| drop(publications));
        Ok::<_, Error>(shown)
    });
    let source = Arc::clone(values);
    environment.add_function("live", move |topic: &str| {
        check_memory()?;
        let span = unwatched(|| {
            let mut span = Vec::new();
            push_live(&mut span, topic, source.latest(topic));
            with_present(|_, noted| noted.uses_live = true).map(|()| text(span))
        })?;
        Ok::<_, Error>(Value::from_safe_string(own(span)))
    });
    environment.add_function("call", |path: &str, named: Kwargs| {
        check_memory()?;
        let mut arguments = Vec::new();
        for name in named.args() {
            arguments.push((name.to_owned(), named.get::<Value>(name)?.to_string()));
        }
        let called = unwatched(|| {
            with_present(|job, noted| {
                call(&job.making(), path, &arguments, &mut noted.reply)
                    .map_err(|error| failure_comment(&error.to_string()))
            })
        })?;
        Ok::<_, Error>(text_or_comment(called))
    });
    environment.add_function("form_publish", |topic: String, named: Kwargs| {
        form(FormAction::Publish(topic), &named)
    });
    environment.add_function("form_call", |path: String, named: Kwargs| {
        form(FormAction::Call(path), &named)
    });
    environment.add_function("form_token", |named: Kwargs| form(FormAction::Show, &named));
}

/// The engine's own `range`, each of whose turns looks at the memory.
fn range(lower: isize, upper: Option<isize>, step: Option<isize>) -> Result<Value, Error> {
    check_memory()?;
    let numbers = minijinja::functions::range(lower, upper, step)?;
    let turns = move || Turns(numbers.try_iter().ok());
    Ok(Value::make_iterable(turns))
}

struct Turns(Option<ValueIter>);

impl Iterator for Turns {
    type Item = Value;

    fn next(&mut self) -> Option<Value> {
        let value = self.0.as_mut()?.next()?;
        // An error as a value ends the loop.
        Some(check_memory().map_or_else(Value::from, |()| value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.as_ref().map_or((0, Some(0)), Iterator::size_hint)
    }
}

/// A text, or the comment that stands for it.
fn text_or_comment(text: Result<String, String>) -> Value {
    match text {
        Ok(text) => Value::from(own(text)),
        Err(comment) => Value::from_safe_string(own(comment)),
    }
}

/// The hidden field of a form.
fn form(action: FormAction, named: &Kwargs) -> Result<Value, Error> {
    check_memory()?;
    let then: Option<String> = named.get("then")?;
    named.assert_all_used()?;
    let form = Form { action, then };
    let field = unwatched(|| {
        with_present(|job, noted| {
            noted.has_form = true;
            let mut field = Vec::new();
            push_form(&mut field, &form, &job.making());
            text(field)
        })
    })?;
    Ok(Value::from_safe_string(own(field)))
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A publication in a template: prints as its payload; has `payload`, `topic`, `id`, `time`,
/// `json` and `properties`.
///
/// It counts as large as what it shows, which others may hold as well.
#[derive(Debug)]
struct Shown(Option<Arc<Publication>>);

impl Shown {
    fn value(publication: Arc<Publication>) -> Value {
        memory_limit::charge(publication.payload.len());
        Value::from_object(Self(Some(publication)))
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        let publication = self.0.take();
        memory_limit::refund(publication.as_ref().map_or(0, |held| held.payload.len()));
        // It was not made here, and may go now.
        unwatched(|| drop(publication));
    }
}

const SHOWN: [&str; 6] = ["payload", "topic", "id", "time", "json", "properties"];

impl Object for Shown {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let publication = self.0.as_ref()?;
        Some(match key.as_str()? {
            "payload" => Value::from(text_of(publication)),
            "topic" => Value::from(publication.topic.as_str()),
            "id" => Value::from(publication.id.to_string()),
            "time" => Value::from(clock::page_date(publication.id.time())),
            "json" => serde_json::from_slice::<serde_json::Value>(&publication.payload)
                .map_or(Value::UNDEFINED, Value::from_serialize),
            "properties" => publication
                .properties
                .as_ref()
                .map(|properties| properties.user.iter().cloned())
                .into_iter()
                .flatten()
                .collect::<Value>(),
            _ => return None,
        })
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Str(&SHOWN)
    }

    fn is_true(self: &Arc<Self>) -> bool {
        true
    }

    fn render(self: &Arc<Self>, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(publication) => formatter.write_str(&text_of(publication)),
            None => Ok(()),
        }
    }
}
