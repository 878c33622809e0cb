//! A pattern as a flat concatenation of the parts over which a required literal can extend.

use super::cost::{LiteralCost, ROUNDS_MAX, cost_of};
use crate::automaton::Window;
use crate::syntax::{Greediness, Node};

/// The maximum number of parts; the rest of a pattern is ignored.
const CONCAT_PARTS_MAX: usize = 4096;

/// The minimum and maximum number of bytes that a node matches.
#[derive(Debug, Clone, Copy)]
pub(super) struct LengthRange {
    pub(super) min: usize,
    /// `None` if unbounded.
    pub(super) max: Option<usize>,
}

impl LengthRange {
    pub(super) const ZERO: Self = Self {
        min: 0,
        max: Some(0),
    };

    pub(super) fn of(node: &Node) -> Self {
        Self {
            min: node.min_len(),
            max: node.max_len(),
        }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_add(other.min),
            max: self.max.zip(other.max).and_then(|(a, b)| a.checked_add(b)),
        }
    }

    pub(super) fn window(self) -> Option<Window> {
        Some(Window {
            min: u32::try_from(self.min).ok()?,
            max: u32::try_from(self.max?).ok()?,
        })
    }
}

/// A part of a concatenation.
pub(super) struct ConcatPart<'n> {
    pub(super) node: &'n Node,
    pub(super) length: LengthRange,
    /// The cost of the part in a literal; `None` for a gap, over which no literal extends.
    pub(super) cost: Option<LiteralCost>,
    /// A match that begins with this part contains a match that begins after it.
    pub(super) is_skipped: bool,
    /// Only skipped parts precede this one, and no assertion does.
    pub(super) is_first: bool,
}

/// The parts of a node, down to nodes that are not concatenations.
///
/// A prefilter only needs to know whether `x?y` matches, so it may ignore `x?`: if `x?y` matches,
/// `y` alone matches a little later. This holds if no assertion precedes the optional part, and
/// nothing after it refers to it.
pub(super) struct ConcatParts<'n> {
    list: Vec<ConcatPart<'n>>,
    skips: bool,
    loop_probability_max: f32,
}

/// The parts of a node without their costs.
pub(super) fn concat_nodes(node: &Node) -> impl Iterator<Item = &Node> {
    ConcatParts::of(node, false, 0.0)
        .into_iter()
        .map(|part| part.node)
}

impl<'n> ConcatParts<'n> {
    /// `skips`: whether optional parts at the front are ignored.
    pub(super) fn of(
        node: &'n Node,
        skips: bool,
        loop_probability_max: f32,
    ) -> Vec<ConcatPart<'n>> {
        let mut parts = Self {
            list: Vec::new(),
            skips,
            loop_probability_max,
        };
        parts.add(node);
        parts.list
    }

    fn add(&mut self, node: &'n Node) {
        match node {
            Node::Empty => {}
            Node::Assertion(_) | Node::Look { .. } => self.skips = false,
            Node::Concat(parts) => parts.iter().for_each(|part| self.add(part)),
            Node::Capture { inner, .. } => self.add(inner),
            Node::Atomic(inner) => {
                self.skips = false;
                self.add(inner);
            }
            Node::Repeat {
                inner,
                min,
                max,
                greed,
            } if cost_of(node, self.loop_probability_max).is_none()
                && *min > 0
                && self.list.len() < CONCAT_PARTS_MAX =>
            {
                self.skips &= *greed != Greediness::Possessive;
                let rounds = (*min).min(ROUNDS_MAX);
                (0..rounds).for_each(|_| self.add(inner));
                let once = LengthRange::of(inner);
                let left =
                    |count: u32, length: usize| length.saturating_mul((count - rounds) as usize);
                let length = LengthRange {
                    min: left(*min, once.min),
                    max: once.max.zip(*max).map(|(length, max)| left(max, length)),
                };
                self.push(node, length, None);
            }
            _ => {
                let cost = cost_of(node, self.loop_probability_max);
                self.push(node, LengthRange::of(node), cost);
            }
        }
    }

    fn push(&mut self, node: &'n Node, length: LengthRange, cost: Option<LiteralCost>) {
        let is_first = self.skips;
        let is_optional = matches!(
            node,
            Node::Repeat { min: 0, greed, .. } if *greed != Greediness::Possessive
        );
        self.skips &= is_optional;
        self.list.push(ConcatPart {
            node,
            length,
            cost,
            is_skipped: is_first && is_optional,
            is_first,
        });
    }
}
