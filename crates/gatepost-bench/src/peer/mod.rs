//! Servers that the bench starts itself, each described by a small definition file.
//!
//! The definitions that come with the bench are in `peers/` and built in; `--peers DIR` adds
//! another folder, and a definition there replaces a built-in one of the same name.

mod definition;
mod running;

pub use definition::{PeerDefinition, PeerDefinitions};
pub use running::Running;
pub(crate) use running::version;
