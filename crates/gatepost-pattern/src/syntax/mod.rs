//! Perl's syntax of regular expressions, read into a tree.
//!
//! [`delimiters`] splits `/viagra/i` into body and modifiers, [`parser`] and [`escapes`] parse the
//! body into [`Node`]s, [`mod@widen`] over-approximates a tree for prefilters, and [`front`] cuts
//! it off after the first bytes. Syntax that the parser does not support becomes an
//! [`mod@opaque`] node.

mod cursor;
mod delimiters;
mod error;
mod escapes;
mod front;
mod node;
mod opaque;
mod parser;
mod widen;

pub use cursor::Modifiers;
pub(crate) use delimiters::split;
pub use error::SyntaxError;
pub(crate) use node::{Assertion, Greediness, GroupReference, Node};
pub(crate) use opaque::opaque;
pub(crate) use parser::parse;
pub(crate) use widen::widen;

/// The tree of a pattern with delimiters.
#[cfg(test)]
pub(crate) fn parse_delimited(pattern: &str) -> Node {
    let (body, modifiers) = split(pattern.as_bytes()).expect(pattern);
    parse(body, modifiers).expect(pattern)
}
