//! Lists of positions, of which many grams share one.

use hashbrown::HashMap;

use super::lookahead::Lookahead;
use super::symbol_nfa::SymbolNfa;
use super::symbol_set::Gram;
use crate::automaton::nfa::{Position, PositionSet};

/// A gram and a position that it leads to.
pub(super) type Pair = (Gram, Position);

/// The pairs of each gram, where those of a gram are side by side.
pub(super) fn by_gram(pairs: &[Pair]) -> impl Iterator<Item = &[Pair]> {
    pairs.chunk_by(|one, other| one.0 == other.0)
}

/// The symbols that may follow the positions of a list, and where these begin among all. They end
/// where those of the next list begin.
#[derive(Debug, Clone, Copy)]
pub(super) struct ListEntry {
    pub(super) lookahead: Lookahead,
    pub(super) positions: u32,
}

/// Lists of positions, as they are collected.
pub(super) struct Lists<'n> {
    nfa: &'n SymbolNfa<'n>,
    pub(super) entries: Vec<ListEntry>,
    /// The positions of all lists.
    pub(super) positions: Vec<Position>,
    /// By position: the list of it alone, which most lists are.
    of_one: HashMap<Position, u32>,
}

impl<'n> Lists<'n> {
    pub(super) fn new(nfa: &'n SymbolNfa<'n>) -> Self {
        Self {
            nfa,
            entries: Vec::new(),
            positions: Vec::new(),
            of_one: HashMap::new(),
        }
    }

    /// The number of the list of the positions of a gram.
    pub(super) fn of_pairs(&mut self, pairs: &[Pair]) -> u32 {
        let positions: PositionSet = pairs.iter().map(|&(_, position)| position).collect();
        self.number(&positions)
    }

    /// The number of the list of the positions of two lists.
    pub(super) fn union(&mut self, one: Option<u32>, other: Option<u32>) -> Option<u32> {
        let (Some(one), Some(other)) = (one, other) else {
            return one.or(other);
        };
        let mut both = PositionSet::from_slice(self.list(one));
        both.extend_from_slice(self.list(other));
        both.sort_unstable();
        both.dedup();
        Some(self.number(&both))
    }

    /// The number of a list. Equal lists mostly belong to grams that follow each other.
    fn number(&mut self, list: &[Position]) -> u32 {
        if let &[position] = list {
            if let Some(&known) = self.of_one.get(&position) {
                return known;
            }
            let number = self.push(list);
            self.of_one.insert(position, number);
            return number;
        }
        let last = self.entries.len().saturating_sub(1) as u32;
        if self.list(last) == list {
            return last;
        }
        self.push(list)
    }

    /// The positions of a list.
    fn list(&self, number: u32) -> &[Position] {
        let first = |number: u32| {
            let entry = self.entries.get(number as usize);
            entry.map_or(self.positions.len(), |entry| entry.positions as usize)
        };
        let range = first(number)..first(number + 1);
        self.positions.get(range).unwrap_or_default()
    }

    /// Adds a list; returns its number.
    pub(super) fn push(&mut self, list: &[Position]) -> u32 {
        let first = self.positions.len() as u32;
        let lookaheads = list.iter().map(|&position| self.nfa.lookahead(position));
        let lookahead = lookaheads.fold(Lookahead::default(), Lookahead::union);
        self.positions.extend_from_slice(list);
        self.entries.push(ListEntry {
            lookahead,
            positions: first,
        });
        self.entries.len() as u32 - 1
    }
}
