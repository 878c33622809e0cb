//! Finds the patterns that can match a text at all, in one pass for their required literals.
//!
//! Nearly every pattern has a part that is rare in mail: a word, a word spelled with look-alikes, a
//! run of digits. [`required`] selects such a literal for each pattern, or one for each of its
//! alternatives, and one automaton searches for the literals of all patterns. A pattern whose
//! literal occurs is a *candidate*, and is verified by its engine; where the distance of the
//! literal from the start of a match is bounded, only at the offsets within that window.
//!
//! Invariant: every match of a pattern contains one of its literals, and a match (that one, or one
//! without the optional parts at its front) starts within the window of the literal. A literal may
//! occur without a match, which only costs time.

mod byte_run;
mod concat;
mod cost;
mod filter;
mod required;
mod sample;
#[cfg(test)]
mod tests;

pub use filter::{Prefilter, PrefilterThresholds};
pub use sample::SAMPLE_TEXT;
