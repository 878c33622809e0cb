//! The transition table of the lazy DFA, as far as it is known.
//!
//! The first states are near the start of every literal, and most of a text is spent in them: each
//! has a row with an entry for every byte class. In later states few bytes ever occur: their rows
//! would be empty but for one entry in seventy, and mail leads to so many of them that the rows
//! would not fit into any cache. So their transitions are kept in a hash table, by state and class.
//!
//! State ids are premultiplied: a transition holds the offset of the next state's row, so that a
//! byte costs one load from the table of classes, one from the rows, and no multiplication. Rows
//! begin at cache lines, with the most frequent classes: for most states one line is all that is
//! read of a row.
//!
//! Invariants: a transition is written once, in one store, and read with acquire ordering, so a
//! search that reads it sees the state it leads to. At most half of the slots for hashed
//! transitions are taken, so a lookup ends.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::automaton::literal::LiteralInfo;
use crate::automaton::nfa::PositionSet;

/// States with a row.
const ROWS_MAX: usize = if cfg!(test) { 64 } else { 2048 };
/// Slots for hashed transitions, per state.
const SLOTS_PER_STATE: usize = 8;
/// Entries in a cache line of 64 bytes.
const LINE_ENTRIES: usize = 16;
/// A transition that is not known yet.
pub(super) const UNKNOWN: u32 = u32::MAX;
/// Flags transitions to a state in which literals end.
pub(super) const MATCH: u32 = 1 << 31;
/// Flags the ids of states without a row: the rest of such an id is the index of the state;
/// otherwise it is the offset of the row.
const HASHED: u32 = 1 << 30;
/// Flags transitions to a state without positions, where all literals are anchored: no transition
/// leads out of it. The lowest of all flags.
pub(super) const DEAD: u32 = 1 << 29;
/// A slot without a transition.
const EMPTY: u64 = u64::MAX;

/// All transitions and states.
#[derive(Debug)]
pub(super) struct TransitionTable {
    /// By row and class: the transition, which is a state id (see [`TransitionTable::state_id`])
    /// with [`MATCH`] and [`DEAD`].
    rows: Box<[AtomicU32]>,
    /// The offset of the first row, at which a cache line begins.
    first_row: u32,
    /// Entries in a row.
    row_length: usize,
    /// States with a row.
    row_count: u32,
    /// The transitions of the states without a row: each with its key (see [`key`]) in the upper
    /// half and the transition in the lower. The length is a power of two, or 0 where all states
    /// have rows.
    slots: Box<[AtomicU64]>,
    pub(super) states: Box<[OnceLock<Arc<DfaState>>]>,
}

/// A DFA state: its active positions and the literals that end in it.
#[derive(Debug, Default)]
pub(super) struct DfaState {
    pub(super) positions: PositionSet,
    pub(super) literals: Box<[LiteralInfo]>,
}

/// The key of a hashed transition.
fn key(state: u32, class: u8) -> u32 {
    state << 8 | u32::from(class)
}

/// The slot at which the lookup of a key begins.
fn first_slot(key: u32) -> usize {
    let hash = u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (hash >> 32) as usize
}

impl TransitionTable {
    pub(super) fn new(states: usize, classes: usize) -> Self {
        let states = states.next_power_of_two();
        let row_count = states.min(ROWS_MAX);
        let slots = if states > row_count {
            states * SLOTS_PER_STATE
        } else {
            0
        };
        let row_length = classes.next_multiple_of(LINE_ENTRIES);
        let rows: Box<[AtomicU32]> = std::iter::repeat_with(|| AtomicU32::new(UNKNOWN))
            .take(row_count * row_length + LINE_ENTRIES)
            .collect();
        Self {
            first_row: rows
                .as_ptr()
                .align_offset(LINE_ENTRIES * size_of::<AtomicU32>()) as u32,
            rows,
            row_length,
            row_count: row_count as u32,
            slots: std::iter::repeat_with(|| AtomicU64::new(EMPTY))
                .take(slots)
                .collect(),
            states: std::iter::repeat_with(OnceLock::new).take(states).collect(),
        }
    }

    #[inline]
    pub(super) fn state(&self, index: u32) -> Option<&Arc<DfaState>> {
        self.states.get(index as usize)?.get()
    }

    /// The literals that end in a state.
    #[inline]
    pub(super) fn literals(&self, state: u32) -> &[LiteralInfo] {
        let state = self.state(self.state_index(state));
        state.map_or(&[], |state| &state.literals)
    }

