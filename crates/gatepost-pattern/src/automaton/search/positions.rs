//! The positions of the NFA as a search steps through them.
//!
//! A search reads a few positions among twenty thousand, scattered over memory that no cache
//! holds. So a follower says all of its position, and the followers of a position lie side by side:
//! a step from one position to the next loads one line of the cache.

use super::lookahead::NextSymbols;
use super::symbol_nfa::SymbolNfa;
use super::symbol_set::{NO_BYTE, Symbol, SymbolSet};
use crate::automaton::literal::LiteralInfo;
use crate::automaton::nfa::Position;

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
    /// The symbols of the next byte, and of the one after it, with which a literal goes on.
    onward: [SymbolSet; 2],
    /// The first of its followers, which identifies the position while it is active.
    pub(super) followers: u32,
    /// The number of the list of the literals that end in the position.
    literals: u32,
}

/// A position that may follow another.
#[derive(Debug, Clone, Copy)]
struct Follower {
    /// The symbols that lead to the position, and [`NO_BYTE`] if the next follower in the list is
    /// one of another position.
    symbols: SymbolSet,
    position: SearchPosition,
}

impl SearchPosition {
    /// Whether a literal ends in the position.
    #[inline]
    pub(super) fn is_end(&self) -> bool {
        self.literals != 0
    }

    /// Whether a literal may go on with these symbols.
    #[inline]
    pub(super) fn goes_on(&self, next: NextSymbols) -> bool {
        let [one, two, _] = next;
        let [first, second] = self.onward;
        first.contains(one) && second.contains(two)
    }

    /// Whether a literal may go on with any symbols.
    pub(super) fn has_followers(&self) -> bool {
        !self.onward[0].is_empty()
    }
}

impl Positions {
    pub(super) fn new(nfa: &SymbolNfa<'_>) -> Self {
        let mut entries = Vec::new();
        let mut literals: Vec<Box<[LiteralInfo]>> = vec![Box::default()];
        let mut followers = 0;
        for position in nfa.positions() {
            let ending = nfa.literals(position);
            entries.push(SearchPosition {
                onward: nfa.onward(position).first_two(),
                followers,
                literals: if ending.is_empty() {
                    0
                } else {
                    literals.push(ending.into());
                    literals.len() as u32 - 1
                },
            });
            followers += nfa.followers(position).count() as u32;
        }
        Self {
            followers: nfa
                .positions()
                .flat_map(|one| followers_of(nfa, &entries, one))
                .collect(),
            entries: entries.into(),
            literals: literals.into(),
        }
    }

    /// A position.
    #[inline]
    pub(super) fn entry(&self, position: Position) -> SearchPosition {
        let entry = self.entries.get(position as usize);
        entry.copied().unwrap_or_default()
    }

    /// Calls a function with each position that follows an active one after the symbol of a byte.
    /// Active positions have at least one follower.
    #[inline]
    pub(super) fn each_next(
        &self,
        active: u32,
        symbol: Symbol,
        mut visit: impl FnMut(&SearchPosition),
    ) {
        for follower in self.followers.get(active as usize..).unwrap_or_default() {
            if follower.symbols.contains(symbol) {
                visit(&follower.position);
            }
            if follower.symbols.contains(NO_BYTE) {
                break;
            }
        }
    }

    /// The literals that end in a position.
    pub(super) fn literals(&self, position: &SearchPosition) -> &[LiteralInfo] {
        let literals = self.literals.get(position.literals as usize);
        literals.map_or(&[], |literals| literals)
    }
}

/// The followers of a position, the last one marked.
fn followers_of(
    nfa: &SymbolNfa<'_>,
    entries: &[SearchPosition],
    position: Position,
) -> Vec<Follower> {
    let follower = |(symbols, position): (SymbolSet, Position)| {
        let entry = entries.get(position as usize);
        Follower {
            symbols,
            position: entry.copied().unwrap_or_default(),
        }
    };
    let mut followers: Vec<Follower> = nfa.followers(position).map(follower).collect();
    if let Some(last) = followers.last_mut() {
        last.symbols.insert(NO_BYTE);
    }
    followers
}
