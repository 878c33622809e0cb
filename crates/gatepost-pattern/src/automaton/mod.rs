//! Automata of many literals.
//!
//! The term *literal* is Hyperscan's, in a wider sense: each byte may be a class, and a literal may
//! contain alternatives, optional parts and short loops. The literals of many patterns become one
//! Glushkov NFA ([`nfa`]). Two searches use such automata:
//!
//! - [`search`] finds all literals in a text, those of a thousand patterns. It simulates the NFA,
//!   which the few texts with the beginning of a literal need.
//! - [`dfa`] tests whether one of a few short literals starts at an offset, which so many offsets
//!   need that states are computed once and kept.

mod dfa;
mod literal;
mod nfa;
mod search;

pub(crate) use dfa::{LazyDfa, LazyDfaSearcher};
pub(crate) use literal::LiteralVisitor;
pub use literal::{LiteralInfo, SearchStopped, Window};
pub(crate) use nfa::{ANCHORED_START, ByteClasses, Nfa, NfaBuilder, Position, sorted};
pub(crate) use search::LiteralSearch;
