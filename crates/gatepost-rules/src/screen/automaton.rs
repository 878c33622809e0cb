//! The deterministic automaton, made state by state as texts lead there.
//!
//! All threads share one table. A search reads it without a lock; only where the table does not yet
//! say where a byte leads, the search takes the lock, finds out and notes it. A table that is full is
//! replaced by a larger one in which states keep their numbers, or, at its bound, by an empty one:
//! searches that still hold the old one end with it.
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

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use super::positions::{Builder, Owner, Position, Positions};
use crate::pattern::ByteSet;

/// States of a new table.
const STATES_AT_FIRST: usize = 32;
/// States beyond which a table begins anew; tests meet it.
const STATES_MAX: usize = if cfg!(test) { 1024 } else { 64 * 1024 };
/// States that have a row.
const ROWS_MAX: usize = if cfg!(test) { 64 } else { 2048 };
/// Places for scattered steps, for each state.
const STEPS_PER_STATE: usize = 8;
/// Places in a cache line of 64 bytes.
const LINE: usize = 16;
/// Where a step leads that is not known yet.
const UNKNOWN: u32 = u32::MAX;
/// Marks steps that lead to a state in which fragments end.
const ENDS: u32 = 1 << 31;
/// Marks states without a row: the rest is the state's number, and elsewhere the place of its row.
const FAR: u32 = 1 << 30;
/// Marks steps that lead to a state without positions, where all fragments stand at the start of a text:
/// from there nothing leads on. The lowest of all marks.
const NOWHERE: u32 = 1 << 29;
/// A place without a step.
const EMPTY: u64 = u64::MAX;

/// Looks for the fragments of many patterns at once.
#[derive(Debug)]
pub(crate) struct Automaton {
    positions: Arc<Positions>,
    /// What begins at the start of a text may begin at any place.
    begins_anywhere: bool,
    table: ArcSwap<Table>,
    growth: Mutex<Growth>,
}

/// Who is told of fragments.
pub(crate) trait Visitor {
    /// A fragment ended; `end` is behind its last byte.
    fn ended(&mut self, owner: Owner, end: usize);

    /// Asked before something new is found out about a byte; with false the search gives up.
    fn goes_on(&mut self) -> bool;
}

#[derive(Debug)]
struct Table {
    /// Where each class leads from each of the first states: a state (see [`Table::named`]), with
    /// [`ENDS`] and [`NOWHERE`].
    rows: Box<[AtomicU32]>,
    /// Where the first row begins: rows begin where cache lines do.
    first_row: u32,
    /// Places in a row.
    row_length: usize,
    /// States that have a row.
    row_states: u32,
    /// Where the states without a row lead: each a key in the upper half (see [`key`]) and in the lower
    /// a state, marked as in the rows. As many as a power of two, or none where all states
    /// have rows.
    steps: Box<[AtomicU64]>,
    states: Box<[OnceLock<Arc<State>>]>,
}

#[derive(Debug)]
struct State {
    positions: Arc<[Position]>,
    owners: Box<[Owner]>,
}

