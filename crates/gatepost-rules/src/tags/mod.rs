//! SpamAssassin's template tags, as they occur in reports, in patterns of rules and in `askdns`
//! queries.
//!
//! - [`syntax`]: how a template holds them, `_NAME_` and `_NAME(argument)_`.
//! - [`message`]: those whose values are in the message itself.

pub(crate) mod message;
mod syntax;

pub(crate) use syntax::{Tag, TagTemplatePart, pieces};
