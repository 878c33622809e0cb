//! Where bytes lead from each state of an automaton, as far as it is known.
//!
//! The first states are those near the start of every fragment, where most of a text is spent: each has
//! a row with a place for every class of bytes. Of later states few bytes are ever met: their rows would
//! be empty but for one entry in seventy, and mail leads to so many of them that the rows would not fit
//! into any cache. So their steps are kept by state and byte, scattered by their hash.
//!
//! A step names the state it leads to by where its row begins, so that a byte costs one load from the
//! table of classes, one from the rows, and no multiplication. Rows begin where cache lines do, with
//! the classes that mail is made of: at most states one line is all that is read of a row.
//!
//! A step is written once, whole, and read with acquire ordering, so a search that reads it sees the
//! state it leads to. At most half of the places for scattered steps are taken, so looking for one ends.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::super::positions::{Owner, SomePositions};

/// States that have a row.
const ROWS_MAX: usize = if cfg!(test) { 64 } else { 2048 };
/// Places for scattered steps, for each state.
const STEPS_PER_STATE: usize = 8;
/// Places in a cache line of 64 bytes.
const LINE: usize = 16;
/// Where a step leads that is not known yet.
pub(super) const UNKNOWN: u32 = u32::MAX;
/// Marks steps that lead to a state in which fragments end.
pub(super) const ENDS: u32 = 1 << 31;
/// Marks states without a row: the rest is the state's number, and elsewhere the place of its row.
const FAR: u32 = 1 << 30;
/// Marks steps that lead to a state without positions, where all fragments stand at the start of a text:
/// from there nothing leads on. The lowest of all marks.
pub(super) const NOWHERE: u32 = 1 << 29;
/// A place without a step.
const EMPTY: u64 = u64::MAX;

/// All steps and states.
#[derive(Debug)]
pub(super) struct Table {
    /// Where each class leads from each of the first states: a state (see [`Table::named`]), with
    /// [`ENDS`] and [`NOWHERE`].
    pub(super) rows: Box<[AtomicU32]>,
    /// Where the first row begins: rows begin where cache lines do.
    first_row: u32,
    /// Places in a row.
    pub(super) row_length: usize,
    /// States that have a row.
    row_states: u32,
    /// Where the states without a row lead: each a key in the upper half (see [`key`]) and in the lower
    /// a state, marked as in the rows. As many as a power of two, or none where all states
    /// have rows.
    steps: Box<[AtomicU64]>,
    pub(super) states: Box<[OnceLock<Arc<State>>]>,
}

/// What a state stands for.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) positions: SomePositions,
    pub(super) owners: Box<[Owner]>,
}

/// A byte of a class in a state.
fn key(state: u32, class: u8) -> u32 {
    state << 8 | u32::from(class)
}

/// The place at which a step with this key is looked for first.
fn first_place(key: u32) -> usize {
    let hash = u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (hash >> 32) as usize
}

impl Table {
    pub(super) fn new(states: usize, classes: usize) -> Self {
        let states = states.next_power_of_two();
        let row_states = states.min(ROWS_MAX);
        let scattered = if states > row_states {
            states * STEPS_PER_STATE
        } else {
            0
        };
        let row_length = classes.next_multiple_of(LINE);
        let rows: Box<[AtomicU32]> = std::iter::repeat_with(|| AtomicU32::new(UNKNOWN))
            .take(row_states * row_length + LINE)
            .collect();
        Self {
            first_row: rows.as_ptr().align_offset(LINE * size_of::<AtomicU32>()) as u32,
            rows,
            row_length,
            row_states: row_states as u32,
            steps: std::iter::repeat_with(|| AtomicU64::new(EMPTY))
                .take(scattered)
                .collect(),
            states: std::iter::repeat_with(OnceLock::new).take(states).collect(),
        }
    }

    pub(super) fn state(&self, number: u32) -> Option<&Arc<State>> {
        self.states.get(number as usize)?.get()
    }

    /// The state as steps name it: where its row begins, or its number with [`FAR`].
    pub(super) fn named(&self, number: u32) -> u32 {
        if number < self.row_states {
            self.first_row + number * self.row_length as u32
        } else {
            number | FAR
        }
    }

