//! The lazy DFA: deterministic states, computed as texts lead to them.
//!
//! All threads share one transition table. A search reads it without a lock; only if the table does
//! not contain a transition yet, the search takes the lock, computes the transition by subset
//! construction and stores it. A full table is replaced by a larger one in which states keep their
//! indices, or, at its limit, by an empty one. A search that still holds the old table finishes
//! with it.
//!
//! [`transitions`] describes the layout of the table, which makes a byte cost two loads.

mod transitions;

use std::hash::BuildHasher;
use std::sync::Arc;

use arc_swap::ArcSwap;
use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};
use parking_lot::Mutex;

use self::transitions::{DEAD, DfaState, MATCH, TransitionTable, UNKNOWN};
use super::nfa::{Nfa, NfaBuilder, PositionSet};
use crate::first_use::{FirstUse, counted};

/// A new table has room for this many states.
const INITIAL_STATES: usize = 32;
/// The factor by which a table grows.
const GROWTH: usize = 4;
/// The number of states at which a table is replaced by an empty one; tests reach it.
const STATES_MAX: usize = if cfg!(test) { 128 } else { 2048 };

/// Tests whether texts begin with one of a set of literals.
#[derive(Debug)]
pub(crate) struct LazyDfa {
    nfa: Arc<Nfa>,
    /// A literal may start at every offset of a text.
    is_unanchored: bool,
    table: ArcSwap<TransitionTable>,
    determinizer: Mutex<Determinizer>,
}

/// The state of the subset construction.
#[derive(Debug, Default)]
struct Determinizer {
    /// The indices of all states but the first, each with the hash of its positions.
    indices: HashTable<(u64, u32)>,
    hasher: DefaultHashBuilder,
}

impl Determinizer {
    /// The index of the state with these positions. A new state is added to the table, which has
    /// room for it.
    fn state_index(&mut self, table: &TransitionTable, nfa: &Nfa, positions: PositionSet) -> u32 {
        // State 0 is not among the indices.
        let index = self.indices.len() as u32 + 1;
        let hash = self.hasher.hash_one(&positions[..]);
        let is_same = |&(of, index): &(u64, u32)| {
            let state = table.state(index);
            of == hash && state.is_some_and(|state| state.positions == positions)
        };
        match self.indices.entry(hash, is_same, |&(hash, _)| hash) {
            Entry::Occupied(known) => known.get().1,
            Entry::Vacant(vacant) => {
                vacant.insert((hash, index));
                if let Some(cell) = table.states.get(index as usize) {
                    let _ = cell.set(Arc::new(DfaState {
                        is_match: nfa.is_end(&positions),
                        positions,
                    }));
                }
                index
            }
        }
    }
}

impl LazyDfa {
    /// The DFA for the anchored literals of a builder.
    pub(crate) fn new(builder: NfaBuilder) -> Self {
        Self::of(Arc::new(builder.finish()), false)
    }

    /// A DFA that finds the same literals at every offset.
    pub(crate) fn unanchored(&self) -> Self {
        Self::of(Arc::clone(&self.nfa), true)
    }

    pub(crate) fn nfa(&self) -> &Nfa {
        &self.nfa
    }

    fn of(nfa: Arc<Nfa>, is_unanchored: bool) -> Self {
        Self {
            table: ArcSwap::new(new_table(&nfa)),
            nfa,
            is_unanchored,
            determinizer: Mutex::default(),
        }
    }

