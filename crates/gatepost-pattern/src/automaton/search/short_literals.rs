//! The literals that are shorter than a gram.

use super::lists::{Lists, Pair, by_gram};
use super::symbol_set::{Gram, SYMBOL_BITS, SYMBOLS, SymbolSet};

/// The literals of one length, which is less than that of a gram.
pub(super) struct ShortLiterals {
    /// By the symbols of a literal: the list of its last positions.
    lists: Vec<Option<u32>>,
    /// By the symbols of a literal but the last: the last ones.
    ends: Vec<SymbolSet>,
}

impl ShortLiterals {
    /// The literals of `length` symbols, each with its last position.
    pub(super) fn new(lists: &mut Lists<'_>, pairs: &[Pair], length: u32) -> Self {
        let grams = 1 << (length * SYMBOL_BITS);
        let mut short = Self {
            lists: vec![None; grams],
            ends: vec![SymbolSet::default(); grams / SYMBOLS],
        };
        for of_gram in by_gram(pairs) {
            let gram = of_gram.first().map_or(0, |&(gram, _)| gram as usize);
            short.lists[gram] = Some(lists.of_pairs(of_gram));
            short.ends[gram / SYMBOLS].insert((gram % SYMBOLS) as u8);
        }
        short
    }

    /// The symbols with which literals end after all symbols of a gram but the last.
    pub(super) fn ends(&self, row: usize) -> SymbolSet {
        self.ends[row % self.ends.len()]
    }

    /// The list of the literals with which a gram ends.
    pub(super) fn list(&self, gram: Gram) -> Option<u32> {
        self.lists[gram as usize % self.lists.len()]
    }
}
