//! What parts of a pattern are worth in a fragment: how often they are met, and what looking for them
//! costs.

use super::frequency::chance;
use crate::pattern::Node;

/// Positions of one fragment beyond which it is not made longer.
pub(super) const FRAGMENT_POSITIONS_MAX: u32 = 512;
/// A repetition of more rounds or positions is a gap, of which only the first rounds are looked for.
const REPEAT_POSITIONS_MAX: u32 = 160;
/// Rounds of a repetition that are looked for.
pub(super) const ROUNDS_MAX: u32 = 16;
/// A repetition of one position may have more rounds than others.
const GROUP_ROUNDS_MAX: u32 = 4;

/// What a node does to a fragment of which it is a part.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weight {
    pub(super) chance: f32,
    pub(super) positions: u32,
    pub(super) busy: f32,
}

impl Weight {
    pub(super) const NOTHING: Self = Self {
        chance: 1.0,
        positions: 0,
        busy: 0.0,
    };

    pub(super) fn then(self, next: Self) -> Self {
        Self {
            chance: self.chance * next.chance,
            positions: self.positions.saturating_add(next.positions),
            busy: self.busy + self.chance * next.busy,
        }
    }
}

/// The weight of a node; `None` if it cannot be part of a fragment.
pub(super) fn weigh(node: &Node, loop_chance_max: f32) -> Option<Weight> {
    Some(match node {
        Node::Empty | Node::Assertion(_) | Node::Look { .. } => Weight::NOTHING,
        Node::Byte(set) => {
            let chance = chance(set);
            Weight {
                chance,
                positions: 1,
                busy: chance,
            }
        }
        Node::Concat(parts) => parts.iter().try_fold(Weight::NOTHING, |all, part| {
            Some(all.then(weigh(part, loop_chance_max)?))
        })?,
        Node::Alternate(branches) | Node::BranchReset(branches) => {
            let mut all = Weight {
                chance: 0.0,
                ..Weight::NOTHING
            };
            for branch in branches {
                let weight = weigh(branch, loop_chance_max)?;
                all.chance += weight.chance;
                all.positions = all.positions.saturating_add(weight.positions);
                // Branches that are words seldom go on for long at the same time.
                all.busy = all.busy.max(weight.busy);
            }
            all.chance = all.chance.min(1.0);
            all
        }
        Node::Repeat {
            inner, min, max, ..
        } => weigh_repeat(inner, (*min, *max), loop_chance_max)?,
        Node::Capture { inner, .. } | Node::Atomic(inner) => weigh(inner, loop_chance_max)?,
        Node::BackReference { .. } | Node::Recurse(_) | Node::Conditional { .. } => return None,
    })
    .filter(|weight| weight.positions <= FRAGMENT_POSITIONS_MAX)
}

fn weigh_repeat(
    inner: &Node,
    (min, max): (u32, Option<u32>),
    loop_chance_max: f32,
) -> Option<Weight> {
    let once = weigh(inner, loop_chance_max)?;
    let is_loop = max.is_none();
    if is_loop && !(matches!(inner, Node::Byte(_)) && once.chance <= loop_chance_max) {
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
    // Of the rounds from `min` on each may be the last.
    let (mut all, mut ends) = (Weight::NOTHING, 0.0);
    for round in 0..rounds {
        if round >= min {
            ends += all.chance;
        }
        all = all.then(once);
    }
    let last = if is_loop {
        all.chance / (1.0 - once.chance)
    } else {
        all.chance
    };
    all.chance = (ends + last).min(1.0);
    Some(all)
}