    /// The id of a state, as transitions hold it: the offset of its row, or its index with
    /// [`HASHED`].
    #[inline]
    pub(super) fn state_id(&self, index: u32) -> u32 {
        if index < self.row_count {
            self.first_row + index * self.row_length as u32
        } else {
            index | HASHED
        }
    }

    /// The index of a state.
    #[inline]
    pub(super) fn state_index(&self, id: u32) -> u32 {
        if id & HASHED == 0 {
            (id - self.first_row) / self.row_length as u32
        } else {
            id & !HASHED
        }
    }

    /// A transition of this table as `other` holds it, in which states have the same indices.
    fn translated(&self, other: &Self, transition: u32) -> u32 {
        if transition == UNKNOWN || transition & HASHED != 0 {
            return transition;
        }
        let flags = transition & (MATCH | DEAD);
        other.state_id(self.state_index(transition & !flags)) | flags
    }

    /// Runs from `state` as long as transitions lead from row to row and have no flag. Returns the
    /// class of the byte whose transition does not, and that transition; `state` is then the one
    /// before that byte, or the one after the last byte.
    #[inline]
    pub(super) fn run(
        &self,
        class_of: &[u8; 256],
        bytes: &mut std::slice::Iter<'_, u8>,
        state: &mut u32,
    ) -> Option<(u8, u32)> {
        if *state & HASHED != 0 {
            let class = class_of[usize::from(*bytes.next()?)];
            return Some((class, self.transition(*state, class)));
        }
        let rows = &*self.rows;
        let mut row = *state as usize;
        for &byte in bytes {
            let class = class_of[usize::from(byte)];
            let entry = rows.get(row.wrapping_add(usize::from(class)));
            let to = entry.map_or(UNKNOWN, |entry| entry.load(Ordering::Acquire));
            if to >= DEAD {
                *state = row as u32;
                return Some((class, to));
            }
            row = to as usize;
        }
        *state = row as u32;
        None
    }

    /// The transition of a byte of `class` from a state.
    #[inline]
    pub(super) fn transition(&self, state: u32, class: u8) -> u32 {
        if state & HASHED == 0 {
            let entry = self.rows.get(state as usize + usize::from(class));
            entry.map_or(UNKNOWN, |entry| entry.load(Ordering::Acquire))
        } else {
            self.hashed(key(state & !HASHED, class))
        }
    }

    fn hashed(&self, key: u32) -> u32 {
        let mask = self.slots.len().wrapping_sub(1);
        let mut slot = first_slot(key);
        loop {
            let entry = self.slots.get(slot & mask);
            let entry = entry.map_or(EMPTY, |entry| entry.load(Ordering::Acquire));
            if (entry >> 32) as u32 == key {
                return entry as u32;
            }
            if entry == EMPTY {
                return UNKNOWN;
            }
            slot += 1;
        }
    }

    /// Stores a transition that is not known yet; the table has room for it. Returns whether it is
    /// a hashed one.
    pub(super) fn insert(&self, state: u32, class: u8, to: u32) -> bool {
        if state & HASHED == 0 {
            if let Some(entry) = self.rows.get(state as usize + usize::from(class)) {
                entry.store(to, Ordering::Release);
            }
            return false;
        }
        self.insert_hashed(key(state & !HASHED, class), to);
        true
    }

    fn insert_hashed(&self, key: u32, to: u32) {
        let mask = self.slots.len().wrapping_sub(1);
        let mut slot = first_slot(key);
        while let Some(entry) = self.slots.get(slot & mask) {
            if entry.load(Ordering::Relaxed) == EMPTY {
                entry.store(u64::from(key) << 32 | u64::from(to), Ordering::Release);
                return;
            }
            slot += 1;
        }
    }

    pub(super) fn has_room_for_hashed(&self, hashed: usize) -> bool {
        self.slots.is_empty() || hashed < self.slots.len() / 2
    }

    /// A table with room for more states and the same transitions. States without a row stay
    /// without one: a table has hashed transitions only when it has all its rows.
    pub(super) fn grown(&self, states: usize) -> Self {
        let larger = Self::new(states, self.row_length);
        let new_rows = larger.rows.iter().skip(larger.first_row as usize);
        let old_rows = self.rows.iter().skip(self.first_row as usize);
        for (new, old) in new_rows.zip(old_rows) {
            let transition = self.translated(&larger, old.load(Ordering::Relaxed));
            new.store(transition, Ordering::Relaxed);
        }
        for entry in &self.slots {
            let entry = entry.load(Ordering::Relaxed);
            if entry != EMPTY {
                let to = self.translated(&larger, entry as u32);
                larger.insert_hashed((entry >> 32) as u32, to);
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
