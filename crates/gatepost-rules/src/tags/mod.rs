//! Tags: named values that templates of reports, patterns of rules and questions to the network
//! hold.
//!
//! - [`syntax`]: how a template holds them, `_NAME_` and `_NAME(argument)_`.
//! - [`message`]: those whose values are in the message itself.

pub(crate) mod message;
mod syntax;

pub(crate) use syntax::{Tag, TagTemplatePart, pieces};
