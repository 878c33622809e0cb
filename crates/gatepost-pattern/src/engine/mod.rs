//! The engines that match a pattern, and the translations of its syntax tree for them.
//!
//! - [`backtracking`] prints a pattern for PCRE2, which [`pcre`] calls; [`subroutines`] shortens
//!   patterns that PCRE2 refuses as too large.
//! - [`linear`] matches in linear time, where regex-automata finds the same as Perl.
//! - [`literal`] compares bytes, where a pattern is a few literals.

mod backtracking;
mod linear;
mod literal;
mod pcre;
mod subroutines;

pub(crate) use backtracking::{compile, compile_with_groups};
pub(crate) use linear::LinearEngine;
pub(crate) use literal::LiteralPattern;
pub use pcre::{CompileMode, PcreCode, PcreError};
