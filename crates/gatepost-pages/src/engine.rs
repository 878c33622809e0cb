//! Pages that need the template engine: its functions, its limits, and the files it reads.
//!
//! Each page has an engine of its own, so a change of a file that one page includes reloads that
//! page alone. Rendering is bounded in steps and in output, and runs on a page worker, never on
//! an I/O thread.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gatepost_message::{Publication, TopicFilter};
use minijinja::value::{Enumerator, Kwargs, Object, Rest, Value};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, UndefinedBehavior};
use parking_lot::Mutex;

use crate::clock;
use crate::insertion::{failure_comment, push_live, text_of};
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

/// What a template sees as `request`.
#[derive(Debug, Clone, Default, serde::Serialize)]
pub struct PageRequest {
    /// The method.
    pub method: String,
    /// The path, decoded.
    pub path: String,
    /// The query's names and values, decoded.
    pub query: std::collections::BTreeMap<String, String>,
    /// The header fields, names in lower case.
    pub headers: std::collections::BTreeMap<String, String>,
    /// The authenticated user.
    pub user: Option<String>,
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
    pub fn render(&self, request: &PageRequest) -> Result<Vec<u8>, TemplateError> {
        let fault = |error: &Error| TemplateError::from_engine(error, &self.name);
        let template = self
            .environment
            .get_template(&self.name)
            .map_err(|error| fault(&error))?;
        let mut output = Bounded {
            bytes: Vec::new(),
            left: self.limits.output_bytes,
        };
        let live = LiveUsed::default();
        let context = minijinja::context! { request, __live => Value::from_object(live.clone()) };
        template
            .render_captured_to(context, &mut output)
            .map_err(|error| fault(&error))?;
        let mut html = output.bytes;
        if live.0.load(Ordering::Relaxed) {
            let place = body_end(&html).unwrap_or(html.len());
            html.splice(place..place, LIVE_SCRIPT.bytes());
        }
        Ok(html)
    }
}

/// Set by `live()`, read after rendering.
#[derive(Debug, Default, Clone)]
struct LiveUsed(Arc<AtomicBool>);

impl Object for LiveUsed {}

/// A writer that refuses to grow over its bound.
struct Bounded {
    bytes: Vec<u8>,
    left: usize,
}

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.left = self
            .left
            .checked_sub(bytes.len())
            .ok_or_else(|| io::Error::other("the page grew larger than output_max"))?;
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
    environment.add_function("live", move |state: &State<'_, '_>, topic: &str| {
        if let Some(mark) = state.lookup("__live")
            && let Some(mark) = mark.downcast_object_ref::<LiveUsed>()
        {
            mark.0.store(true, Ordering::Relaxed);
        }
        let mut span = Vec::new();
        push_live(&mut span, topic, source.latest(topic));
        Value::from_safe_string(String::from_utf8_lossy(&span).into_owned())
    });
    let source = Arc::clone(values);
    environment.add_function("call", move |path: &str, _: Rest<Value>, named: Kwargs| {
        call(&source, path, &named)
    });
}

fn call(values: &Arc<dyn Values>, path: &str, named: &Kwargs) -> Result<Value, Error> {
    let mut arguments = Vec::new();
    for name in named.args() {
        arguments.push((name.to_owned(), named.get::<Value>(name)?.to_string()));
    }
    let answer = match tokio::runtime::Handle::try_current() {
        Ok(runtime) => runtime.block_on(values.call(path, &arguments)),
        Err(_) => {
            return Ok(Value::from_safe_string(failure_comment(
                "no runtime to call from",
            )));
        }
    };
    Ok(match answer {
        Ok(text) => Value::from(text),
        Err(error) => Value::from_safe_string(failure_comment(&error.to_string())),
    })
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
