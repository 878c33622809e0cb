//! The grams with which literals begin, and the positions that each of them leads to.
//!
//! A *gram* is the symbols of a few consecutive bytes. At most offsets of a text no literal begins
//! with the gram there, which one bit of a table says; so the search holds active positions only
//! after the others.
//!
//! A literal that is shorter than a gram is found by its end: all grams with that end lead to its
//! last position.

use hashbrown::HashMap;

use super::positions::Positions;
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

/// The symbols that lead on from the positions of a list, and where these begin among all. They end
/// where those of the next list begin.
#[derive(Debug, Clone, Copy)]
struct ListEntry {
    /// All symbols if a literal ends in one of the positions.
    symbols: SymbolSet,
    positions: u32,
}

/// A gram and a position that it leads to.
type Pair = (Gram, Position);

impl ListEntry {
    /// The entry of a list that begins at `first` among all positions.
    fn new(all: &Positions, list: &[Position], first: usize) -> Self {
        let after = |&position: &Position| {
            let entry = all.entry(position);
            if entry.is_end() {
                SymbolSet::ALL
            } else {
                entry.symbols
            }
        };
        Self {
            symbols: list
                .iter()
                .map(after)
                .fold(SymbolSet::default(), SymbolSet::union),
            positions: first as u32,
        }
    }
}

impl GramTable {
    /// The grams with which the literals begin that start in the followers of `root`.
    pub(super) fn new(all: &Positions, root: Position) -> Self {
        let mut pairs = vec![(0, root)];
        let (mut heads, mut short) = (pairs.clone(), Vec::new());
        let mut length = 0;
        while length < LENGTH_MAX && (length < 2 || pairs.len() >= PAIRS_MIN) {
            heads = with_next_symbol(all, &distinct(heads));
            short = with_any_symbol_before(&short, length);
            if length > 0 && heads.len() + short.len() > PAIRS_MAX {
                break;
            }
            length += 1;
            pairs.clone_from(&heads);
            pairs.extend_from_slice(&short);
            let is_end = |(_, position): &&Pair| all.entry(*position).is_end();
            short.extend(heads.iter().filter(is_end));
        }
        Self::of_pairs(all, &distinct(pairs), length)
    }

    fn of_pairs(all: &Positions, pairs: &[Pair], length: u32) -> Self {
        let grams: Gram = 1 << (length * SYMBOL_BITS);
        let mut present = vec![SymbolSet::default(); grams as usize / SYMBOLS];
        let (mut lists, mut entries, mut positions) = (Vec::new(), Vec::new(), Vec::new());
        let (mut known, mut list) = (HashMap::<Vec<Position>, u32>::new(), Vec::new());
        for of_gram in pairs.chunk_by(|(one, _), (other, _)| one == other) {
            let (row, last) = split(of_gram.first().map_or(0, |&(gram, _)| gram));
            present[row] = present[row].union(SymbolSet::from_iter([last]));
            list.clear();
            list.extend(of_gram.iter().map(|&(_, position)| position));
            lists.push(*known.entry_ref(list.as_slice()).or_insert_with(|| {
                entries.push(ListEntry::new(all, &list, positions.len()));
                positions.extend_from_slice(&list);
                entries.len() as u32 - 1
            }));
        }
        entries.push(ListEntry::new(all, &[], positions.len()));
        let mut before = 0;
        let rank = |row: &SymbolSet| {
            before += row.len();
            before - row.len()
        };
        Self {
            mask: grams - 1,
            ranks: present.iter().map(rank).collect(),
            present: present.into(),
            lists: lists.into(),
            entries: entries.into(),
            positions: positions.into(),
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
                let positions = self.positions(rest.gram, rest.next_symbol());
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
    /// symbol.
    #[inline]
    pub(super) fn positions(&self, gram: Gram, next_symbol: Symbol) -> &[Position] {
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
            Some([entry, next]) if entry.symbols.contains(next_symbol) => {
                let range = entry.positions as usize..next.positions as usize;
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

/// The pairs of grams with one more symbol.
fn with_next_symbol(all: &Positions, pairs: &[Pair]) -> Vec<Pair> {
    let mut longer = Vec::new();
    for &(gram, position) in pairs {
        for follower in all.followers_of(position) {
            let gram = gram << SYMBOL_BITS;
            let symbols = follower.symbols.iter();
            longer.extend(symbols.map(|symbol| (gram | Gram::from(symbol), follower.position)));
        }
    }
    longer
}

/// The same pairs, each once, in the order of their grams.
fn distinct(mut pairs: Vec<Pair>) -> Vec<Pair> {
    pairs.sort_unstable_by_key(|&(gram, position)| u64::from(gram) << 32 | u64::from(position));
    pairs.dedup();
    pairs
}

/// The pairs of grams of `length` symbols, with any symbol before.
fn with_any_symbol_before(pairs: &[Pair], length: u32) -> Vec<Pair> {
    let with_any = |&(gram, position): &Pair| {
        let symbols = 0..SYMBOLS as Gram;
        symbols.map(move |symbol| (symbol << (length * SYMBOL_BITS) | gram, position))
    };
    pairs.iter().flat_map(with_any).collect()
}
