//! Selects the required literals of a pattern.
//!
//! A *required literal* is a part of a pattern that every match contains; if the pattern has
//! alternatives, a *literal set* contains one literal for each of them. Of all literal sets of a
//! pattern the one that is rarest in mail and cheapest to search for is selected.

use std::cell::Cell;

use super::concat::{ConcatPart, ConcatParts, LengthRange};
use super::cost::{LITERAL_POSITIONS_MAX, LiteralCost};
use super::sample::SampleMatches;
use crate::automaton::{LiteralInfo, Window};
use crate::syntax::{Assertion, Node};

/// The maximum number of NFA positions of all literals of one pattern.
const PATTERN_POSITIONS_MAX: u32 = 2_500;
/// The cost of a position of a literal, in bits, since each position enlarges the NFA.
const POSITION_COST: f32 = 0.005;
/// Nested alternations beyond which no literal set is searched for inside.
const NESTING_MAX: u32 = 24;
/// More bits do not make a literal more useful. If the literals of a pattern have too many
/// positions, shorter ones are selected with a lower limit.
const BITS_MAX: [f32; 3] = [40.0, 24.0, 16.0];
/// The value of an anchor at the start of a text: one offset in 2^`START_BITS` is a start.
const START_BITS: f32 = 6.0;
/// A literal with more active positions than this on average costs more than it saves: a search
/// replaces each of them at each byte.
const ACTIVE_MAX: f32 = 0.9;

/// A part of a pattern that every match contains, or one alternative of such a part.
#[derive(Debug, Clone)]
pub(super) struct RequiredLiteral<'n> {
    /// The nodes of the literal, concatenated.
    pub(super) parts: Vec<&'n Node>,
    /// The literal occurs at the start of a text only.
    pub(super) is_anchored: bool,
    /// The start of a match that contains the literal; `None` if the distance is unbounded.
    pub(super) window: Option<Window>,
    /// The minimum number of occurrences of the literals in a match.
    pub(super) rounds: u32,
    /// The number of its NFA positions that are active on average.
    pub(super) active: f32,
}

impl RequiredLiteral<'_> {
    /// The data that a search reports for the literal of a pattern.
    pub(super) fn info(&self, pattern: u32) -> LiteralInfo {
        LiteralInfo {
            pattern,
            window: self.window,
            rounds: self.rounds,
        }
    }
}

/// Literals of which each match of `node` contains one; `None` if no literal set is useful, that
/// is, rarer than one occurrence in 2^`bits_min` bytes.
///
/// A loop over a set whose probability exceeds `loop_probability_max` is a gap. After a rare word
/// such a loop is selective, but it stays active for long.
pub(super) fn required_literals(
    node: &Node,
    bits_min: f32,
    loop_probability_max: f32,
) -> Option<Vec<RequiredLiteral<'_>>> {
    let skips = !node.refers_to_groups();
    let is_useful = |set: &LiteralSet<'_>| set.bits >= bits_min && set.active <= ACTIVE_MAX;
    // A repeated pattern is found by one of its rounds.
    let (round, rounds) = match node {
        Node::Repeat { inner, min, .. } if skips && *min > 1 => (&**inner, *min),
        node => (node, 1),
    };
    for bits_max in BITS_MAX {
        let selector = Selector {
            bits_max,
            loop_probability_max,
            has_too_many: Cell::new(false),
        };
        // Without the optional front of its first round a match has as many rounds.
        let set = selector
            .best(round, LengthRange::ZERO, skips, 0)
            .filter(is_useful);
        if set.is_some() || !selector.has_too_many.get() {
            let mut literals = set?.literals;
            for literal in &mut literals {
                literal.rounds = rounds;
            }
            return Some(literals);
        }
    }
    None
}

/// Literals of which each match contains one, and their value.
#[derive(Debug)]
struct LiteralSet<'n> {
    literals: Vec<RequiredLiteral<'n>>,
    /// The rarity of an occurrence of any of the literals: one in 2^`bits` bytes.
    bits: f32,
    positions: u32,
    /// The number of positions that are active on average.
    active: f32,
}

/// Compares literal sets.
#[derive(Debug)]
struct Selector {
    bits_max: f32,
    loop_probability_max: f32,
    /// A literal set was rejected because its literals have too many positions.
    has_too_many: Cell<bool>,
}

impl Selector {
    fn value(&self, set: &LiteralSet<'_>) -> f32 {
        let active = (set.active - 0.25).max(0.0);
        set.bits.min(self.bits_max) - set.positions as f32 * POSITION_COST - active * 8.0
    }

