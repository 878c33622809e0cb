//! Searches for many literals at once, in one pass over a text.
//!
//! The literals of many patterns become one Glushkov NFA ([`nfa`]), which a lazy DFA makes
//! deterministic state by state as texts reach them ([`dfa`]). The term *literal* is Hyperscan's,
//! in a wider sense: each byte may be a class, and a literal may contain alternatives, optional
//! parts and short loops.
//!
//! Invariant: every occurrence of a literal is reported, in the order of their ends.

mod dfa;
mod literal;
mod nfa;

pub(crate) use dfa::{AnchoredSearcher, LazyDfa};
pub(crate) use literal::LiteralVisitor;
pub use literal::{LiteralInfo, SearchStopped, Window};
pub(crate) use nfa::{ANCHORED_START, ByteClasses, Nfa, NfaBuilder, Position, sorted};
