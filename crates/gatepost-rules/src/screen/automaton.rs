//! The deterministic automaton, made state by state as texts lead there.
//!
//! All threads share one table. A search reads it without a lock; only where the table does not yet
//! say where a byte leads, the search takes the lock, finds out and notes it. A table that is full is
//! replaced by a larger one in which states keep their numbers, or, at its bound, by an empty one:
//! searches that still hold the old one end with it.
//!
//! The table is written once for each entry and read with acquire ordering, so a search that reads
//! an entry sees the state it leads to.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use super::positions::{Builder, Owner, Position, Positions};

/// States of a new table.
const STATES_AT_FIRST: usize = 32;
/// Bytes that a table's entries may take.
const TABLE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// An entry that is not known yet.
const UNKNOWN: u32 = u32::MAX;
/// Marks entries that lead to a state in which fragments end.
const ENDS: u32 = 1 << 31;

/// Looks for the fragments of many patterns at once.
#[derive(Debug)]
pub(crate) struct Automaton {
    positions: Positions,
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
    /// By state and class: the first entry of the next state, with [`ENDS`]; or [`UNKNOWN`].
    entries: Box<[AtomicU32]>,
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
}

impl Table {
    fn new(states: usize, classes: usize) -> Self {
        let unknown = || AtomicU32::new(UNKNOWN);
        Self {
            entries: std::iter::repeat_with(unknown)
                .take(states * classes)
                .collect(),
            states: std::iter::repeat_with(OnceLock::new).take(states).collect(),
        }
    }
}

/// The visitor wanted no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stopped;

impl Automaton {
    /// The automaton for what was collected.
    pub(crate) fn new(builder: Builder) -> Self {
        let positions = builder.finish();
        let table = Table::new(STATES_AT_FIRST, positions.classes);
        let automaton = Self {
            positions,
            table: ArcSwap::from_pointee(table),
            growth: Mutex::default(),
        };
        Self::add_first_state(&automaton.table.load(), &mut automaton.growth.lock());
        automaton
    }

    /// State 0 is before the first byte of a text.
    fn add_first_state(table: &Table, growth: &mut Growth) {
        growth.numbers.clear();
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
        let mut table = self.table.load_full();
        let mut row = 0;
        for (at, &byte) in text.iter().enumerate() {
            let class = usize::from(self.positions.class_of[usize::from(byte)]);
            let entry = table.entries.get(row as usize + class);
            let mut entry = entry.map_or(UNKNOWN, |entry| entry.load(Ordering::Acquire));
            if entry & ENDS == 0 {
                row = entry;
                continue;
            }
            if entry == UNKNOWN {
                if !visitor.goes_on() {
                    return Err(Stopped);
                }
                (table, entry) = self.find_out(table, row, class);
            }
            row = entry & !ENDS;
            if entry & ENDS != 0 {
                let state = table.states.get(row as usize / self.positions.classes);
                let state = state.and_then(OnceLock::get);
                for &owner in state.map_or(&[][..], |state| &state.owners) {
                    visitor.ended(owner, at + 1);
                }
            }
        }
        Ok(())
    }

    /// Finds out where a byte of `class` leads from the state whose entries begin at `row`. Returns
    /// the table to go on with, and the entry.
    #[cold]
    fn find_out(&self, table: Arc<Table>, row: u32, class: usize) -> (Arc<Table>, u32) {
        let classes = self.positions.classes;
        let mut growth = self.growth.lock();
        let from = table.states.get(row as usize / classes);
        let from = from.and_then(OnceLock::get);
        let from = from.map_or(&[][..], |state| &state.positions);
        let positions = self.positions.step(from, class, row == 0);
        let owners = self.positions.owners(&positions);
        let ends = if owners.is_empty() { 0 } else { ENDS };
        let mut current = self.table.load_full();
        let known = growth.numbers.get(&positions[..]).copied();
        let number = if let Some(number) = known {
            number
        } else {
            current = self.with_room(current, &mut growth);
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
        };
        let entry = (number * classes as u32) | ends;
        // Of the same line of tables, the state has the same number in the current one.
        let same = |one: &Table, other: &Table| {
            let state = |table: &Table| {
                table
                    .states
                    .get(row as usize / classes)?
                    .get()
                    .map(Arc::as_ptr)
            };
            state(one) == state(other)
        };
        if same(&table, &current)
            && let Some(place) = current.entries.get(row as usize + class)
        {
            place.store(entry, Ordering::Release);
        }
        (current, entry)
    }

    /// The table, or a new one if it has no room for one more state.
    fn with_room(&self, table: Arc<Table>, growth: &mut Growth) -> Arc<Table> {
        let known = growth.numbers.len() + 1;
        if known < table.states.len() {
            return table;
        }
        let classes = self.positions.classes;
        let states = known * 2;
        let larger = if states * classes * size_of::<u32>() <= TABLE_BYTES_MAX {
            let larger = Table::new(states, classes);
            for (new, old) in larger.entries.iter().zip(&table.entries) {
                new.store(old.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            for (new, old) in larger.states.iter().zip(&table.states) {
                if let Some(state) = old.get() {
                    let _ = new.set(Arc::clone(state));
                }
            }
            larger
        } else {
            let empty = Table::new(STATES_AT_FIRST, classes);
            Self::add_first_state(&empty, growth);
            empty
        };
        let larger = Arc::new(larger);
        self.table.store(Arc::clone(&larger));
        larger
    }
}
