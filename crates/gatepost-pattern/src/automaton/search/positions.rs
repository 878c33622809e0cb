//! The positions of the NFA as a search steps through them.
//!
//! A search reads a few positions among twenty thousand, scattered over memory that no cache
//! holds. So one load of an entry says all of a position, and its followers lie side by side.

use super::alphabet::Alphabet;
use super::symbol_set::{Symbol, SymbolSet};
use crate::automaton::literal::LiteralInfo;
use crate::automaton::nfa::{NfaBuilder, Position};

/// All positions, their followers and their literals.
#[derive(Debug)]
pub(super) struct Positions {
    entries: Box<[SearchPosition]>,
    followers: Box<[Follower]>,
    /// Lists of literals that end in the same position; the first list is empty.
    literals: Box<[Box<[LiteralInfo]>]>,
}

/// A position.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SearchPosition {
    /// The symbols that lead on to another position.
    pub(super) symbols: SymbolSet,
    /// The first of its followers, which identifies the position while it is active.
    pub(super) followers: u32,
    /// The number of the list of the literals that end in the position.
    literals: u32,
}

/// A position that may follow another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Follower {
    /// The symbols that lead to the position.
    pub(super) symbols: SymbolSet,
    pub(super) position: Position,
    /// The next follower in the list is one of another position.
    is_last: bool,
}

impl SearchPosition {
    /// Whether a literal ends in the position.
    #[inline]
    pub(super) fn is_end(&self) -> bool {
        self.literals != 0
    }
}

impl Positions {
    /// The positions of a builder.
    pub(super) fn new(builder: &NfaBuilder, alphabet: &Alphabet) -> Self {
        let sets = builder.sets().iter().map(|set| alphabet.symbols(set));
        let sets: Vec<SymbolSet> = sets.collect();
        let mut entries = Vec::new();
        let mut followers: Vec<Follower> = Vec::new();
        let mut literals = vec![Box::default()];
        for (_, follow, ending) in builder.positions() {
            let first = followers.len();
            let mut symbols = SymbolSet::default();
            for &position in follow {
                let (set, ..) = builder.positions()[position as usize];
                let of_follower = sets[usize::from(set)];
                symbols = symbols.union(of_follower);
                followers.push(Follower {
                    symbols: of_follower,
                    position,
                    is_last: false,
                });
            }
            if let Some(last) = followers.get_mut(first..).and_then(<[_]>::last_mut) {
                last.is_last = true;
            }
            let has_literals = !ending.is_empty();
            entries.push(SearchPosition {
                symbols,
                followers: first as u32,
                literals: if has_literals {
                    literals.len() as u32
                } else {
                    0
                },
            });
            if has_literals {
                literals.push(ending.as_slice().into());
            }
        }
        Self {
            entries: entries.into(),
            followers: followers.into(),
            literals: literals.into(),
        }
    }

    /// A position.
    #[inline]
    pub(super) fn entry(&self, position: Position) -> SearchPosition {
        let entry = self.entries.get(position as usize);
        entry.copied().unwrap_or_default()
    }

    /// Calls a function with each position that follows an active one after a symbol. Active
    /// positions have at least one follower.
    #[inline]
    pub(super) fn each_next(&self, active: u32, symbol: Symbol, mut visit: impl FnMut(Position)) {
        for follower in self.followers.get(active as usize..).unwrap_or_default() {
            if follower.symbols.contains(symbol) {
                visit(follower.position);
            }
            if follower.is_last {
                break;
            }
        }
    }

    /// The positions that may follow a position.
    pub(super) fn followers_of(&self, position: Position) -> &[Follower] {
        let entry = self.entry(position);
        if entry.symbols.is_empty() {
            return &[];
        }
        let followers = self.followers.get(entry.followers as usize..);
        let mut lists = followers
            .unwrap_or_default()
            .split_inclusive(|follower| follower.is_last);
        lists.next().unwrap_or_default()
    }

    /// The literals that end in a position.
    pub(super) fn literals(&self, entry: SearchPosition) -> &[LiteralInfo] {
        let literals = self.literals.get(entry.literals as usize);
        literals.map_or(&[], |literals| literals)
    }
}
