//! The search for the literals of many patterns in one pass over a text.
//!
//! The NFA is simulated: the search holds the active positions, mostly none, and replaces them at
//! each byte by those of their followers that accept it. Positions become active only after grams
//! with which literals begin ([`grams`]). Nothing is computed at run time that a later search
//! could reuse, so a text that was never seen before takes no longer than another, and threads
//! share nothing that changes.
//!
//! A DFA would have too many states to be made at load, and each mail leads to some hundred states
//! of a lazy DFA to which no earlier mail led.
//!
//! Invariant: every occurrence of a literal is reported, in the order of their ends; more than once
//! if several ways lead to its end. Since symbols merge bytes ([`alphabet`]), a few other texts are
//! reported too.

mod alphabet;
mod grams;
mod lists;
mod lookahead;
mod positions;
mod short_literals;
mod symbol_nfa;
mod symbol_set;
#[cfg(test)]
mod tests;
mod text;

use self::alphabet::Alphabet;
use self::grams::GramTable;
use self::lookahead::{AHEAD, NextSymbols};
use self::positions::{Positions, SearchPosition};
use self::symbol_nfa::SymbolNfa;
use self::symbol_set::{NO_BYTE, Symbol};
use self::text::TextReader;
use super::literal::{LiteralVisitor, SearchStopped};
use super::nfa::{ANCHORED_START, NfaBuilder, UNANCHORED_START};

/// Active positions that are replaced before the visitor is asked whether to continue.
const POSITIONS_PER_QUESTION: usize = 256;
/// The number of active positions up to which a new one is compared with each of them; more are
/// sorted.
const COMPARED_MAX: usize = 16;

/// Searches for the literals of many patterns at once.
#[derive(Debug)]
pub(crate) struct LiteralSearch {
    alphabet: Alphabet,
    positions: Positions,
    grams: GramTable,
}

impl LiteralSearch {
    /// The search for the literals of a builder.
    pub(crate) fn new(builder: &NfaBuilder) -> Self {
        let alphabet = Alphabet::new(builder);
        let nfa = SymbolNfa::new(builder, &alphabet);
        Self {
            positions: Positions::new(&nfa),
            grams: GramTable::new(&nfa, UNANCHORED_START),
            alphabet,
        }
    }

    /// Reports each literal in `text` to the visitor, in the order of their ends.
    #[inline(never)]
    pub(crate) fn search(
        &self,
        text: &[u8],
        visitor: &mut impl LiteralVisitor,
    ) -> Result<(), SearchStopped> {
        let mut search = TextSearch {
            positions: &self.positions,
            visitor,
            end: 0,
            next: [NO_BYTE; AHEAD],
            replaced: 0,
        };
        let at_start = self.positions.entry(ANCHORED_START);
        let (mut active, mut next) = (Vec::new(), Vec::new());
        if at_start.has_followers() {
            active.push(at_start.followers);
        }
        let mut reader = TextReader::new(&self.alphabet, text);
        loop {
            let begun = if active.is_empty() {
                let Some(begun) = self.grams.skip(&mut reader) else {
                    return Ok(());
                };
                search.next = reader.next_symbols();
                search.end = text.len() - reader.left();
                begun
            } else {
                let Some(symbol) = reader.next() else {
                    return Ok(());
                };
                reader.gram = self.grams.next(reader.gram, symbol);
                search.next = reader.next_symbols();
                search.end = text.len() - reader.left();
                search.step(&active, &mut next, symbol)?;
                self.grams.positions(reader.gram, search.next)
            };
            for &position in begun {
                search.reach(&mut next, &self.positions.entry(position));
            }
            if next.len() > COMPARED_MAX {
                next.sort_unstable();
                next.dedup();
            }
            std::mem::swap(&mut active, &mut next);
            next.clear();
        }
    }
}

/// A search of one text.
struct TextSearch<'s, V> {
    positions: &'s Positions,
    visitor: &'s mut V,
    /// The offset after the current byte.
    end: usize,
    /// The symbols after the current byte.
    next: NextSymbols,
    /// Active positions replaced since the visitor was asked whether to continue.
    replaced: usize,
}

impl<V: LiteralVisitor> TextSearch<'_, V> {
    /// Adds the positions that follow the active ones after the current byte to `next`. Both lists
    /// hold the followers of each position.
    #[inline]
    fn step(
        &mut self,
        active: &[u32],
        next: &mut Vec<u32>,
        symbol: Symbol,
    ) -> Result<(), SearchStopped> {
        self.replaced += active.len();
        if self.replaced >= POSITIONS_PER_QUESTION {
            self.replaced = 0;
            if !self.visitor.keep_going() {
                return Err(SearchStopped);
            }
        }
        let positions = self.positions;
        for &followers in active {
            positions.each_next(followers, symbol, |position| self.reach(next, position));
        }
        Ok(())
    }

    /// Reports the literals that end in a position, and adds the position to `next` if the next
    /// bytes lead on from it.
    #[inline]
    fn reach(&mut self, next: &mut Vec<u32>, position: &SearchPosition) {
        if position.is_end() {
            self.report(position);
        }
        if position.goes_on(self.next)
            && (next.len() > COMPARED_MAX || !next.contains(&position.followers))
        {
            next.push(position.followers);
        }
    }

    #[cold]
    #[inline(never)]
    fn report(&mut self, position: &SearchPosition) {
        for &literal in self.positions.literals(position) {
            self.visitor.literal_matched(literal, self.end);
        }
    }
}
