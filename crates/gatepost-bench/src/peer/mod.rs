//! Servers that the bench starts itself, each described by a small definition file.
//!
//! The definitions that come with the bench are in `peers/`, built in; `--peers DIR` adds a
//! folder of one's own, and a definition there takes the place of a built-in one.

mod definition;
mod running;

pub use definition::{Definition, Definitions};
pub use running::Running;
pub(crate) use running::version;
