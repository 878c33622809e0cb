//! Links of a message: found in its text and its HTML, and made canonical.

mod canonical;
mod escapes;
mod find;
mod list;
mod numeric_host;

pub(crate) use list::collect;
pub use list::{Uri, UriList};