/// What is needed to find out more.
#[derive(Debug, Default)]
struct Growth {
    numbers: HashMap<Arc<[Position]>, u32>,
    /// How many scattered steps the table holds.
    steps: usize,
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
    fn new(states: usize, classes: usize) -> Self {
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

    fn state(&self, number: u32) -> Option<&Arc<State>> {
        self.states.get(number as usize)?.get()
    }

    /// The state as steps name it: where its row begins, or its number with [`FAR`].
    fn named(&self, number: u32) -> u32 {
        if number < self.row_states {
            self.first_row + number * self.row_length as u32
        } else {
            number | FAR
        }
    }

    /// The number of a state that a step named.
    fn number(&self, state: u32) -> u32 {
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
    /// class of the byte whose step does, and the step; `state` is then the one before that byte.
    #[inline]
    fn read_on(
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
        None
    }

    /// Where a byte of `class` leads from a state.
    #[inline]
    fn step(&self, state: u32, class: u8) -> u32 {
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
    fn insert(&self, state: u32, class: u8, to: u32) -> bool {
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

    fn has_room_for_steps(&self, scattered: usize) -> bool {
        self.steps.is_empty() || scattered < self.steps.len() / 2
    }

    /// A table of twice the size that knows the same. The states without a row stay without one: a
    /// table has scattered steps only when it has all its rows.
    fn grown(&self) -> Self {
        let larger = Self::new(self.states.len() * 2, self.row_length);
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

/// The visitor wanted no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stopped;

impl Automaton {
    /// The automaton for what was collected.
    pub(crate) fn new(builder: Builder) -> Self {
        Self::of(Arc::new(builder.finish()), false)
    }

    /// An automaton for the same as another, but for what stands at the start of a text: that is looked
    /// for everywhere.
    pub(super) fn anywhere(&self) -> Self {
        Self::of(Arc::clone(&self.positions), true)
    }

    /// The bytes that fragments at the start of a text have there and in the places behind it.
    pub(super) fn first_bytes(&self, places: usize) -> Vec<ByteSet> {
        self.positions.first_bytes(places)
    }

    fn of(positions: Arc<Positions>, begins_anywhere: bool) -> Self {
        let table = Table::new(STATES_AT_FIRST, positions.classes());
        let automaton = Self {
            positions,
            begins_anywhere,
            table: ArcSwap::from_pointee(table),
            growth: Mutex::default(),
        };
        Self::add_first_state(&automaton.table.load(), &mut automaton.growth.lock());
        automaton
    }

    /// State 0 is before the first byte of a text.
    fn add_first_state(table: &Table, growth: &mut Growth) {
        growth.numbers.clear();
        growth.steps = 0;
        let state = State {
            positions: Arc::new([]),
            owners: Box::default(),
        };
        if let Some(place) = table.states.first() {
            let _ = place.set(Arc::new(state));
        }
    }

    /// Tells the visitor of each fragment in `text`, in order of their ends.
    pub(crate) fn search(&self, text: &[u8], visitor: &mut impl Visitor) -> Result<(), Stopped> {
        let class_of = &self.positions.class_of;
        let mut table = self.table.load();
        let mut state = table.named(0);
        let mut bytes = text.iter();
        while let Some((class, mut to)) = table.read_on(class_of, &mut bytes, &mut state) {
            if to == UNKNOWN {
                if !visitor.goes_on() {
                    return Err(Stopped);
                }
                let found = self.find_out(&table, state, class);
                (table, to) = (arc_swap::Guard::from_inner(found.0), found.1);
            }
            if to & NOWHERE != 0 {
                return Ok(());
            }
            state = to & !ENDS;
            if to & ENDS != 0 {
                let number = table.number(state);
                let owners = table.state(number).map_or(&[][..], |state| &state.owners);
                for &owner in owners {
                    visitor.ended(owner, text.len() - bytes.len());
                }
            }
        }
        Ok(())
    }

    /// Reads many texts with one look at the table.
    pub(super) fn reader(&self) -> Reader<'_> {
        Reader {
            automaton: self,
            table: self.table.load(),
        }
    }

    /// Finds out where a byte of `class` leads from a state. Returns the table to go on with, and
    /// where the byte leads.
    #[cold]
    fn find_out(&self, table: &Arc<Table>, state: u32, class: u8) -> (Arc<Table>, u32) {
        let mut growth = self.growth.lock();
        let number = table.number(state);
        let from = table.state(number);
        let mut current = self.table.load_full();
        // Of the same line of tables, the state has the same number in the current one.
        let is_known = |current: &Table| match (from, current.state(number)) {
            (Some(from), Some(same)) => Arc::ptr_eq(from, same),
            _ => false,
        };
        if is_known(&current) {
            let to = current.step(current.named(number), class);
            if to != UNKNOWN {
                return (current, to);
            }
        }
        let positions = from.map_or(&[][..], |state| &state.positions);
        let begins_here = number == 0 || self.begins_anywhere;
        let positions = self
            .positions
            .step(positions, usize::from(class), begins_here);
        let owners = self.positions.owners(&positions);
        let leads_nowhere = self.positions.are_anchored() && !self.begins_anywhere;
        let marks = match (owners.is_empty(), positions.is_empty()) {
            (false, _) => ENDS,
            (true, true) if leads_nowhere => NOWHERE,
            (true, _) => 0,
        };
        current = self.with_room(current, &mut growth);
        let known = if positions.is_empty() && self.begins_anywhere {
            // The next byte begins what it would begin at the start.
            Some(0)
        } else {
            growth.numbers.get(&positions[..]).copied()
        };
        let next = known.unwrap_or_else(|| {
            // State 0 is not among the numbers.
            let number = growth.numbers.len() as u32 + 1;
            let positions: Arc<[Position]> = positions.into();
            if let Some(place) = current.states.get(number as usize) {
                let _ = place.set(Arc::new(State {
                    positions: Arc::clone(&positions),
                    owners: owners.into(),
                }));
            }
            growth.numbers.insert(positions, number);
            number
        });
        let to = current.named(next) | marks;
        if is_known(&current) && current.insert(current.named(number), class, to) {
            growth.steps += 1;
        }
        drop(growth);
        (current, to)
    }

    /// The table, or a new one if it has no room for one more state or step.
    fn with_room(&self, table: Arc<Table>, growth: &mut Growth) -> Arc<Table> {
        // State 0 is not among the numbers.
        let has_states = growth.numbers.len() + 1 < table.states.len();
        if has_states && table.has_room_for_steps(growth.steps) {
            return table;
        }
        let next = if table.states.len() < STATES_MAX {
            table.grown()
        } else {
            let empty = Table::new(STATES_AT_FIRST, table.row_length);
            Self::add_first_state(&empty, growth);
            empty
        };
        let next = Arc::new(next);
        self.table.store(Arc::clone(&next));
        next
    }
}

/// Asks an automaton of fragments that stand at the start of a text.
pub(super) struct Reader<'a> {
    automaton: &'a Automaton,
    table: arc_swap::Guard<Arc<Table>>,
}

impl Reader<'_> {
    /// Whether a fragment stands at the start of a text; `None` if one may, but goes on behind its end.
    pub(super) fn has_beginning(&mut self, text: &[u8]) -> Option<bool> {
        let class_of = &self.automaton.positions.class_of;
        let mut state = self.table.named(0);
        let mut bytes = text.iter();
        while let Some((class, mut to)) = self.table.read_on(class_of, &mut bytes, &mut state) {
            if to == UNKNOWN {
                let found = self.automaton.find_out(&self.table, state, class);
                (self.table, to) = (arc_swap::Guard::from_inner(found.0), found.1);
            }
            if to & ENDS != 0 {
                return Some(true);
            }
            if to & NOWHERE != 0 {
                return Some(false);
            }
            state = to;
        }
        None
    }

    /// Where the first fragment of a text ends.
    pub(super) fn first_end(&mut self, text: &[u8]) -> Option<usize> {
        let mut state = self.table.named(0);
        let mut bytes = text.iter();
        let class_of = &self.automaton.positions.class_of;
        while let Some((class, mut to)) = self.table.read_on(class_of, &mut bytes, &mut state) {
            if to == UNKNOWN {
                let found = self.automaton.find_out(&self.table, state, class);
                (self.table, to) = (arc_swap::Guard::from_inner(found.0), found.1);
            }
            if to & ENDS != 0 {
                return Some(text.len() - bytes.len());
            }
            state = to;
        }
        None
    }

    /// The first place of a text that was read at which something begins that goes on behind its end.
    pub(super) fn first_open(&self, text: &[u8]) -> usize {
        let class_of = &self.automaton.positions.class_of;
        let start = self.table.named(0);
        let (mut state, mut first) = (start, 0);
        for (place, &byte) in text.iter().enumerate() {
            let to = self.table.step(state, class_of[usize::from(byte)]);
            if to == UNKNOWN {
                // The table began anew on the way.
                return 0;
            }
            state = to & !ENDS;
            if state == start {
                first = place + 1;
            }
        }
        first
    }
}
