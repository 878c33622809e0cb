//! The fragments of many patterns as one nondeterministic automaton.
//!
//! A position stands for "the byte that was read is in this set, and before it stood one of those
//! positions". Fragments that begin alike share positions. Position 0 is before any byte; position 1
//! is before the first byte of a text.
//!
//! A step of the deterministic automaton is found out from a handful of positions among twenty thousand, at
//! places of memory that no cache holds: mail that differs from what came before pays for it. So what
//! belongs to a position is told by one look at it, and what may follow it brings its set along.

mod builder;

use smallvec::SmallVec;

pub(crate) use self::builder::Builder;
use super::required::Window;
use crate::pattern::ByteSet;

pub(super) type Position = u32;

/// A state's positions; most have some eight.
pub(super) type SomePositions = SmallVec<[Position; 16]>;

/// Before any byte.
const ANYWHERE: Position = 0;
/// Before the first byte.
pub(super) const AT_START: Position = 1;

/// Whose fragment ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    /// The index of its pattern.
    pub(crate) pattern: u32,
    pub(crate) window: Option<Window>,
    /// How many of its fragments each match holds at least.
    pub(crate) rounds: u32,
}

/// The finished automaton.
#[derive(Debug)]
pub(super) struct Positions {
    /// By byte: bytes of one class are in the same sets.
    pub(super) class_of: [u8; 256],
    /// By class: the sets that it is in, a bit for each.
    sets_of: Rows<u64>,
    /// By position, and one behind the last.
    places: Vec<Place>,
    next: Vec<Next>,
    owners: Vec<Owner>,
    /// By class: what a byte of it begins, anywhere and at the start of a text.
    begins: Rows<Position>,
    begins_at_start: Rows<Position>,
}

/// A position's set, and where what belongs to it begins in the lists of all: it ends where that of the
/// next position begins.
#[derive(Debug, Clone, Copy)]
struct Place {
    set: u16,
    next: u32,
    owners: u32,
}

/// A position that may follow another.
#[derive(Debug, Clone, Copy)]
struct Next {
    position: Position,
    set: u16,
}

/// Classes of bytes, a bit for each.
pub(super) type Classes = [u64; 4];

impl Place {
    const NOWHERE: Self = Self {
        set: 0,
        next: 0,
        owners: 0,
    };

    /// What belongs to it comes next in the lists.
    fn new(set: u16, next: &[Next], owners: &[Owner]) -> Self {
        Self {
            set,
            next: next.len() as u32,
            owners: owners.len() as u32,
        }
    }
}

/// Lists of different lengths in one.
#[derive(Debug)]
struct Rows<T> {
    ends: Vec<u32>,
    items: Vec<T>,
}

impl<T> Rows<T> {
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

pub(super) fn in_order(mut positions: Vec<Position>) -> Vec<Position> {
    positions.sort_unstable();
    positions.dedup();
    positions
}

impl Positions {
    /// How many classes of bytes there are.
    pub(super) fn classes(&self) -> usize {
        let last = self.class_of.iter().max().copied().unwrap_or_default();
        usize::from(last) + 1
    }

    /// How many positions there are.
    pub(super) fn len(&self) -> usize {
        self.places.len() - 1
    }

    /// Whether all fragments stand at the start of a text.
    pub(super) fn are_anchored(&self) -> bool {
        self.begins.items.is_empty()
    }

    /// Where a byte of `class` leads from a set of positions. With `at_start` it is the first byte.
    pub(super) fn step(&self, from: &[Position], class: usize, at_start: bool) -> SomePositions {
        let mut to = SomePositions::from_slice(self.begins.get(class));
        if at_start {
            to.extend_from_slice(self.begins_at_start.get(class));
        }
        let sets = self.sets_of.get(class);
        for &position in from {
            for next in self.next(position) {
                if is_in(sets, next.set) {
                    to.push(next.position);
                }
            }
        }
        to.sort_unstable();
        to.dedup();
        to
    }

    /// The positions in which the first byte of a text may be, where a fragment stands there.
    pub(super) fn begins(&self) -> Vec<Position> {
        in_order(self.begins_at_start.items.clone())
    }

    /// What may follow a position.
    pub(super) fn follow(&self, position: Position) -> impl Iterator<Item = Position> {
        self.next(position).iter().map(|next| next.position)
    }

    fn next(&self, position: Position) -> &[Next] {
        let (place, behind) = self.place(position);
        let range = place.next as usize..behind.next as usize;
        self.next.get(range).unwrap_or_default()
    }

    /// Where what belongs to a position begins, and where it ends.
    fn place(&self, position: Position) -> (Place, Place) {
        let position = position as usize;
        match self.places.get(position..position + 2) {
            Some(&[place, behind]) => (place, behind),
            _ => (Place::NOWHERE, Place::NOWHERE),
        }
    }

    /// The classes of bytes that lead to one of some positions.
    pub(super) fn classes_of(&self, positions: &[Position]) -> Classes {
        let mut classes = [0; 4];
        for class in 0..self.classes() {
            let sets = self.sets_of.get(class);
            let leads_to = |&position: &Position| is_in(sets, self.place(position).0.set);
            if positions.iter().any(leads_to) {
                classes[class / 64] |= 1 << (class % 64);
            }
        }
        classes
    }

    /// The bytes of some classes.
    pub(super) fn bytes_of(&self, classes: &Classes) -> ByteSet {
        let fits = |byte: &u8| {
            let class = usize::from(self.class_of[usize::from(*byte)]);
            classes[class / 64] & 1 << (class % 64) != 0
        };
        (0..=u8::MAX).filter(fits).collect()
    }

    /// Whose fragments end in a set of positions.
    pub(super) fn owners(&self, positions: &[Position]) -> Box<[Owner]> {
        let rows = positions.iter().flat_map(|&position| {
            let (place, behind) = self.place(position);
            let range = place.owners as usize..behind.owners as usize;
            self.owners.get(range).unwrap_or_default()
        });
        rows.copied().collect()
    }
}

/// Whether a set is among those of a class.
fn is_in(sets: &[u64], set: u16) -> bool {
    let word = sets.get(usize::from(set) / 64);
    word.is_some_and(|word| word >> (set % 64) & 1 != 0)
}
