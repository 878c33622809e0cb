//! The NFA with symbols instead of bytes, from which the tables of a search are made.

use super::alphabet::Alphabet;
use super::lookahead::{AHEAD, Lookahead};
use super::symbol_set::SymbolSet;
use crate::automaton::literal::LiteralInfo;
use crate::automaton::nfa::{NfaBuilder, Position};

/// The positions of a builder.
pub(super) struct SymbolNfa<'b> {
    builder: &'b NfaBuilder,
    /// By number of a set: its symbols.
    sets: Vec<SymbolSet>,
    /// By position: the symbols that may follow it.
    lookaheads: Vec<Lookahead>,
}

impl<'b> SymbolNfa<'b> {
    pub(super) fn new(builder: &'b NfaBuilder, alphabet: &Alphabet) -> Self {
        let sets = builder.sets().iter().map(|set| alphabet.symbols(set));
        let mut nfa = Self {
            builder,
            sets: sets.collect(),
            lookaheads: vec![Lookahead::ANY; builder.positions().len()],
        };
        // Each round knows one more byte.
        for _ in 0..AHEAD {
            nfa.lookaheads = nfa.positions().map(|one| nfa.looked_further(one)).collect();
        }
        nfa
    }

    /// All positions.
    pub(super) fn positions(&self) -> impl Iterator<Item = Position> + use<> {
        0..self.lookaheads.len() as Position
    }

    /// The positions that may follow a position, with the symbols that lead to each.
    pub(super) fn followers(
        &self,
        position: Position,
    ) -> impl Iterator<Item = (SymbolSet, Position)> {
        let positions = self.builder.positions();
        let of_position = positions.get(position as usize);
        let followers = of_position.map_or(&[][..], |(_, followers, _)| followers);
        followers.iter().map(|&follower| {
            let set = positions.get(follower as usize).map(|(set, ..)| *set);
            let symbols = set.and_then(|set| self.sets.get(usize::from(set)));
            (symbols.copied().unwrap_or_default(), follower)
        })
    }

    /// The literals that end in a position.
    pub(super) fn literals(&self, position: Position) -> &[LiteralInfo] {
        let of_position = self.builder.positions().get(position as usize);
        of_position.map_or(&[], |(.., literals)| literals)
    }

    /// The symbols that may follow a position; all if a literal ends in it.
    pub(super) fn lookahead(&self, position: Position) -> Lookahead {
        let known = self.lookaheads.get(position as usize);
        known.copied().unwrap_or_default()
    }

    /// The symbols that follow a position if a literal goes on after it.
    pub(super) fn onward(&self, position: Position) -> Lookahead {
        let none = Lookahead::default();
        self.followers(position).fold(none, |all, (symbols, next)| {
            all.union(Lookahead::after(symbols, self.lookahead(next)))
        })
    }

    fn looked_further(&self, position: Position) -> Lookahead {
        if self.literals(position).is_empty() {
            self.onward(position)
        } else {
            Lookahead::ANY
        }
    }
}
