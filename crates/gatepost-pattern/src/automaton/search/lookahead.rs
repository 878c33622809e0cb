//! The symbols that may follow a position.
//!
//! Most grams of a text with which a literal begins belong to another word than that of the
//! literal. The bytes after them say so before a position becomes active.

use super::symbol_set::{Symbol, SymbolSet};

/// The number of bytes after the current one that a search reads ahead.
pub(super) const AHEAD: usize = 3;

/// The symbols of the next bytes of a text.
pub(super) type NextSymbols = [Symbol; AHEAD];

/// By the distance of a byte: the symbols that it may have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Lookahead([SymbolSet; AHEAD]);

impl Lookahead {
    /// Any bytes, or none, may follow.
    pub(super) const ANY: Self = Self([SymbolSet::ALL; AHEAD]);

    /// One of these symbols follows, and `then` after it.
    pub(super) fn after(symbols: SymbolSet, then: Self) -> Self {
        let [second, third, _] = then.0;
        Self([symbols, second, third])
    }

    /// The symbols that may follow one of two positions.
    pub(super) fn union(self, other: Self) -> Self {
        let [first, second, third] = self.0;
        let [one, two, three] = other.0;
        Self([first.union(one), second.union(two), third.union(three)])
    }

    /// The symbols of the next byte, and those of the one after it.
    pub(super) fn first_two(self) -> [SymbolSet; 2] {
        let [first, second, _] = self.0;
        [first, second]
    }

    /// Whether these symbols may follow.
    #[inline]
    pub(super) fn permits(&self, next: NextSymbols) -> bool {
        let [first, second, third] = self.0;
        let [one, two, three] = next;
        first.contains(one) && second.contains(two) && third.contains(three)
    }
}
