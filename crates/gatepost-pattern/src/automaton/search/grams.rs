//! The grams with which literals begin, and the positions that each of them leads to.
//!
//! A *gram* is the symbols of a few consecutive bytes. At most offsets of a text no literal begins
//! with the gram there, which one bit of a table says; so the search holds active positions only
//! after the others.
//!
//! A literal that is shorter than a gram is found by its end: all grams with that end lead to its
//! last position.

use super::lists::{ListEntry, Lists, Pair, by_gram};
use super::lookahead::NextSymbols;
use super::short_literals::ShortLiterals;
use super::symbol_nfa::SymbolNfa;
use super::symbol_set::{Gram, SYMBOL_BITS, SYMBOLS, Symbol, SymbolSet};
use super::text::TextReader;
use crate::automaton::nfa::Position;

/// The greatest length of a gram.
const LENGTH_MAX: u32 = 3;
/// The number of pairs of a gram and a position that it leads to, from which on longer grams are
/// worth their table.
const PAIRS_MIN: usize = 64;
/// The greatest number of such pairs. If longer grams have more, shorter ones are used.
const PAIRS_MAX: usize = 1 << 19;

/// By gram: the positions that are active after it.
#[derive(Debug)]
pub(super) struct GramTable {
    /// The greatest gram, which has all bits of a gram.
    mask: Gram,
    /// By all symbols of a gram but the last: the last symbols of grams that lead to a position.
    present: Box<[SymbolSet]>,
    /// By the same symbols: the number of such grams before.
    ranks: Box<[u32]>,
    /// By present gram: the number of its list.
    lists: Box<[u32]>,
    /// By list, which many grams share, with a sentinel after the last.
    entries: Box<[ListEntry]>,
    positions: Box<[Position]>,
}

impl GramTable {
    /// The grams with which the literals begin that start in the followers of `root`.
    pub(super) fn new(nfa: &SymbolNfa<'_>, root: Position) -> Self {
        let mut pairs = vec![(0, root)];
        let mut short = Vec::new();
        let mut length = 0;
        while length < LENGTH_MAX && (length < 2 || pairs.len() >= PAIRS_MIN) {
            let pairs_max = if length == 0 { usize::MAX } else { PAIRS_MAX };
            let Some(longer) = with_next_symbol(nfa, &pairs, pairs_max) else {
                break;
            };
            if length > 0 {
                short.push(ends(nfa, &pairs));
            }
            length += 1;
            pairs = longer;
        }
        let mut lists = Lists::new(nfa);
        let short: Vec<ShortLiterals> = (1..)
            .zip(&short)
            .map(|(length, pairs)| ShortLiterals::new(&mut lists, pairs, length))
            .collect();
        Self::of_pairs(lists, &pairs, &short, length)
    }

    fn of_pairs(
        mut lists: Lists<'_>,
        pairs: &[Pair],
        short: &[ShortLiterals],
        length: u32,
    ) -> Self {
        let grams: Gram = 1 << (length * SYMBOL_BITS);
        let mut present = vec![SymbolSet::default(); grams as usize / SYMBOLS];
        for &(gram, _) in pairs {
            let (row, last) = split(gram);
            present[row].insert(last);
        }
        for (row, symbols) in (0..).zip(&mut present) {
            for short in short {
                *symbols = symbols.union(short.ends(row));
            }
        }
        let mut list_of_gram = Vec::new();
        let mut pairs = by_gram(pairs).peekable();
        for (row, symbols) in (0..).zip(&present) {
            for last in symbols.iter() {
                let gram = row << SYMBOL_BITS | Gram::from(last);
                let begun = pairs.next_if(|pairs| pairs.first().is_some_and(|pair| pair.0 == gram));
                let mut list = begun.map(|pairs| lists.of_pairs(pairs));
                for short in short {
                    list = lists.union(list, short.list(gram));
                }
                list_of_gram.push(list.unwrap_or_default());
            }
        }
        lists.push(&[]);
        let mut before = 0;
        let rank = |row: &SymbolSet| {
            before += row.len();
            before - row.len()
        };
        Self {
            mask: grams - 1,
            ranks: present.iter().map(rank).collect(),
            present: present.into(),
            lists: list_of_gram.into(),
            entries: lists.entries.into(),
            positions: lists.positions.into(),
        }
    }

