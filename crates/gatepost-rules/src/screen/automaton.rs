//! The deterministic automaton, made state by state as texts lead there.
//!
//! All threads share one table. A search reads it without a lock; only where the table does not yet
//! say where a byte leads, the search takes the lock, finds out and notes it. A table that is full is
//! replaced by a larger one in which states keep their numbers, or, at its bound, by an empty one:
//! searches that still hold the old one end with it.
//!
//! How the table is laid out, so that a byte costs two loads, is told in [`table`].

mod table;
mod together;

use std::sync::Arc;

use std::hash::BuildHasher;

use arc_swap::ArcSwap;
use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};
use parking_lot::Mutex;

use self::table::{ENDS, NOWHERE, State, Table, UNKNOWN};
use super::openings::Openings;
use super::positions::{Builder, Owner, Position, Positions, SomePositions};

pub(crate) use self::together::End;

/// The state in the middle of a text in which no fragment has begun.
const MIDDLE: u32 = 1;

/// A new table has room for one state of so many positions, and for as many as this at least: mail leads
/// to more of the former, and each growth copies all rows.
const POSITIONS_PER_STATE: usize = if cfg!(test) { usize::MAX } else { 4 };
const STATES_AT_FIRST: usize = 32;
/// How many times as large a table grows.
const GROWTH: usize = 4;
/// States beyond which a table begins anew; tests meet it.
const STATES_MAX: usize = if cfg!(test) { 1024 } else { 64 * 1024 };

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

/// What is needed to find out more.
#[derive(Debug, Default)]
struct Growth {
    /// The states but for the first, each with the hash of its positions.
    numbers: HashTable<(u64, u32)>,
    hasher: DefaultHashBuilder,
    /// How many scattered steps the table holds.
    steps: usize,
}

impl Growth {
    /// The number of the state that stands for some positions. A new one is added to the table, which has room
    /// for it.
    fn number(
        &mut self,
        table: &Table,
        positions: SomePositions,
        owners: impl FnOnce(&[Position]) -> Box<[Owner]>,
    ) -> u32 {
        // State 0 is not among the numbers.
        let number = self.numbers.len() as u32 + 1;
        let hash = self.hasher.hash_one(&positions[..]);
        let is_same = |&(of, number): &(u64, u32)| {
            let state = table.state(number);
            of == hash && state.is_some_and(|state| state.positions == positions)
        };
        match self.numbers.entry(hash, is_same, |&(hash, _)| hash) {
            Entry::Occupied(known) => known.get().1,
            Entry::Vacant(place) => {
                place.insert((hash, number));
                let owners = owners(&positions);
                if let Some(place) = table.states.get(number as usize) {
                    let _ = place.set(Arc::new(State { positions, owners }));
                }
                number
            }
        }
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

    /// With which bytes fragments at the start of a text open.
    pub(super) fn openings(&self) -> Openings {
        Openings::at_start(&self.positions)
    }

    fn of(positions: Arc<Positions>, begins_anywhere: bool) -> Self {
        let table = new_table(&positions);
        let automaton = Self {
            positions,
            begins_anywhere,
            table: ArcSwap::from_pointee(table),
            growth: Mutex::default(),
        };
        Self::add_first_states(&automaton.table.load(), &mut automaton.growth.lock());
        automaton
    }

    /// State 0 is before the first byte of a text, and 1 in its middle.
    fn add_first_states(table: &Table, growth: &mut Growth) {
        growth.numbers.clear();
        growth.steps = 0;
        if let Some(first) = table.states.first() {
            let _ = first.set(Arc::default());
        }
        growth.number(table, SomePositions::new(), |_| Box::default());
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
        let begins_here = number == 0 || self.begins_anywhere;
        let from = from.map_or(&[][..], |state| &state.positions);
        let positions = self.positions.step(from, usize::from(class), begins_here);
        current = self.with_room(current, &mut growth);
        let (next, marks) = self.state(&current, &mut growth, positions);
        let to = current.named(next) | marks;
        if is_known(&current) && current.insert(current.named(number), class, to) {
            growth.steps += 1;
        }
        drop(growth);
        (current, to)
    }

    /// The number of the state that stands for some positions, and how steps that lead there are marked.
    fn state(&self, table: &Table, growth: &mut Growth, positions: SomePositions) -> (u32, u32) {
        if positions.is_empty() {
            let leads_nowhere = self.positions.are_anchored() && !self.begins_anywhere;
            // Where anything begins anywhere, the next byte begins what it would begin at the start.
            let number = if self.begins_anywhere { 0 } else { MIDDLE };
            return (number, if leads_nowhere { NOWHERE } else { 0 });
        }
        let number = growth.number(table, positions, |positions| {
            self.positions.owners(positions)
        });
        let is_end = |state: &Arc<State>| !state.owners.is_empty();
        let ends = table.state(number).is_some_and(is_end);
        (number, if ends { ENDS } else { 0 })
    }

    /// The table, or a new one if it has no room for one more state or step.
    fn with_room(&self, table: Arc<Table>, growth: &mut Growth) -> Arc<Table> {
        // State 0 is not among the numbers.
        let has_states = growth.numbers.len() + 1 < table.states.len();
        if has_states && table.has_room_for_steps(growth.steps) {
            return table;
        }
        let next = if table.states.len() < STATES_MAX {
            table.grown((table.states.len() * GROWTH).min(STATES_MAX))
        } else {
            let empty = new_table(&self.positions);
            Self::add_first_states(&empty, growth);
            empty
        };
        let next = Arc::new(next);
        self.table.store(Arc::clone(&next));
        next
    }
}

fn new_table(positions: &Positions) -> Table {
    let states = (positions.len() / POSITIONS_PER_STATE).clamp(STATES_AT_FIRST, STATES_MAX);
    Table::new(states, positions.classes())
}

/// Asks an automaton of fragments that stand at the start of a text.
pub(super) struct Reader<'a> {
    automaton: &'a Automaton,
    table: arc_swap::Guard<Arc<Table>>,
}

impl Reader<'_> {
    /// Whether a fragment stands at the start of a text; `None` if one may, but goes on behind its end.
    pub(super) fn has_beginning(&mut self, text: &[u8]) -> Option<bool> {
        let mark = self.next_mark(&mut text.iter())?;
        Some(mark & ENDS != 0)
    }

    /// Where the first fragment of a text ends.
    pub(super) fn first_end(&mut self, text: &[u8]) -> Option<usize> {
        let mut bytes = text.iter();
        let mark = self.next_mark(&mut bytes)?;
        (mark & ENDS != 0).then(|| text.len() - bytes.len())
    }

    /// Reads from the start of a text to the first step at which a fragment ends, or from which nothing
    /// leads on; gives that step.
    fn next_mark(&mut self, bytes: &mut std::slice::Iter<'_, u8>) -> Option<u32> {
        let class_of = &self.automaton.positions.class_of;
        let mut state = self.table.named(0);
        while let Some((class, mut to)) = self.table.read_on(class_of, bytes, &mut state) {
            if to == UNKNOWN {
                let found = self.automaton.find_out(&self.table, state, class);
                (self.table, to) = (arc_swap::Guard::from_inner(found.0), found.1);
            }
            if to & (ENDS | NOWHERE) != 0 {
                return Some(to);
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
