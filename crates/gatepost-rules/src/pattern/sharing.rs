//! Parts that a pattern holds more than once, printed once.
//!
//! PCRE2 has room for 64 KiB in a compiled pattern, and it writes a repeated or a pasted part out
//! each time; `replace_tag` pastes the same thirty spellings of a letter hundreds of times. Where
//! a pattern is refused as too large, such parts become named groups that are called wherever they
//! stand. A call may be tried in all the ways the part may, so the meaning stays the same; a part
//! that notes a capture or asks for one is never shared, since a call forgets what it captured.

use hashbrown::HashMap;
use smallvec::{SmallVec, smallvec};

use super::node::{Greed, Node};

/// Calling a part takes about as much room as matching so many positions of letters.
const POSITIONS_MIN: usize = 3;

/// The parts to share; each is called by its number.
#[derive(Debug, Default)]
pub(super) struct Shared<'n> {
    parts: Vec<&'n Node>,
    /// The number of the part that stands at a place of the tree.
    numbers: HashMap<*const Node, usize>,
}

impl<'n> Shared<'n> {
    /// Finds what stands in the pattern more than once.
    pub(super) fn of(tree: &'n Node) -> Self {
        let mut kinds = Kinds::default();
        kinds.number(tree);
        kinds.count(tree, false);
        let mut parts = Vec::new();
        let mut number_of = vec![None; kinds.all.len()];
        for (kind, number) in kinds.all.iter().zip(&mut number_of) {
            if kind.times > 1 {
                *number = Some(parts.len());
                parts.push(kind.node);
            }
        }
        let numbers = kinds.places.into_iter();
        let numbers = numbers.filter_map(|(place, kind)| Some((place, number_of[kind]?)));
        Self {
            parts,
            numbers: numbers.collect(),
        }
    }

    /// All parts, in the order of their numbers.
    pub(super) fn parts(&self) -> &[&'n Node] {
        &self.parts
    }

    /// The number of the part that stands here, if it is shared.
    pub(super) fn number(&self, node: &Node) -> Option<usize> {
        self.numbers.get(&std::ptr::from_ref(node)).copied()
    }
}

/// The parts of a tree that could be shared, those that are equal as one kind.
#[derive(Default)]
struct Kinds<'n> {
    all: Vec<Kind<'n>>,
    by_shape: HashMap<Shape<'n>, usize>,
    /// The kind of what stands at a place of the tree, where that is a part of the kind to be called.
    places: HashMap<*const Node, usize>,
}

struct Kind<'n> {
    /// The first of them.
    node: &'n Node,
    positions: usize,
    times: u32,
}

/// What makes a kind: a node, and the kinds of the parts right below. So no part is looked at again for
/// each one that it is in.
#[derive(PartialEq, Eq, Hash)]
struct Shape<'n> {
    own: Own<'n>,
    parts: SmallVec<[usize; 4]>,
}

#[derive(PartialEq, Eq, Hash)]
enum Own<'n> {
    Leaf(&'n Node),
    Concat,
    Alternate,
    Repeat(u32, Option<u32>, Greed),
    Look { behind: bool, negated: bool },
    Atomic,
}

impl<'n> Own<'n> {
    /// `None` for what notes a capture or asks for one.
    fn of(node: &'n Node) -> Option<Self> {
        Some(match node {
            Node::Empty | Node::Byte(_) | Node::Assertion(_) => Self::Leaf(node),
            Node::Concat(_) => Self::Concat,
            Node::Alternate(_) => Self::Alternate,
            Node::Repeat {
                min, max, greed, ..
            } => Self::Repeat(*min, *max, *greed),
            Node::Look {
                behind, negated, ..
            } => Self::Look {
                behind: *behind,
                negated: *negated,
            },
            Node::Atomic(_) => Self::Atomic,
            Node::Capture { .. }
            | Node::BackReference { .. }
            | Node::Recurse(_)
            | Node::Conditional { .. }
            | Node::BranchReset(_) => return None,
        })
    }
}

impl<'n> Kinds<'n> {
    /// The kind of a node, if it can be shared; notes the kinds of all its parts.
    fn number(&mut self, node: &'n Node) -> Option<usize> {
        let mut kinds = SmallVec::<[usize; 4]>::new();
        let mut all_can = true;
        for (part, _) in parts(node) {
            match self.number(part) {
                Some(kind) => kinds.push(kind),
                None => all_can = false,
            }
        }
        let own = Own::of(node).filter(|_| all_can)?;
        let positions = match node {
            Node::Byte(_) => 1,
            _ => kinds.iter().map(|&kind| self.all[kind].positions).sum(),
        };
        let shape = Shape { own, parts: kinds };
        let kind = *self.by_shape.entry(shape).or_insert_with(|| {
            self.all.push(Kind {
                node,
                positions,
                times: 0,
            });
            self.all.len() - 1
        });
        if matches!(node, Node::Alternate(_) | Node::Concat(_)) && positions >= POSITIONS_MIN {
            self.places.insert(std::ptr::from_ref(node), kind);
        }
        Some(kind)
    }

    /// Counts the parts that a group could stand for; `often` if PCRE2 writes the part out repeatedly.
    fn count(&mut self, node: &Node, often: bool) {
        let kind = self.places.get(&std::ptr::from_ref(node));
        if let Some(&kind) = kind
            && is_group(node, often)
        {
            let times = &mut self.all[kind].times;
            *times += if often { 2 } else { 1 };
            if *times > 2 {
                return;
            }
        }
        for (part, often) in parts(node) {
            self.count(part, often);
        }
    }
}

/// Whether the part is printed in brackets anyway.
fn is_group(node: &Node, often: bool) -> bool {
    matches!(node, Node::Alternate(_)) || (often && matches!(node, Node::Concat(_)))
}

/// The parts right below, and whether PCRE2 writes each out repeatedly.
fn parts(node: &Node) -> SmallVec<[(&Node, bool); 8]> {
    match node {
        Node::Concat(parts) | Node::Alternate(parts) | Node::BranchReset(parts) => {
            parts.iter().map(|part| (part, false)).collect()
        }
        Node::Repeat {
            inner, min, max, ..
        } => smallvec![(&**inner, max.unwrap_or(*min) > 1)],
        Node::Capture { inner, .. } | Node::Look { inner, .. } | Node::Atomic(inner) => {
            smallvec![(&**inner, false)]
        }
        Node::Conditional { yes, no, .. } => smallvec![(&**yes, false), (&**no, false)],
        _ => SmallVec::new(),
    }
}
