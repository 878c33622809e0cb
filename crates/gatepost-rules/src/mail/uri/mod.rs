//! Links of a message: found in its text and its HTML, and made canonical.

mod canonical;
mod find;
mod list;

pub(crate) use list::collect;
pub use list::{Uri, UriList};
