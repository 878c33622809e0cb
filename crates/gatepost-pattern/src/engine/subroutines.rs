//! Common subexpressions of a large pattern as PCRE2 subroutines.
//!
//! A compiled pattern of PCRE2 is limited to 64 KiB, and a repeated or copied part is compiled each
//! time; SpamAssassin's `replace_tag` copies the same thirty spellings of a letter hundreds of
//! times. If a pattern is refused as too large, such parts become named groups, which are called
//! wherever they occur. A call backtracks into its part as the part itself would, so the meaning
//! stays the same. A part that captures, or refers to a capture, is never a subroutine, since a
//! call discards its captures.

use hashbrown::HashMap;
use smallvec::{SmallVec, smallvec};

use crate::syntax::{Greediness, Node};

/// A call takes about as much room as this many positions of letters.
const POSITIONS_MIN: usize = 3;

/// The subroutines of a pattern, known by their numbers.
#[derive(Debug, Default)]
pub(super) struct Subroutines<'n> {
    parts: Vec<&'n Node>,
    /// By node: the number of its subroutine.
    numbers: HashMap<*const Node, usize>,
}

impl<'n> Subroutines<'n> {
    /// Finds the parts that occur in the pattern more than once.
    pub(super) fn of(tree: &'n Node) -> Self {
        let mut subtrees = Subtrees::default();
        subtrees.number(tree);
        subtrees.count(tree, false);
        let mut parts = Vec::new();
        let mut number_of = vec![None; subtrees.all.len()];
        for (subtree, number) in subtrees.all.iter().zip(&mut number_of) {
            if subtree.times > 1 {
                *number = Some(parts.len());
                parts.push(subtree.node);
            }
        }
        let numbers = subtrees.nodes.into_iter();
        let numbers = numbers.filter_map(|(node, index)| Some((node, number_of[index]?)));
        Self {
            parts,
            numbers: numbers.collect(),
        }
    }

    /// All parts, in the order of their numbers.
    pub(super) fn parts(&self) -> &[&'n Node] {
        &self.parts
    }

    /// The number of a node's subroutine, if it has one.
    pub(super) fn number(&self, node: &Node) -> Option<usize> {
        self.numbers.get(&std::ptr::from_ref(node)).copied()
    }
}

/// The subtrees of a pattern that could become subroutines, each distinct one once.
#[derive(Default)]
struct Subtrees<'n> {
    all: Vec<Subtree<'n>>,
    by_key: HashMap<SubtreeKey<'n>, usize>,
    /// By node: the index of its subtree, where it is large enough to be called.
    nodes: HashMap<*const Node, usize>,
}

struct Subtree<'n> {
    /// The first occurrence.
    node: &'n Node,
    positions: usize,
    times: u32,
}

/// The criterion for equal subtrees: the kind of the root, and the indices of its children's
/// subtrees. So each node is hashed once.
#[derive(PartialEq, Eq, Hash)]
struct SubtreeKey<'n> {
    root: NodeKind<'n>,
    children: SmallVec<[usize; 4]>,
}

#[derive(PartialEq, Eq, Hash)]
enum NodeKind<'n> {
    Leaf(&'n Node),
    Concat,
    Alternate,
    Repeat(u32, Option<u32>, Greediness),
    Look { behind: bool, negated: bool },
    Atomic,
}

impl<'n> NodeKind<'n> {
    /// `None` for a node that captures or refers to a capture.
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
            | Node::Opaque(_)
            | Node::Conditional { .. }
            | Node::BranchReset(_) => return None,
        })
    }
}

impl<'n> Subtrees<'n> {
    /// The index of a node's subtree, if it can be a subroutine; adds all its descendants.
    fn number(&mut self, node: &'n Node) -> Option<usize> {
        let mut indices = SmallVec::<[usize; 4]>::new();
        let mut all_can = true;
        for (child, _) in children(node) {
            match self.number(child) {
                Some(index) => indices.push(index),
                None => all_can = false,
            }
        }
        let root = NodeKind::of(node).filter(|_| all_can)?;
        let positions = if let Node::Byte(_) = node {
            1
        } else {
            let parts = indices.iter();
            parts.map(|&index| self.all[index].positions).sum()
        };
        let key = SubtreeKey {
            root,
            children: indices,
        };
        let index = *self.by_key.entry(key).or_insert_with(|| {
            self.all.push(Subtree {
                node,
                positions,
                times: 0,
            });
            self.all.len() - 1
        });
        if matches!(node, Node::Alternate(_) | Node::Concat(_)) && positions >= POSITIONS_MIN {
            self.nodes.insert(std::ptr::from_ref(node), index);
        }
        Some(index)
    }

    /// Counts the occurrences that a call could replace; `often` if PCRE2 compiles the node
    /// repeatedly.
    fn count(&mut self, node: &Node, often: bool) {
        let index = self.nodes.get(&std::ptr::from_ref(node));
        if let Some(&index) = index
            && is_group(node, often)
        {
            let times = &mut self.all[index].times;
            *times += if often { 2 } else { 1 };
            if *times > 2 {
                return;
            }
        }
        for (child, often) in children(node) {
            self.count(child, often);
        }
    }
}

/// Whether the node is printed as a group anyway.
fn is_group(node: &Node, often: bool) -> bool {
    matches!(node, Node::Alternate(_)) || (often && matches!(node, Node::Concat(_)))
}

/// The children of a node, and whether PCRE2 compiles each repeatedly.
fn children(node: &Node) -> SmallVec<[(&Node, bool); 8]> {
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
