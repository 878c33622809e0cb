//! Builds the NFA from literals.

use hashbrown::HashMap;

use super::{
    ANCHORED_START, Follow, JaggedArray, Nfa, Position, PositionEntry, UNANCHORED_START, sorted,
};
use crate::automaton::literal::LiteralInfo;
use crate::byte_set::ByteSet;
use crate::byte_set::probability;
use crate::syntax::Node;

/// Collects literals as positions and their follow sets.
#[derive(Debug)]
pub(crate) struct NfaBuilder {
    sets: Vec<ByteSet>,
    set_numbers: HashMap<ByteSet, u16>,
    /// By position: the index of its set, its followers, and the literals that end there.
    positions: Vec<(u16, Vec<Position>, Vec<LiteralInfo>)>,
    /// Positions by their predecessors and their set, so that equal prefixes are shared.
    shared: HashMap<(Vec<Position>, u16), Position>,
}

impl NfaBuilder {
    pub(crate) fn new() -> Self {
        let none = || (0, Vec::new(), Vec::new());
        Self {
            sets: Vec::new(),
            set_numbers: HashMap::new(),
            positions: vec![none(), none()],
            shared: HashMap::new(),
        }
    }

    /// The byte sets of all positions.
    pub(crate) fn sets(&self) -> &[ByteSet] {
        &self.sets
    }

    /// By position: the index of its set, its followers, and the literals that end there.
    pub(crate) fn positions(&self) -> &[(u16, Vec<Position>, Vec<LiteralInfo>)] {
        &self.positions
    }

    /// Whether no literal was added.
    pub(crate) fn is_empty(&self) -> bool {
        self.positions.len() <= 2
    }

    /// Adds a literal, which is a concatenation of nodes.
    pub(crate) fn add(&mut self, parts: &[&Node], is_anchored: bool, literal: LiteralInfo) {
        let root = if is_anchored {
            ANCHORED_START
        } else {
            UNANCHORED_START
        };
        let ends = parts
            .iter()
            .fold(vec![root], |before, part| self.add_node(part, before));
        self.end(&ends, literal);
    }

    /// Records that a literal ends in these positions.
    pub(crate) fn end(&mut self, ends: &[Position], literal: LiteralInfo) {
        for &end in ends {
            if let Some((_, _, literals)) = self.positions.get_mut(end as usize)
                && !literals.contains(&literal)
            {
                literals.push(literal);
            }
        }
    }

    /// Adds a node after the positions `before`; returns the positions in which it may end.
    fn add_node(&mut self, node: &Node, before: Vec<Position>) -> Vec<Position> {
        match node {
            Node::Byte(set) => self.byte(set, before),
            Node::Concat(parts) => parts
                .iter()
                .fold(before, |at, part| self.add_node(part, at)),
            Node::Alternate(branches) | Node::BranchReset(branches) => {
                let ends = branches
                    .iter()
                    .flat_map(|branch| self.add_node(branch, before.clone()))
                    .collect();
                sorted(ends)
            }
            Node::Repeat {
                inner, min, max, ..
            } => self.repeat(inner, *min, *max, before),
            Node::Capture { inner, .. } | Node::Atomic(inner) => self.add_node(inner, before),
            // No other node consumes bytes, or is part of a literal.
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
            at = self.add_node(inner, at);
        }
        let mut ends = at.clone();
        if let (Node::Byte(set), None) = (inner, max) {
            ends.extend(self.bytes(set, at.clone()));
        }
        for _ in min..max.unwrap_or(min) {
            at = self.add_node(inner, at);
            ends.extend_from_slice(&at);
        }
        sorted(ends)
    }

    /// Adds one byte after the positions `before`; returns no position if the set is empty.
    pub(crate) fn byte(&mut self, set: &ByteSet, before: Vec<Position>) -> Vec<Position> {
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

    /// Adds one byte or more of a set after the positions `before`.
    pub(crate) fn bytes(&mut self, set: &ByteSet, before: Vec<Position>) -> Vec<Position> {
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

    /// The automaton of the literals at the start of a text.
    pub(crate) fn finish(self) -> Nfa {
        let (class_of, representatives) = classes(&self.sets);
        let sets_of = |&byte: &u8| {
            let mut bits = vec![0u64; self.sets.len().div_ceil(64)];
            for (number, set) in self.sets.iter().enumerate() {
                bits[number / 64] |= u64::from(set.contains(byte)) << (number % 64);
            }
            bits
        };
        let (_, starts, _) = &self.positions[ANCHORED_START as usize];
        let first = |&byte: &u8| {
            let fits = |&&position: &&Position| {
                let (set, ..) = self.positions[position as usize];
                self.sets[usize::from(set)].contains(byte)
            };
            starts.iter().filter(fits).copied().collect()
        };
        let (mut entries, mut followers) = (Vec::new(), Vec::new());
        for (set, follow, literals) in &self.positions {
            entries.push(PositionEntry {
                set: *set,
                is_end: !literals.is_empty(),
                follow: followers.len() as u32,
            });
            followers.extend(follow.iter().map(|&position| Follow {
                position,
                set: self.positions[position as usize].0,
            }));
        }
        entries.push(PositionEntry {
            follow: followers.len() as u32,
            ..PositionEntry::NONE
        });
        followers.shrink_to_fit();
        Nfa {
            class_of,
            sets_of_class: JaggedArray::new(representatives.iter().map(sets_of)),
            first: JaggedArray::new(representatives.iter().map(first)),
            entries,
            follow: followers,
        }
    }
}

/// The class of each byte, and one byte of each class.
fn classes(sets: &[ByteSet]) -> ([u8; 256], Vec<u8>) {
    let classes = byte_classes(sets);
    let mut class_of = [0u8; 256];
    for (class, bytes) in (0u8..=u8::MAX).zip(&classes) {
        bytes
            .iter()
            .for_each(|byte| class_of[usize::from(byte)] = class);
    }
    let representatives = classes.iter().filter_map(|bytes| bytes.iter().next());
    (class_of, representatives.collect())
}

/// The bytes of each class. The most frequent classes come first, so that the entries read of a
/// transition row lie side by side.
pub(crate) fn byte_classes(sets: &[ByteSet]) -> Vec<ByteSet> {
    let mut members = vec![ByteSet::ALL];
    for set in sets {
        for class in 0..members.len() {
            let inside = members[class].intersection(set);
            if inside != ByteSet::EMPTY && inside != members[class] {
                members[class] = members[class].intersection(&set.complement());
                members.push(inside);
            }
        }
    }
    members.sort_by(|one, other| {
        let bytes = || one.iter().next().cmp(&other.iter().next());
        probability(other)
            .total_cmp(&probability(one))
            .then_with(bytes)
    });
    members
}