    /// The number of a state that a step named.
    pub(super) fn number(&self, state: u32) -> u32 {
        if state & FAR == 0 {
            (state - self.first_row) / self.row_length as u32
        } else {
            state & !FAR
        }
    }

    /// A step of this table as it is written in another, in which states have the same numbers.
    fn as_named_in(&self, other: &Self, step: u32) -> u32 {
        if step == UNKNOWN || step & FAR != 0 {
            return step;
        }
        let marks = step & (ENDS | NOWHERE);
        other.named(self.number(step & !marks)) | marks
    }

    /// Reads on from `state` as long as steps lead from row to row and say no more than that. Gives the
    /// class of the byte whose step does, and the step; `state` is then the one before that byte, or behind
    /// the last.
    #[inline]
    pub(super) fn read_on(
        &self,
        class_of: &[u8; 256],
        bytes: &mut std::slice::Iter<'_, u8>,
        state: &mut u32,
    ) -> Option<(u8, u32)> {
        if *state & FAR != 0 {
            let class = class_of[usize::from(*bytes.next()?)];
            return Some((class, self.step(*state, class)));
        }
        let rows = &*self.rows;
        let mut row = *state as usize;
        for &byte in bytes {
            let class = class_of[usize::from(byte)];
            let step = rows.get(row.wrapping_add(usize::from(class)));
            let to = step.map_or(UNKNOWN, |step| step.load(Ordering::Acquire));
            if to >= NOWHERE {
                *state = row as u32;
                return Some((class, to));
            }
            row = to as usize;
        }
        *state = row as u32;
        None
    }

    /// Where a byte of `class` leads from a state.
    #[inline]
    pub(super) fn step(&self, state: u32, class: u8) -> u32 {
        if state & FAR == 0 {
            let step = self.rows.get(state as usize + usize::from(class));
            step.map_or(UNKNOWN, |step| step.load(Ordering::Acquire))
        } else {
            self.scattered(key(state & !FAR, class))
        }
    }

    fn scattered(&self, key: u32) -> u32 {
        let mask = self.steps.len().wrapping_sub(1);
        let mut place = first_place(key);
        loop {
            let step = self.steps.get(place & mask);
            let step = step.map_or(EMPTY, |step| step.load(Ordering::Acquire));
            if (step >> 32) as u32 == key {
                return step as u32;
            }
            if step == EMPTY {
                return UNKNOWN;
            }
            place += 1;
        }
    }

    /// Notes a step that is not known yet; there is room. Whether it is a scattered one.
    pub(super) fn insert(&self, state: u32, class: u8, to: u32) -> bool {
        if state & FAR == 0 {
            if let Some(step) = self.rows.get(state as usize + usize::from(class)) {
                step.store(to, Ordering::Release);
            }
            return false;
        }
        self.scatter(key(state & !FAR, class), to);
        true
    }

    fn scatter(&self, key: u32, to: u32) {
        let mask = self.steps.len().wrapping_sub(1);
        let mut place = first_place(key);
        while let Some(step) = self.steps.get(place & mask) {
            if step.load(Ordering::Relaxed) == EMPTY {
                step.store(u64::from(key) << 32 | u64::from(to), Ordering::Release);
                return;
            }
            place += 1;
        }
    }

    pub(super) fn has_room_for_steps(&self, scattered: usize) -> bool {
        self.steps.is_empty() || scattered < self.steps.len() / 2
    }

    /// A table with room for more states that knows the same. The states without a row stay without one: a
    /// table has scattered steps only when it has all its rows.
    pub(super) fn grown(&self, states: usize) -> Self {
        let larger = Self::new(states, self.row_length);
        let rows = larger.rows.iter().skip(larger.first_row as usize);
        let known = self.rows.iter().skip(self.first_row as usize);
        for (new, old) in rows.zip(known) {
            let step = self.as_named_in(&larger, old.load(Ordering::Relaxed));
            new.store(step, Ordering::Relaxed);
        }
        for step in &self.steps {
            let step = step.load(Ordering::Relaxed);
            if step != EMPTY {
                let to = self.as_named_in(&larger, step as u32);
                larger.scatter((step >> 32) as u32, to);
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
