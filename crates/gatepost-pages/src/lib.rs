//! Templates, static files, content cache, access log and live insertion points.
//!
//! This crate knows files, templates and values; it knows no socket and no HTTP. The HTTP
//! listener hands a path to [`Pages`] and gets back pieces of bytes, of which the static ones
//! are shared and never copied; where values come from is behind [`Values`].

pub mod access_log;
pub mod clock;
mod engine;
mod escape;
mod file;
mod insertion;
mod mime;
mod page;
mod pages;
mod resolve;
mod settings;
pub mod template;
mod values;

pub use access_log::AccessLog;
pub use engine::{PageRequest, TemplateError};
pub use escape::push_escaped;
pub use file::{Conditions, Selection, StaticFile};
pub use insertion::Insertion;
pub use mime::{is_compressible, mime_type};
pub use page::{Page, RenderError, Rendered, Sink};
pub use pages::{Content, Entry, Pages};
pub use settings::{AccessLogFormat, AccessLogSettings, PagesSettings, Recheck};
pub use values::{CallError, Promise, Values};