    fn better<'n>(
        &self,
        one: Option<LiteralSet<'n>>,
        other: Option<LiteralSet<'n>>,
    ) -> Option<LiteralSet<'n>> {
        match (one, other) {
            (Some(one), Some(other)) => Some(if self.value(&other) > self.value(&one) {
                other
            } else {
                one
            }),
            (one, other) => one.or(other),
        }
    }

    /// The best literal set of a node that starts `before` bytes after the start of the match.
    /// `skips`: whether optional parts at its front are ignored, see [`ConcatParts`].
    fn best<'n>(
        &self,
        node: &'n Node,
        before: LengthRange,
        skips: bool,
        nesting: u32,
    ) -> Option<LiteralSet<'n>> {
        let parts = ConcatParts::of(node, skips, self.loop_probability_max);
        let is_anchored = starts_anchored(node);
        let mut best = None;
        let mut before = before;
        let mut skips = skips;
        for (first, part) in parts.iter().enumerate() {
            let rest = parts.get(first..).unwrap_or_default();
            let anchor = is_anchored && first == 0;
            let literal = self.best_literal(rest, before, anchor, best.as_ref());
            best = self.better(best, literal);
            if let Node::Alternate(branches) | Node::BranchReset(branches) = part.node
                && nesting < NESTING_MAX
            {
                let skips = skips && part.is_first;
                let set = self.best_of_branches(branches, before, skips, nesting + 1);
                best = self.better(best, set);
            }
            if !part.is_skipped {
                before = before.plus(part.length);
                skips = false;
            }
        }
        best
    }

    /// The best literal that begins with the first of these parts, if it is better than `known`.
    fn best_literal<'n>(
        &self,
        parts: &[ConcatPart<'n>],
        before: LengthRange,
        is_anchored: bool,
        known: Option<&LiteralSet<'n>>,
    ) -> Option<LiteralSet<'n>> {
        // The sample can only lower the value of a literal, and is slower to ask.
        let by_frequency = self.best_prefix(parts, before, is_anchored, None)?;
        if known.is_some_and(|known| self.value(known) >= self.value(&by_frequency.1)) {
            return None;
        }
        let everywhere = Some(SampleMatches::EVERYWHERE);
        let (count, set, length) = self.best_prefix(parts, before, is_anchored, everywhere)?;
        let parts = parts.iter().take(count).map(|part| part.node).collect();
        let literal = RequiredLiteral {
            parts,
            is_anchored,
            window: length.window(),
            rounds: 1,
            active: set.active,
        };
        Some(LiteralSet {
            literals: vec![literal],
            ..set
        })
    }

    /// The number of the first parts that make the best literal, its value as a set without
    /// literals, and its end. Its rarity is estimated by the sample and by the frequency of bytes,
    /// or by the latter alone.
    fn best_prefix<'n>(
        &self,
        parts: &[ConcatPart<'n>],
        before: LengthRange,
        is_anchored: bool,
        mut sample: Option<SampleMatches>,
    ) -> Option<(usize, LiteralSet<'n>, LengthRange)> {
        let mut literal = LiteralCost::NOTHING;
        let mut length = before;
        let mut found: Option<(usize, LiteralSet<'n>, LengthRange)> = None;
        for (count, part) in (1..).zip(parts) {
            let Some(cost) = part.cost else { break };
            literal = literal.then(cost);
            length = length.plus(part.length);
            if literal.positions > LITERAL_POSITIONS_MAX {
                break;
            }
            sample = sample.map(|matches| matches.after(part.node));
            // A literal that may be empty occurs everywhere.
            if length.min == before.min {
                continue;
            }
            let in_sample = sample.as_ref().map_or(0.0, SampleMatches::probability);
            let probability = literal.probability.max(in_sample).max(f32::MIN_POSITIVE);
            let set = LiteralSet {
                literals: Vec::new(),
                bits: -probability.log2() + if is_anchored { START_BITS } else { 0.0 },
                positions: literal.positions,
                active: literal.active,
            };
            let is_better = |(_, best, _): &(usize, LiteralSet<'n>, LengthRange)| {
                self.value(&set) > self.value(best)
            };
            if found.as_ref().is_none_or(is_better) {
                found = Some((count, set, length));
            }
        }
        found
    }

    /// The union of the best literal sets of all branches.
    fn best_of_branches<'n>(
        &self,
        branches: &'n [Node],
        before: LengthRange,
        skips: bool,
        nesting: u32,
    ) -> Option<LiteralSet<'n>> {
        let mut all = LiteralSet {
            literals: Vec::new(),
            bits: 0.0,
            positions: 0,
            active: 0.0,
        };
        let mut probability = 0.0;
        for branch in branches {
            let set = self.best(branch, before, skips, nesting)?;
            all.literals.extend(set.literals);
            all.positions += set.positions;
            all.active = all.active.max(set.active);
            probability += (-set.bits).exp2();
            if all.positions > PATTERN_POSITIONS_MAX {
                self.has_too_many.set(true);
                return None;
            }
        }
        all.bits = -probability.max(f32::MIN_POSITIVE).log2();
        Some(all)
    }
}

/// Whether a node matches at the start of a text only.
fn starts_anchored(node: &Node) -> bool {
    match node {
        Node::Assertion(Assertion::TextStart) => true,
        Node::Capture { inner, .. } | Node::Atomic(inner) => starts_anchored(inner),
        Node::Concat(parts) => {
            let first = parts.iter().find(|part| {
                starts_anchored(part) || !matches!(part, Node::Look { .. } | Node::Assertion(_))
            });
            first.is_some_and(starts_anchored)
        }
        Node::Alternate(branches) => branches.iter().all(starts_anchored),
        _ => false,
    }
}
