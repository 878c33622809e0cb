//! Costs of the parts of a pattern in a literal: their frequency in mail, and the number of states
//! that they add to the automaton.

use crate::byte_set::probability;
use crate::syntax::Node;

/// The most NFA positions of one literal.
pub(super) const LITERAL_POSITIONS_MAX: u32 = 512;
/// A repetition of more rounds or positions is a gap, of which only the first rounds are searched
/// for.
const REPEAT_POSITIONS_MAX: u32 = 160;
/// The most rounds of a repetition of one position.
pub(super) const ROUNDS_MAX: u32 = 16;
/// The most rounds of other repetitions.
const GROUP_ROUNDS_MAX: u32 = 4;

/// The cost of a node in a literal.
#[derive(Debug, Clone, Copy)]
pub(super) struct LiteralCost {
    /// The probability that the node matches at an offset of mail.
    pub(super) probability: f32,
    /// The NFA positions of the node.
    pub(super) positions: u32,
    /// The number of these positions that are active on average.
    pub(super) active: f32,
}

impl LiteralCost {
    pub(super) const NOTHING: Self = Self {
        probability: 1.0,
        positions: 0,
        active: 0.0,
    };

    pub(super) fn then(self, next: Self) -> Self {
        Self {
            probability: self.probability * next.probability,
            positions: self.positions.saturating_add(next.positions),
            active: self.active + self.probability * next.active,
        }
    }
}

/// The cost of a node; `None` if it cannot be part of a literal.
pub(super) fn cost_of(node: &Node, loop_probability_max: f32) -> Option<LiteralCost> {
    Some(match node {
        Node::Empty | Node::Assertion(_) | Node::Look { .. } => LiteralCost::NOTHING,
        Node::Byte(set) => {
            let probability = probability(set);
            LiteralCost {
                probability,
                positions: 1,
                active: probability,
            }
        }
        Node::Concat(parts) => parts.iter().try_fold(LiteralCost::NOTHING, |all, part| {
            Some(all.then(cost_of(part, loop_probability_max)?))
        })?,
        Node::Alternate(branches) | Node::BranchReset(branches) => {
            let mut all = LiteralCost {
                probability: 0.0,
                ..LiteralCost::NOTHING
            };
            for branch in branches {
                let cost = cost_of(branch, loop_probability_max)?;
                all.probability += cost.probability;
                all.positions = all.positions.saturating_add(cost.positions);
                // Branches that are words are rarely active for long at the same time.
                all.active = all.active.max(cost.active);
            }
            all.probability = all.probability.min(1.0);
            all
        }
        Node::Repeat {
            inner, min, max, ..
        } => cost_of_repeat(inner, (*min, *max), loop_probability_max)?,
        Node::Capture { inner, .. } | Node::Atomic(inner) => cost_of(inner, loop_probability_max)?,
        Node::BackReference { .. }
        | Node::Recurse(_)
        | Node::Conditional { .. }
        | Node::Opaque(_) => return None,
    })
    .filter(|cost| cost.positions <= LITERAL_POSITIONS_MAX)
}

fn cost_of_repeat(
    inner: &Node,
    (min, max): (u32, Option<u32>),
    loop_probability_max: f32,
) -> Option<LiteralCost> {
    let once = cost_of(inner, loop_probability_max)?;
    let is_loop = max.is_none();
    if is_loop && !(matches!(inner, Node::Byte(_)) && once.probability <= loop_probability_max) {
        return None;
    }
    let rounds = max.unwrap_or(min + 1);
    let rounds_max = if once.positions == 1 {
        ROUNDS_MAX
    } else {
        GROUP_ROUNDS_MAX
    };
    let positions = once.positions.saturating_mul(rounds);
    if rounds > rounds_max || positions > REPEAT_POSITIONS_MAX.max(once.positions) {
        return None;
    }
    // Each round from `min` on may be the last.
    let (mut all, mut ends) = (LiteralCost::NOTHING, 0.0);
    for round in 0..rounds {
        if round >= min {
            ends += all.probability;
        }
        all = all.then(once);
    }
    let last = if is_loop {
        all.probability / (1.0 - once.probability)
    } else {
        all.probability
    };
    all.probability = (ends + last).min(1.0);
    Some(all)
}
