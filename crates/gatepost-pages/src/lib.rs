//! Templates, static files, content cache, access log and live insertion points.
//!
//! This crate knows files, templates and values; it knows no socket and no HTTP. The HTTP
//! listener asks [`Values`] for nothing itself: it hands a path to the pages and gets back
//! pieces of bytes, of which the static ones are shared and never copied.

mod settings;
mod values;

pub use settings::{AccessLogFormat, AccessLogSettings, PagesSettings, Recheck};
pub use values::{CallError, Promise, Values};