    /// The number of symbols in a gram.
    #[cfg(test)]
    pub(super) fn length(&self) -> u32 {
        self.mask.count_ones() / SYMBOL_BITS
    }

    /// The gram that ends with a symbol after another gram.
    #[inline]
    pub(super) fn next(&self, gram: Gram, symbol: Symbol) -> Gram {
        (gram << SYMBOL_BITS | Gram::from(symbol)) & self.mask
    }

    /// Reads bytes up to the next gram that leads to positions; returns them.
    #[inline(never)]
    pub(super) fn skip(&self, text: &mut TextReader<'_>) -> Option<&[Position]> {
        let mut rest = text.clone();
        while let Some(symbol) = rest.next() {
            rest.gram = self.next(rest.gram, symbol);
            if self.contains(rest.gram) {
                let positions = self.positions(rest.gram, rest.next_symbols());
                if !positions.is_empty() {
                    *text = rest;
                    return Some(positions);
                }
            }
        }
        None
    }

    /// Whether a gram leads to a position.
    #[inline]
    fn contains(&self, gram: Gram) -> bool {
        let (row, last) = split(gram);
        self.present.get(row).is_some_and(|row| row.contains(last))
    }

    /// The positions that a gram leads to, if a literal ends with it or may continue with the next
    /// symbols.
    #[inline]
    pub(super) fn positions(&self, gram: Gram, next: NextSymbols) -> &[Position] {
        let (row, last) = split(gram);
        let (Some(present), Some(before)) = (self.present.get(row), self.ranks.get(row)) else {
            return &[];
        };
        if !present.contains(last) {
            return &[];
        }
        let rank = *before + present.count_below(last);
        let list = self
            .lists
            .get(rank as usize)
            .map_or(0, |&list| list as usize);
        match self.entries.get(list..list + 2) {
            Some([entry, after]) if entry.lookahead.permits(next) => {
                let range = entry.positions as usize..after.positions as usize;
                self.positions.get(range).unwrap_or_default()
            }
            _ => &[],
        }
    }
}

/// The symbols of a gram but the last, and the last.
#[inline]
fn split(gram: Gram) -> (usize, Symbol) {
    let last = gram as usize % SYMBOLS;
    (gram as usize / SYMBOLS, last as Symbol)
}

/// The pairs of grams with one more symbol, in the order of the grams, as the given ones are;
/// `None` if there are more than `pairs_max`.
fn with_next_symbol(nfa: &SymbolNfa<'_>, pairs: &[Pair], pairs_max: usize) -> Option<Vec<Pair>> {
    let mut longer = Vec::new();
    for of_gram in by_gram(pairs) {
        let followers = of_gram
            .iter()
            .flat_map(|&(_, position)| nfa.followers(position));
        let mut followers: Vec<(SymbolSet, Position)> = followers.collect();
        followers.sort_unstable_by_key(|&(_, position)| position);
        followers.dedup_by_key(|&mut (_, position)| position);
        let first = longer.len();
        for (symbols, position) in followers {
            for symbol in symbols.iter() {
                let gram = of_gram.first().map_or(0, |&(gram, _)| gram);
                longer.push((gram << SYMBOL_BITS | Gram::from(symbol), position));
            }
        }
        if longer.len() > pairs_max {
            return None;
        }
        if let Some(of_gram) = longer.get_mut(first..) {
            of_gram.sort_unstable();
        }
    }
    Some(longer)
}

/// The pairs in whose position a literal ends.
fn ends(nfa: &SymbolNfa<'_>, pairs: &[Pair]) -> Vec<Pair> {
    let is_end = |(_, position): &&Pair| !nfa.literals(*position).is_empty();
    pairs.iter().filter(is_end).copied().collect()
}
