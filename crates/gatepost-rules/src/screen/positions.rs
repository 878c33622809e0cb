//! The fragments of many patterns as one nondeterministic automaton.
//!
//! A position stands for "the byte that was read is in this set, and before it stood one of those
//! positions". Fragments that begin alike share positions. Position 0 is before any byte; position 1
//! is before the first byte of a text.

use hashbrown::HashMap;

use super::frequency::chance;
use super::required::{Fragment, Window, loop_set};
use crate::pattern::{ByteSet, Node};

pub(super) type Position = u32;

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

/// Collects fragments.
#[derive(Debug)]
pub(crate) struct Builder {
    sets: Vec<ByteSet>,
    set_numbers: HashMap<ByteSet, u16>,
    /// By position: its set, what may follow, and whose fragments end there.
    positions: Vec<(u16, Vec<Position>, Vec<Owner>)>,
    shared: HashMap<(Vec<Position>, u16), Position>,
}

/// The finished automaton.
#[derive(Debug)]
pub(super) struct Positions {
    /// By byte: bytes of one class are in the same sets.
    pub(super) class_of: [u8; 256],
    /// By set: the classes in it.
    class_sets: Vec<Classes>,
    /// By position.
    set_of: Vec<u16>,
    follow: Rows<Position>,
    owners: Rows<Owner>,
    /// By class: what a byte of it begins, anywhere and at the start of a text.
    begins: Rows<Position>,
    begins_at_start: Rows<Position>,
}

/// Classes of bytes, a bit for each.
pub(super) type Classes = [u64; 4];

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

impl Builder {
    pub(crate) fn new() -> Self {
        let none = || (0, Vec::new(), Vec::new());
        Self {
            sets: Vec::new(),
            set_numbers: HashMap::new(),
            positions: vec![none(), none()],
            shared: HashMap::new(),
        }
    }

    /// Whether nothing is looked for.
    pub(crate) fn is_empty(&self) -> bool {
        self.positions.len() <= 2
    }

    /// Adds a fragment of the pattern with this index.
    pub(crate) fn add(&mut self, pattern: u32, fragment: &Fragment<'_>) {
        let root = if fragment.is_anchored {
            AT_START
        } else {
            ANYWHERE
        };
        let ends = fragment
            .parts
            .iter()
            .fold(vec![root], |before, part| self.walk(part, before));
        let owner = Owner {
            pattern,
            window: fragment.window,
            rounds: fragment.rounds,
        };
        self.end(&ends, owner);
    }

    /// Says whose fragments end in some positions.
    pub(super) fn end(&mut self, ends: &[Position], owner: Owner) {
        for &end in ends {
            if let Some((_, _, owners)) = self.positions.get_mut(end as usize)
                && !owners.contains(&owner)
            {
                owners.push(owner);
            }
        }
    }

    /// Adds a node that comes after the positions `before`; the positions in which it may end.
    fn walk(&mut self, node: &Node, before: Vec<Position>) -> Vec<Position> {
        match node {
            Node::Byte(set) => self.byte(set, before),
            Node::Concat(parts) => parts.iter().fold(before, |at, part| self.walk(part, at)),
            Node::Alternate(branches) | Node::BranchReset(branches) => {
                let ends = branches
                    .iter()
                    .flat_map(|branch| self.walk(branch, before.clone()))
                    .collect();
                in_order(ends)
            }
            Node::Repeat {
                inner, min, max, ..
            } => self.repeat(inner, *min, *max, before),
            Node::Capture { inner, .. } | Node::Atomic(inner) => self.walk(inner, before),
            // Nothing else takes bytes, or is chosen as part of a fragment.
            _ => before,
        }
    }

    fn repeat(
        &mut self,
        inner: &Node,
        min: u32,
        max: Option<u32>,
        before: Vec<Position>,
    ) -> Vec<Position> {
        let mut at = before;
        for _ in 0..min {
            at = self.walk(inner, at);
        }
        let mut ends = at.clone();
        if let Some(set) = loop_set(inner, max) {
            ends.extend(self.bytes(set, at.clone()));
        }
        for _ in min..max.unwrap_or(min) {
            at = self.walk(inner, at);
            ends.extend_from_slice(&at);
        }
        in_order(ends)
    }

    /// Adds a byte after the positions `before`; none if no byte fits.
    pub(super) fn byte(&mut self, set: &ByteSet, before: Vec<Position>) -> Vec<Position> {
        if set.len() == 0 {
            return Vec::new();
        }
        let number = self.number(set);
        if let Some(&known) = self.shared.get(&(before.clone(), number)) {
            return vec![known];
        }
        let position = self.push(number, &before);
        self.shared.insert((before, number), position);
        vec![position]
    }

    /// Adds any number of bytes of a set after the positions `before`, but one at least.
    pub(super) fn bytes(&mut self, set: &ByteSet, before: Vec<Position>) -> Vec<Position> {
        if set.len() == 0 {
            return Vec::new();
        }
        let number = self.number(set);
        let position = self.push(number, &before);
        if let Some((_, follow, _)) = self.positions.get_mut(position as usize) {
            follow.push(position);
        }
        vec![position]
    }

    fn number(&mut self, set: &ByteSet) -> u16 {
        if let Some(&number) = self.set_numbers.get(set) {
            return number;
        }
        let number = self.sets.len() as u16;
        self.sets.push(*set);
        self.set_numbers.insert(*set, number);
        number
    }

