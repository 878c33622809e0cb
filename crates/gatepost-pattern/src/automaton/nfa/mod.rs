//! The literals of many patterns as one Glushkov NFA.
//!
//! In a Glushkov (position) automaton each state is a *position*: an occurrence of a byte class in
//! a literal. The automaton is in a position when the byte read last is in that class. Every
//! position has a *follow set*, and the *first sets* contain the positions that a byte may start.
//! Literals with the same prefix share positions. Position 0 precedes any byte; position 1 precedes
//! the first byte of a text.
//!
//! [`NfaBuilder`] collects the positions, from which a search for literals is made. An [`Nfa`] is
//! finished for the lazy DFA, which needs no more than the literals at the start of a text.

mod builder;

use smallvec::SmallVec;

pub(crate) use self::builder::{NfaBuilder, byte_classes};
use crate::byte_set::ByteSet;

/// A state of the NFA.
pub(crate) type Position = u32;

/// The active positions of a DFA state; most states have few.
pub(super) type PositionSet = SmallVec<[Position; 16]>;

/// The start at any offset of a text.
pub(crate) const UNANCHORED_START: Position = 0;
/// The start at the first byte of a text.
pub(crate) const ANCHORED_START: Position = 1;

/// The finished automaton of the literals at the start of a text.
#[derive(Debug)]
pub(crate) struct Nfa {
    /// By byte: its equivalence class. The bytes of one class are in the same sets.
    pub(crate) class_of: [u8; 256],
    /// By class: the sets that contain it, one bit each.
    sets_of_class: JaggedArray<u64>,
    /// By position, with a sentinel after the last.
    entries: Vec<PositionEntry>,
    follow: Vec<Follow>,
    /// By class: the positions that a byte of it starts.
    first: JaggedArray<Position>,
}

/// The byte set of a position, and where its followers begin in the shared list. They end where
/// those of the next position begin.
#[derive(Debug, Clone, Copy)]
struct PositionEntry {
    set: u16,
    /// A literal ends in the position.
    is_end: bool,
    follow: u32,
}

/// A position that may follow another.
#[derive(Debug, Clone, Copy)]
struct Follow {
    position: Position,
    set: u16,
}

/// A set of byte classes, one bit each.
pub(crate) type ByteClasses = [u64; 4];

impl PositionEntry {
    const NONE: Self = Self {
        set: 0,
        is_end: false,
        follow: 0,
    };
}

/// Rows of different lengths in one allocation.
#[derive(Debug)]
struct JaggedArray<T> {
    ends: Vec<u32>,
    items: Vec<T>,
}

impl<T> JaggedArray<T> {
    fn new(rows: impl Iterator<Item = Vec<T>>) -> Self {
        let (mut ends, mut items) = (Vec::new(), Vec::new());
        for row in rows {
            items.extend(row);
            ends.push(items.len() as u32);
        }
        items.shrink_to_fit();
        Self { ends, items }
    }

    fn get(&self, row: usize) -> &[T] {
        let end = self.ends.get(row).map_or(0, |&end| end as usize);
        let start = match row.checked_sub(1) {
            Some(before) => self.ends.get(before).map_or(0, |&end| end as usize),
            None => 0,
        };
        self.items.get(start..end).unwrap_or_default()
    }
}

/// Sorts positions and removes duplicates.
pub(crate) fn sorted(mut positions: Vec<Position>) -> Vec<Position> {
    positions.sort_unstable();
    positions.dedup();
    positions
}

impl Nfa {
    /// The number of byte classes.
    pub(super) fn class_count(&self) -> usize {
        let last = self.class_of.iter().max().copied().unwrap_or_default();
        usize::from(last) + 1
    }

    /// The positions that are active after a byte of `class`. With `is_start` literals start at
    /// that byte.
    pub(super) fn step(&self, from: &[Position], class: usize, is_start: bool) -> PositionSet {
        let first = is_start.then(|| self.first.get(class));
        let mut to = PositionSet::from_slice(first.unwrap_or_default());
        let sets = self.sets_of_class.get(class);
        for &position in from {
            for follower in self.followers(position) {
                if contains_set(sets, follower.set) {
                    to.push(follower.position);
                }
            }
        }
        to.sort_unstable();
        to.dedup();
        to
    }

    /// The positions in which a literal may start.
    pub(crate) fn first_positions(&self) -> Vec<Position> {
        sorted(self.first.items.clone())
    }

    /// The positions that may follow a position.
    pub(crate) fn follow_set(&self, position: Position) -> impl Iterator<Item = Position> {
        self.followers(position)
            .iter()
            .map(|follower| follower.position)
    }

    fn followers(&self, position: Position) -> &[Follow] {
        let (entry, next) = self.entry(position);
        let range = entry.follow as usize..next.follow as usize;
        self.follow.get(range).unwrap_or_default()
    }

    /// The entry of a position, and the one after it, at whose followers those of the first end.
    fn entry(&self, position: Position) -> (PositionEntry, PositionEntry) {
        let position = position as usize;
        match self.entries.get(position..position + 2) {
            Some(&[entry, next]) => (entry, next),
            _ => (PositionEntry::NONE, PositionEntry::NONE),
        }
    }

    /// The byte classes that lead to one of these positions.
    pub(crate) fn classes_of(&self, positions: &[Position]) -> ByteClasses {
        let mut classes = [0; 4];
        for class in 0..self.class_count() {
            let sets = self.sets_of_class.get(class);
            let leads_to = |&position: &Position| contains_set(sets, self.entry(position).0.set);
            if positions.iter().any(leads_to) {
                classes[class / 64] |= 1 << (class % 64);
            }
        }
        classes
    }

    /// The bytes of these classes.
    pub(crate) fn bytes_of(&self, classes: &ByteClasses) -> ByteSet {
        let is_member = |byte: &u8| {
            let class = usize::from(self.class_of[usize::from(*byte)]);
            classes[class / 64] & 1 << (class % 64) != 0
        };
        (0..=u8::MAX).filter(is_member).collect()
    }

    /// Whether a literal ends in one of these positions.
    pub(crate) fn is_end(&self, positions: &[Position]) -> bool {
        let mut positions = positions.iter();
        positions.any(|&position| self.entry(position).0.is_end)
    }
}

/// Whether the sets of a class include a set.
fn contains_set(sets: &[u64], set: u16) -> bool {
    let word = sets.get(usize::from(set) / 64);
    word.is_some_and(|word| word >> (set % 64) & 1 != 0)
}
