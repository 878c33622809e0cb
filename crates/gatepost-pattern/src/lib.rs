//! Perl regular expressions over bytes, and a prefilter for thousands of them.
//!
//! A [`Pattern`] finds the matches that Perl finds in a byte string under `/aa`. It is compiled
//! when it is first needed, and rules out most offsets of a text by first-byte and prefix sets
//! before an engine runs. A [`Prefilter`] finds in one pass over a text the few patterns of a long
//! list that can match at all.
//!
//! ```
//! use gatepost_pattern::{Pattern, Prefilter, PrefilterThresholds};
//!
//! let mut patterns = [
//!     Pattern::parse(b"/v[i1]agra/i")?,
//!     Pattern::parse(b"/(?:cheap|free).{0,9}meds/")?,
//! ];
//! let thresholds = PrefilterThresholds {
//!     patterns_min: 2,
//!     bits_min: 6.0,
//!     loop_probability_max: 0.3,
//! };
//! let prefilter = Prefilter::new(patterns.iter_mut().map(|pattern| (pattern, false)), thresholds);
//!
//! let text = b"free of meds";
//! let mut candidates = Vec::new();
//! prefilter.search(text, &mut candidates, |_| true, |candidates, literal, _end| {
//!     candidates.push(literal.pattern as usize);
//! })?;
//! assert_eq!(candidates, [1]);
//! assert_eq!(patterns[1].find(text, 0, |_| true)?, Some((0, 12)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The modules, each using only those before it:
//!
//! - `first_use`: counts of the computations at the first use of patterns.
//! - `byte_set`: sets of bytes, tested 64 bytes at a time.
//! - `syntax`: Perl's syntax as a tree.
//! - `automaton`: literals of many patterns as one NFA, and the searches for them.
//! - `engine`: PCRE2, regex-automata and plain comparison, which match one pattern.
//! - `prefix`: the offsets at which a match of one pattern can start.
//! - `pattern`: one pattern with its engines.
//! - `prefilter`: the patterns of a list that can match a text.
//! - `template`: patterns with texts that other patterns captured.
//!
//! Invariants: no pattern and no text makes this crate panic; a search takes a bounded number of
//! steps, or asks its caller whether to continue.

mod automaton;
mod byte_set;
mod check;
mod engine;
mod first_use;
mod pattern;
mod prefilter;
mod prefix;
mod syntax;
mod template;

pub use automaton::{LiteralInfo, SearchStopped, Window};
#[doc(hidden)]
pub use check::check_any_pattern;
pub use engine::{CompileMode, PcreCode, PcreError};
pub use first_use::{FirstUseCount, FirstUses};
pub use pattern::{LONG_TEXT_BYTES, LimitReached, MatchSpan, Pattern, PatternError};
pub use prefilter::{Prefilter, PrefilterThresholds, SAMPLE_TEXT};
pub use syntax::{Modifiers, SyntaxError};
pub use template::{Captured, Groups, Template};