    fn push(&mut self, set: u16, before: &[Position]) -> Position {
        let position = self.positions.len() as Position;
        self.positions.push((set, Vec::new(), Vec::new()));
        for &one in before {
            if let Some((_, follow, _)) = self.positions.get_mut(one as usize) {
                follow.push(position);
            }
        }
        position
    }

    pub(super) fn finish(self) -> Positions {
        let (class_of, representatives) = classes(&self.sets);
        let in_classes = |set: &ByteSet| {
            let mut bits = [0u64; 4];
            for (class, &byte) in representatives.iter().enumerate() {
                if set.contains(byte) {
                    bits[class / 64] |= 1 << (class % 64);
                }
            }
            bits
        };
        let set_of: Vec<u16> = self.positions.iter().map(|(set, ..)| *set).collect();
        let begins = |root: Position| {
            let row = |&byte: &u8| {
                let follow = self.positions.get(root as usize);
                let follow = follow.map_or(&[][..], |(_, follow, _)| follow);
                let fits = |&&position: &&Position| {
                    let set = set_of.get(position as usize).map_or(0, |&set| set);
                    let set = self.sets.get(usize::from(set));
                    set.is_some_and(|set| set.contains(byte))
                };
                follow.iter().filter(fits).copied().collect()
            };
            Rows::new(representatives.iter().map(row))
        };
        Positions {
            class_of,
            class_sets: self.sets.iter().map(in_classes).collect(),
            begins: begins(ANYWHERE),
            begins_at_start: begins(AT_START),
            set_of,
            owners: Rows::new(self.positions.iter().map(|(.., owners)| owners.clone())),
            follow: Rows::new(self.positions.into_iter().map(|(_, follow, _)| follow)),
        }
    }
}

pub(super) fn in_order(mut positions: Vec<Position>) -> Vec<Position> {
    positions.sort_unstable();
    positions.dedup();
    positions
}

/// The class of each byte, and a byte of each class. The classes that mail is made of come first, so
/// that what is read of a row of the table lies side by side.
fn classes(sets: &[ByteSet]) -> ([u8; 256], Vec<u8>) {
    let mut class_of = [0u8; 256];
    for set in sets {
        // By class: the new class of its bytes outside the set, and of those in it.
        let mut numbers = [[None; 2]; 256];
        let mut next = 0..=u8::MAX;
        for byte in 0..=u8::MAX {
            let class = &mut class_of[usize::from(byte)];
            let number = &mut numbers[usize::from(*class)][usize::from(set.contains(byte))];
            *class = *number.get_or_insert_with(|| next.next().unwrap_or_default());
        }
    }
    let mut members: Vec<ByteSet> = Vec::new();
    for byte in 0..=u8::MAX {
        let class = usize::from(class_of[usize::from(byte)]);
        // Classes are numbered in the order of their first bytes.
        if class == members.len() {
            members.push(ByteSet::EMPTY);
        }
        if let Some(members) = members.get_mut(class) {
            members.insert(byte);
        }
    }
    members.sort_by(|one, other| chance(other).total_cmp(&chance(one)));
    for (class, bytes) in (0u8..=u8::MAX).zip(&members) {
        bytes
            .iter()
            .for_each(|byte| class_of[usize::from(byte)] = class);
    }
    let representatives = members.iter().filter_map(|bytes| bytes.iter().next());
    (class_of, representatives.collect())
}

impl Positions {
    /// How many classes of bytes there are.
    pub(super) fn classes(&self) -> usize {
        let last = self.class_of.iter().max().copied().unwrap_or_default();
        usize::from(last) + 1
    }

    /// How many positions there are.
    pub(super) fn len(&self) -> usize {
        self.set_of.len()
    }

    /// Whether all fragments stand at the start of a text.
    pub(super) fn are_anchored(&self) -> bool {
        self.begins.items.is_empty()
    }

    /// Where a byte of `class` leads from a set of positions. With `at_start` it is the first byte.
    pub(super) fn step(&self, from: &[Position], class: usize, at_start: bool) -> Vec<Position> {
        let mut to = self.begins.get(class).to_vec();
        if at_start {
            to.extend_from_slice(self.begins_at_start.get(class));
        }
        for &position in from {
            for &next in self.follow(position) {
                if self.takes(next, class) {
                    to.push(next);
                }
            }
        }
        in_order(to)
    }

    fn takes(&self, position: Position, class: usize) -> bool {
        let set = self.set_of.get(position as usize).copied().unwrap_or(0);
        let bits = self.class_sets.get(usize::from(set));
        let word = bits.and_then(|bits| bits.get(class / 64)).copied();
        word.unwrap_or(0) & (1 << (class % 64)) != 0
    }

    /// The positions in which the first byte of a text may be, where a fragment stands there.
    pub(super) fn begins(&self) -> Vec<Position> {
        in_order(self.begins_at_start.items.clone())
    }

    /// What may follow a position.
    pub(super) fn follow(&self, position: Position) -> &[Position] {
        self.follow.get(position as usize)
    }

    /// The classes of bytes that lead to one of some positions.
    pub(super) fn classes_of(&self, positions: &[Position]) -> Classes {
        let sets = positions.iter().filter_map(|&position| {
            let set = self.set_of.get(position as usize)?;
            self.class_sets.get(usize::from(*set))
        });
        sets.fold([0; 4], |all, set| {
            std::array::from_fn(|word| all[word] | set[word])
        })
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
    pub(super) fn owners(&self, positions: &[Position]) -> Vec<Owner> {
        let rows = positions
            .iter()
            .flat_map(|&position| self.owners.get(position as usize));
        rows.copied().collect()
    }
}