    /// A searcher for many offsets that loads the table once.
    pub(crate) fn searcher(&self) -> LazyDfaSearcher<'_> {
        LazyDfaSearcher {
            dfa: self,
            table: self.table.load(),
        }
    }

    /// Computes the transition of a byte of `class` from a state. Returns the table to continue
    /// with, and the transition in it.
    #[cold]
    fn compute_transition(
        &self,
        table: &Arc<TransitionTable>,
        state: u32,
        class: u8,
    ) -> (Arc<TransitionTable>, u32) {
        counted(FirstUse::Transition, || {
            self.transition(table, state, class)
        })
    }

    fn transition(
        &self,
        table: &Arc<TransitionTable>,
        state: u32,
        class: u8,
    ) -> (Arc<TransitionTable>, u32) {
        let mut determinizer = self.determinizer.lock();
        let index = table.state_index(state);
        let from = table.state(index);
        let mut current = self.table.load_full();
        // The state has the same index in the current table, unless that was replaced.
        let is_known = |current: &TransitionTable| match (from, current.state(index)) {
            (Some(from), Some(same)) => Arc::ptr_eq(from, same),
            _ => false,
        };
        if is_known(&current) {
            let to = current.transition(current.state_id(index), class);
            if to != UNKNOWN {
                return (current, to);
            }
        }
        let is_start = index == 0 || self.is_unanchored;
        let from = from.map_or(&[][..], |state| &state.positions);
        let positions = self.nfa.step(from, usize::from(class), is_start);
        current = self.with_room(current, &mut determinizer);
        let to = self.next_state(&current, &mut determinizer, positions);
        if is_known(&current) {
            current.insert(current.state_id(index), class, to);
        }
        drop(determinizer);
        (current, to)
    }

    /// The transition to the state with these positions.
    fn next_state(
        &self,
        table: &TransitionTable,
        determinizer: &mut Determinizer,
        positions: PositionSet,
    ) -> u32 {
        if positions.is_empty() {
            // An unanchored search treats every offset as the start of a text.
            return table.state_id(0) | if self.is_unanchored { 0 } else { DEAD };
        }
        let index = determinizer.state_index(table, &self.nfa, positions);
        let matches = table.state(index).is_some_and(|state| state.is_match);
        table.state_id(index) | if matches { MATCH } else { 0 }
    }

    /// The table, or a new one if it has no room for one more state.
    fn with_room(
        &self,
        table: Arc<TransitionTable>,
        determinizer: &mut Determinizer,
    ) -> Arc<TransitionTable> {
        // State 0 is not among the indices.
        if determinizer.indices.len() + 1 < table.states.len() {
            return table;
        }
        let next = if table.states.len() < STATES_MAX {
            Arc::new(table.grown(table.states.len() * GROWTH))
        } else {
            determinizer.indices.clear();
            new_table(&self.nfa)
        };
        self.table.store(Arc::clone(&next));
        next
    }
}

/// A table with only state 0, which precedes the first byte of a text.
fn new_table(nfa: &Nfa) -> Arc<TransitionTable> {
    let table = TransitionTable::new(INITIAL_STATES, nfa.class_count());
    if let Some(first) = table.states.first() {
        let _ = first.set(Arc::default());
    }
    Arc::new(table)
}

/// Searches many texts, or a text from many offsets.
pub(crate) struct LazyDfaSearcher<'a> {
    dfa: &'a LazyDfa,
    table: arc_swap::Guard<Arc<TransitionTable>>,
}

impl LazyDfaSearcher<'_> {
    /// Whether a text starts with a literal; `None` if it ends before that is decided.
    pub(crate) fn starts_with_literal(&mut self, text: &[u8]) -> Option<bool> {
        let to = self.run_to_flag(&mut text.iter())?;
        Some(to & MATCH != 0)
    }

    /// The end of the first literal of a text.
    pub(crate) fn first_end(&mut self, text: &[u8]) -> Option<usize> {
        let mut bytes = text.iter();
        let to = self.run_to_flag(&mut bytes)?;
        (to & MATCH != 0).then(|| text.len() - bytes.len())
    }

    /// Runs from the start of a text to the first transition into a match state or a dead state;
    /// returns that transition.
    fn run_to_flag(&mut self, bytes: &mut std::slice::Iter<'_, u8>) -> Option<u32> {
        let class_of = &self.dfa.nfa.class_of;
        let mut state = self.table.state_id(0);
        while let Some((class, mut to)) = self.table.run(class_of, bytes, &mut state) {
            if to == UNKNOWN {
                let computed = self.dfa.compute_transition(&self.table, state, class);
                (self.table, to) = (arc_swap::Guard::from_inner(computed.0), computed.1);
            }
            if to & (MATCH | DEAD) != 0 {
                return Some(to);
            }
            state = to;
        }
        None
    }

    /// The first offset of a text that was searched at which a literal starts that is still active
    /// at its end.
    pub(crate) fn first_active_start(&self, text: &[u8]) -> usize {
        let class_of = &self.dfa.nfa.class_of;
        let start = self.table.state_id(0);
        let (mut state, mut first) = (start, 0);
        for (offset, &byte) in text.iter().enumerate() {
            let to = self.table.transition(state, class_of[usize::from(byte)]);
            if to == UNKNOWN {
                // The table has been replaced in the meantime.
                return 0;
            }
            state = to & !MATCH;
            if state == start {
                first = offset + 1;
            }
        }
        first
    }
}

#[cfg(test)]
mod tests;
