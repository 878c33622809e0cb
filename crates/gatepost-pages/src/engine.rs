//! Pages that need the template engine: its functions, its limits, and the files it reads.
//!
//! Each page has an engine of its own, so a change of a file that one page includes reloads that
//! page alone. Rendering is bounded in steps, in output and in time, and runs on a page worker, never
//! on an I/O thread. For whom a thread renders at present is known to the thread: so functions find it
//! in macros and includes too, which see no context.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use gatepost_message::{Publication, Reply, TopicFilter};
use minijinja::value::{Enumerator, Kwargs, Object, Value};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior};
use parking_lot::Mutex;

use crate::clock;
use crate::forms::{Form, FormAction, Forms};
use crate::insertion::{Making, call, failure_comment, push_form, push_live, text_of};
use crate::request::PageRequest;
use crate::resolve::{Root, Stamp};
use crate::template::{LIVE_SCRIPT, body_end};
use crate::values::Values;

/// The most publications that one `history()` returns.
const HISTORY_MAX: usize = 10_000;

/// What a page may cost.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Steps of template code.
    pub steps: u64,
    /// Bytes of output.
    pub output_bytes: usize,
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
    environment: Environment<'static>,
    name: String,
    limits: Limits,
    /// The files that were read for it, as they were then.
    files: Arc<Mutex<Vec<(String, Stamp)>>>,
}

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
        let files = Arc::new(Mutex::new(Vec::new()));
        let mut environment = Environment::new();
        environment.set_keep_trailing_newline(true);
        environment.set_undefined_behavior(UndefinedBehavior::Chainable);
        environment.set_auto_escape_callback(|_| AutoEscape::Html);
        environment.set_fuel(Some(limits.steps));
        let (loader_root, loaded) = (Arc::clone(root), Arc::clone(&files));
        environment.set_loader(move |name| {
            let Some(found) = loader_root.template(name) else {
                return Ok(None);
            };
            loaded.lock().push((name.to_owned(), found.stamp));
            Ok(Some(found.text))
        });
        add_functions(&mut environment, values);
        environment
            .add_template_owned(name.to_owned(), source)
            .map_err(|error| TemplateError::from_engine(&error, name))?;
        Ok(Self {
            environment,
            name: name.to_owned(),
            limits,
            files,
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
    pub(crate) fn render(&self, job: &Job) -> Result<Made, TemplateError> {
        let fault = |error: &Error| TemplateError::from_engine(error, &self.name);
        let template = self
            .environment
            .get_template(&self.name)
            .map_err(|error| fault(&error))?;
        let mut output = Bounded {
            bytes: Vec::new(),
            left: self.limits.output_bytes,
            deadline: job.deadline,
        };
        let present = Present::begin(job.clone());
        let request = &*job.request;
        let context = minijinja::context! { request };
        let rendered = template.render_captured_to(context, &mut output);
        let noted = Present::end(present);
        rendered.map_err(|error| fault(&error))?;
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
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn add_functions(environment: &mut Environment<'static>, values: &Arc<dyn Values>) {
    environment.add_function("now", |format: Option<String>| match format {
        None => {
            let mut text = Vec::new();
            clock::push_page_date(&mut text);
            Value::from(String::from_utf8_lossy(&text).into_owned())
        }
        Some(format) => clock::format_now(&format).map_or_else(
            |detail| Value::from_safe_string(failure_comment(&detail)),
            Value::from,
        ),
    });
    let source = Arc::clone(values);
    environment.add_function("latest", move |topic: &str| {
        source
            .latest(topic)
            .map_or(Value::UNDEFINED, |publication| {
                Value::from_object(Shown(publication))
            })
    });
    let source = Arc::clone(values);
    environment.add_function("history", move |filter: &str, count: Option<usize>| {
        let filter = TopicFilter::new(filter)
            .map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))?;
        let count = count.unwrap_or(20).min(HISTORY_MAX);
        let publications = source.history(&filter, count).into_iter();
        Ok::<_, Error>(
            publications
                .map(|publication| Value::from_object(Shown(publication)))
                .collect::<Vec<_>>(),
        )
    });
    let source = Arc::clone(values);
    environment.add_function("live", move |topic: &str| {
        let mut span = Vec::new();
        push_live(&mut span, topic, source.latest(topic));
        with_present(|_, noted| noted.uses_live = true)?;
        Ok::<_, Error>(safe(span))
    });
    environment.add_function("call", |path: &str, named: Kwargs| {
        let mut arguments = Vec::new();
        for name in named.args() {
            arguments.push((name.to_owned(), named.get::<Value>(name)?.to_string()));
        }
        with_present(
            |job, noted| match call(&job.making(), path, &arguments, &mut noted.reply) {
                Ok(text) => Value::from(text),
                Err(error) => Value::from_safe_string(failure_comment(&error.to_string())),
            },
        )
    });
    environment.add_function("form_publish", |topic: String, named: Kwargs| {
        form(FormAction::Publish(topic), &named)
    });
    environment.add_function("form_call", |path: String, named: Kwargs| {
        form(FormAction::Call(path), &named)
    });
    environment.add_function("form_token", |named: Kwargs| form(FormAction::Show, &named));
}

/// The hidden field of a form.
fn form(action: FormAction, named: &Kwargs) -> Result<Value, Error> {
    let then = named.get("then")?;
    named.assert_all_used()?;
    with_present(|job, noted| {
        noted.has_form = true;
        let mut field = Vec::new();
        push_form(&mut field, &Form { action, then }, &job.making());
        safe(field)
    })
}

fn safe(html: Vec<u8>) -> Value {
    Value::from_safe_string(String::from_utf8_lossy(&html).into_owned())
}

/// A publication in a template: prints as its payload; has `payload`, `topic`, `id`, `time`,
/// `json` and `properties`.
#[derive(Debug)]
struct Shown(Arc<Publication>);

const SHOWN: [&str; 6] = ["payload", "topic", "id", "time", "json", "properties"];

impl Object for Shown {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let publication = &self.0;
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
        formatter.write_str(&text_of(&self.0))
    }
}
