//! How fragments are laid out as positions.

use hashbrown::HashMap;

use super::{ANYWHERE, AT_START, Next, Owner, Place, Position, Positions, Rows, in_order};
use crate::pattern::{ByteSet, Node};
use crate::screen::frequency::chance;
use crate::screen::required::{Fragment, loop_set};

/// Collects fragments.
#[derive(Debug)]
pub(crate) struct Builder {
    sets: Vec<ByteSet>,
    set_numbers: HashMap<ByteSet, u16>,
    /// By position: its set, what may follow, and whose fragments end there.
    positions: Vec<(u16, Vec<Position>, Vec<Owner>)>,
    shared: HashMap<(Vec<Position>, u16), Position>,
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
    pub(in crate::screen) fn end(&mut self, ends: &[Position], owner: Owner) {
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
    pub(in crate::screen) fn byte(
        &mut self,
        set: &ByteSet,
        before: Vec<Position>,
    ) -> Vec<Position> {
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
    pub(in crate::screen) fn bytes(
        &mut self,
        set: &ByteSet,
        before: Vec<Position>,
    ) -> Vec<Position> {
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

    pub(in crate::screen) fn finish(self) -> Positions {
        let (class_of, representatives) = classes(&self.sets);
        let sets_of = |&byte: &u8| {
            let mut bits = vec![0u64; self.sets.len().div_ceil(64)];
            for (number, set) in self.sets.iter().enumerate() {
                bits[number / 64] |= u64::from(set.contains(byte)) << (number % 64);
            }
            bits
        };
        let begins = |root: Position| {
            let (_, follow, _) = &self.positions[root as usize];
            let row = |&byte: &u8| {
                let fits = |&&position: &&Position| {
                    let (set, ..) = self.positions[position as usize];
                    self.sets[usize::from(set)].contains(byte)
                };
                follow.iter().filter(fits).copied().collect()
            };
            Rows::new(representatives.iter().map(row))
        };
        let (mut places, mut next, mut owners) = (Vec::new(), Vec::new(), Vec::new());
        for (set, follow, of_position) in &self.positions {
            places.push(Place::new(*set, &next, &owners));
            next.extend(follow.iter().map(|&position| Next {
                position,
                set: self.positions[position as usize].0,
            }));
            owners.extend_from_slice(of_position);
        }
        places.push(Place::new(0, &next, &owners));
        next.shrink_to_fit();
        owners.shrink_to_fit();
        Positions {
            class_of,
            sets_of: Rows::new(representatives.iter().map(sets_of)),
            begins: begins(ANYWHERE),
            begins_at_start: begins(AT_START),
            places,
            next,
            owners,
        }
    }
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
