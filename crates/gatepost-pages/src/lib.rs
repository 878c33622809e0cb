//! Templates, static files, content cache, access log and live insertion points.
//!
//! This crate knows files, templates and values, but no sockets and no HTTP. The HTTP listener
//! passes a path to [`Pages`] and receives pieces of bytes; the static ones are shared and never
//! copied. The values come from an implementation of [`ValueSource`].

pub mod access_log;
mod check;
pub mod clock;
mod encoding;
mod engine;
mod entry;
mod error;
mod escape;
mod file;
pub mod forms;
mod front;
mod gzip;
mod insertion;
mod listing;
mod live;
mod memory_file;
pub mod memory_limit;
mod mime;
mod mounted;
mod page;
mod pages;
mod readers;
mod request;
mod resolve;
mod returning;
mod settings;
mod site;
pub mod template;
mod values;
mod workers;

pub use access_log::AccessLog;
pub use check::{errors_of_pages, paths_without_content};
pub use encoding::Encoding;
pub use entry::{CachedPath, OpenedFile, PathContent};
pub use error::{RenderError, TemplateError};
pub use escape::push_escaped;
pub use file::{Conditions, Selection, StaticFile, Variant, is_known};
pub use insertion::{Argument, Insertion, PageNeeds};
pub use live::LiveValue;
pub use memory_file::MemoryFile;
pub use mime::{is_compressible, mime_type};
pub use mounted::MountedFolder;
pub use page::{CompiledPage, InsertionTexts, PageOutput, PageSegments, RenderedPage, push_static};
pub use pages::{Pages, rendered, takes_gzip};
pub use readers::{MalformedReaders, MalformedSitePath, PathAccess, ReaderRule, Readers, SitePath};
pub use request::{BrowserSession, FormResult, PageError, PageRequest, Pairs, Reference};
pub use settings::{AccessLogFormat, AccessLogSettings, PagesSettings, Recheck};
pub use site::Site;
pub use values::{CallError, PageCall, ProcedureResponse, ValueSource};
