//! The transition table of the lazy DFA, as far as it is known.
//!
//! State ids are premultiplied: a transition holds the offset of the next state's row, so that a
//! byte costs one load from the table of classes, one from the rows, and no multiplication. Rows
//! begin at cache lines, with the most frequent classes: for most states one line is all that is
//! read of a row.
//!
//! Invariant: a transition is written once, in one store, and read with acquire ordering, so a
//! search that reads it sees the state it leads to.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use crate::automaton::nfa::PositionSet;

/// Entries in a cache line of 64 bytes.
const LINE_ENTRIES: usize = 16;
/// A transition that is not known yet.
pub(super) const UNKNOWN: u32 = u32::MAX;
/// Flags transitions to a state in which a literal ends.
pub(super) const MATCH: u32 = 1 << 31;
/// Flags transitions to a state without positions, from which a search that is not restarted at
/// every offset finds nothing. The lowest of all flags.
pub(super) const DEAD: u32 = 1 << 30;

/// All transitions and states.
#[derive(Debug)]
pub(super) struct TransitionTable {
    /// By row and class: the transition, which is the id of a state (see
    /// [`TransitionTable::state_id`]) with [`MATCH`] or [`DEAD`].
    rows: Box<[AtomicU32]>,
    /// The offset of the first row, at which a cache line begins.
    first_row: u32,
    /// Entries in a row.
    row_length: usize,
    pub(super) states: Box<[OnceLock<Arc<DfaState>>]>,
}

/// A DFA state.
#[derive(Debug, Default)]
pub(super) struct DfaState {
    /// Its active positions.
    pub(super) positions: PositionSet,
    /// Whether a literal ends in it.
    pub(super) is_match: bool,
}

impl TransitionTable {
    pub(super) fn new(states: usize, classes: usize) -> Self {
        let row_length = classes.next_multiple_of(LINE_ENTRIES);
        let rows: Box<[AtomicU32]> = std::iter::repeat_with(|| AtomicU32::new(UNKNOWN))
            .take(states * row_length + LINE_ENTRIES)
            .collect();
        Self {
            first_row: rows
                .as_ptr()
                .align_offset(LINE_ENTRIES * size_of::<AtomicU32>()) as u32,
            rows,
            row_length,
            states: std::iter::repeat_with(OnceLock::new).take(states).collect(),
        }
    }

    pub(super) fn state(&self, index: u32) -> Option<&Arc<DfaState>> {
        self.states.get(index as usize)?.get()
    }

    /// The id of a state, as transitions hold it: the offset of its row.
    pub(super) fn state_id(&self, index: u32) -> u32 {
        self.first_row + index * self.row_length as u32
    }

    /// The index of a state.
    pub(super) fn state_index(&self, id: u32) -> u32 {
        (id - self.first_row) / self.row_length as u32
    }

    /// Runs from `state` as long as transitions have no flag. Returns the class of the byte whose
    /// transition has one, and that transition; `state` is then the one before that byte, or the
    /// one after the last byte.
    #[inline]
    pub(super) fn run(
        &self,
        class_of: &[u8; 256],
        bytes: &mut std::slice::Iter<'_, u8>,
        state: &mut u32,
    ) -> Option<(u8, u32)> {
        for &byte in bytes {
            let class = class_of[usize::from(byte)];
            let to = self.transition(*state, class);
            if to >= DEAD {
                return Some((class, to));
            }
            *state = to;
        }
        None
    }

    /// The transition of a byte of `class` from a state.
    #[inline]
    pub(super) fn transition(&self, state: u32, class: u8) -> u32 {
        let entry = self.rows.get(state as usize + usize::from(class));
        entry.map_or(UNKNOWN, |entry| entry.load(Ordering::Acquire))
    }

    /// Stores a transition that is not known yet.
    pub(super) fn insert(&self, state: u32, class: u8, to: u32) {
        if let Some(entry) = self.rows.get(state as usize + usize::from(class)) {
            entry.store(to, Ordering::Release);
        }
    }

    /// A table with room for more states and the same transitions.
    pub(super) fn grown(&self, states: usize) -> Self {
        let larger = Self::new(states, self.row_length);
        let new_rows = larger.rows.iter().skip(larger.first_row as usize);
        let old_rows = self.rows.iter().skip(self.first_row as usize);
        for (new, old) in new_rows.zip(old_rows) {
            let old = old.load(Ordering::Relaxed);
            if old != UNKNOWN {
                // Rows are equally long, but do not begin at the same offset.
                let flags = old & (MATCH | DEAD);
                let index = self.state_index(old & !flags);
                new.store(larger.state_id(index) | flags, Ordering::Relaxed);
            }
        }
        for (new, old) in larger.states.iter().zip(&self.states) {
            if let Some(state) = old.get() {
                let _ = new.set(Arc::clone(state));
            }
        }
        larger
    }
}
