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
use super::literal::{LiteralInfo, LiteralVisitor, SearchStopped};
use super::nfa::{Nfa, NfaBuilder, Position, PositionSet};
use crate::first_use::{FirstUse, counted};

/// The index of the state within a text in which no literal has begun.
const IDLE: u32 = 1;

/// A new table has room for one state per this many positions, and for at least this many states:
/// mail leads to more of the former, and each growth copies all rows.
const POSITIONS_PER_STATE: usize = if cfg!(test) { usize::MAX } else { 4 };
const INITIAL_STATES_MIN: usize = 32;
/// The factor by which a table grows.
const GROWTH: usize = 4;
/// The number of states at which a table is replaced by an empty one; tests reach it.
const STATES_MAX: usize = if cfg!(test) { 1024 } else { 64 * 1024 };

/// Searches for the literals of many patterns at once.
#[derive(Debug)]
pub(crate) struct LazyDfa {
    nfa: Arc<Nfa>,
    /// Literals that are anchored to the start of a text are searched for at every offset.
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
    /// The number of hashed transitions in the table.
    hashed: usize,
}

impl Determinizer {
    /// The index of the state with these positions. A new state is added to the table, which has
    /// room for it.
    fn state_index(
        &mut self,
        table: &TransitionTable,
        positions: PositionSet,
        literals: impl FnOnce(&[Position]) -> Box<[LiteralInfo]>,
    ) -> u32 {
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
                let literals = literals(&positions);
                if let Some(cell) = table.states.get(index as usize) {
                    let _ = cell.set(Arc::new(DfaState {
                        positions,
                        literals,
                    }));
                }
                index
            }
        }
    }
}

impl LazyDfa {
    /// The DFA for the literals of a builder.
    pub(crate) fn new(builder: NfaBuilder) -> Self {
        Self::of(Arc::new(builder.finish()), false)
    }

    /// A DFA for the same literals that searches for anchored ones at every offset.
    pub(crate) fn unanchored(&self) -> Self {
        Self::of(Arc::clone(&self.nfa), true)
    }

    pub(crate) fn nfa(&self) -> &Nfa {
        &self.nfa
    }

    fn of(nfa: Arc<Nfa>, is_unanchored: bool) -> Self {
        let table = new_table(&nfa);
        let dfa = Self {
            nfa,
            is_unanchored,
            table: ArcSwap::from_pointee(table),
            determinizer: Mutex::default(),
        };
        Self::add_first_states(&dfa.table.load(), &mut dfa.determinizer.lock());
        dfa
    }

    /// State 0 precedes the first byte of a text, [`IDLE`] is within a text.
    fn add_first_states(table: &TransitionTable, determinizer: &mut Determinizer) {
        determinizer.indices.clear();
        determinizer.hashed = 0;
        if let Some(first) = table.states.first() {
            let _ = first.set(Arc::default());
        }
        determinizer.state_index(table, PositionSet::new(), |_| Box::default());
    }

    /// Reports each literal in `text` to the visitor, in the order of their ends.
    pub(crate) fn search(
        &self,
        text: &[u8],
        visitor: &mut impl LiteralVisitor,
    ) -> Result<(), SearchStopped> {
        let class_of = &self.nfa.class_of;
        let mut table = self.table.load();
        let mut state = table.state_id(0);
        let mut bytes = text.iter();
        while let Some((class, mut to)) = table.run(class_of, &mut bytes, &mut state) {
            if to == UNKNOWN {
                if !visitor.keep_going() {
                    return Err(SearchStopped);
                }
                let computed = self.compute_transition(&table, state, class);
                (table, to) = (arc_swap::Guard::from_inner(computed.0), computed.1);
            }
            if to & DEAD != 0 {
                return Ok(());
            }
            state = to & !MATCH;
            if to & MATCH != 0 {
                for &literal in table.literals(state) {
                    visitor.literal_matched(literal, text.len() - bytes.len());
                }
            }
        }
        Ok(())
    }

    /// A searcher for many offsets that loads the table once.
    pub(crate) fn anchored_searcher(&self) -> AnchoredSearcher<'_> {
        AnchoredSearcher {
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
        let at_start = index == 0 || self.is_unanchored;
        let from = from.map_or(&[][..], |state| &state.positions);
        let positions = self.nfa.step(from, usize::from(class), at_start);
        current = self.with_room(current, &mut determinizer);
        let (next, flags) = self.next_state(&current, &mut determinizer, positions);
        let to = current.state_id(next) | flags;
        if is_known(&current) && current.insert(current.state_id(index), class, to) {
            determinizer.hashed += 1;
        }
        drop(determinizer);
        (current, to)
    }

    /// The index of the state with these positions, and the flags of transitions to it.
    fn next_state(
        &self,
        table: &TransitionTable,
        determinizer: &mut Determinizer,
        positions: PositionSet,
    ) -> (u32, u32) {
        if positions.is_empty() {
            let is_dead = self.nfa.is_anchored() && !self.is_unanchored;
            // An unanchored search treats every offset as the start of a text.
            let index = if self.is_unanchored { 0 } else { IDLE };
            return (index, if is_dead { DEAD } else { 0 });
        }
        let index =
            determinizer.state_index(table, positions, |positions| self.nfa.literals(positions));
        let is_match = |state: &Arc<DfaState>| !state.literals.is_empty();
        let matches = table.state(index).is_some_and(is_match);
        (index, if matches { MATCH } else { 0 })
    }

    /// The table, or a new one if it has no room for one more state or transition.
    fn with_room(
        &self,
        table: Arc<TransitionTable>,
        determinizer: &mut Determinizer,
    ) -> Arc<TransitionTable> {
        // State 0 is not among the indices.
        let has_states = determinizer.indices.len() + 1 < table.states.len();
        if has_states && table.has_room_for_hashed(determinizer.hashed) {
            return table;
        }
        let next = if table.states.len() < STATES_MAX {
            table.grown((table.states.len() * GROWTH).min(STATES_MAX))
        } else {
            let empty = new_table(&self.nfa);
            Self::add_first_states(&empty, determinizer);
            empty
        };
        let next = Arc::new(next);
        self.table.store(Arc::clone(&next));
        next
    }
}

fn new_table(nfa: &Nfa) -> TransitionTable {
    let states = (nfa.len() / POSITIONS_PER_STATE).clamp(INITIAL_STATES_MIN, STATES_MAX);
    TransitionTable::new(states, nfa.class_count())
}

/// Searches for anchored literals at many offsets.
pub(crate) struct AnchoredSearcher<'a> {
    dfa: &'a LazyDfa,
    table: arc_swap::Guard<Arc<TransitionTable>>,
}

impl AnchoredSearcher<'_> {
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
