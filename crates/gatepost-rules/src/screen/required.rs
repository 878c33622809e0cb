//! Chooses the fragments of a pattern that a screen looks for.

use std::cell::Cell;

use super::sample::Ends;
use super::weight::{FRAGMENT_POSITIONS_MAX, ROUNDS_MAX, Weight, weigh};
use crate::pattern::{Assertion, ByteSet, Greed, Node};

/// Positions that all fragments of one pattern may have.
const PATTERN_POSITIONS_MAX: u32 = 2_500;
/// What a position of a fragment costs, in bits: the automaton grows by it.
const POSITION_COST: f32 = 0.005;
/// Parts of a pattern beyond which the rest is not looked at.
const PIECES_MAX: usize = 4096;
/// Alternations within alternations beyond which none is taken apart.
const NESTING_MAX: u32 = 24;
/// More bits say nothing new. Where the fragments of a pattern have too many positions, shorter ones
/// are chosen, which say less.
const BITS_MAX: [f32; 3] = [40.0, 24.0, 16.0];
/// What the start of a text is worth: it comes once in so many bytes, as a power of 2.
const START_BITS: f32 = 6.0;
/// More positions than this that are busy on average multiply the states of the automaton.
const BUSY_MAX: f32 = 0.9;
/// How far before the end of a fragment a match begins, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) min: u32,
    pub(crate) max: u32,
}

/// A part of a pattern that is looked for.
#[derive(Debug, Clone)]
pub(crate) struct Fragment<'n> {
    /// One after the other.
    pub(crate) parts: Vec<&'n Node>,
    /// It stands only at the start of a text.
    pub(crate) is_anchored: bool,
    /// `None` if the distance has no bound.
    pub(crate) window: Option<Window>,
    /// How many of the fragments each match holds at least, one after the other.
    pub(crate) rounds: u32,
    /// How many of its positions are busy on average.
    pub(crate) busy: f32,
}

/// Fragments of which each match of `node` contains one; `None` if there are none of use: none that
/// are met less often than once in 2 to the power of `bits_min` bytes.
///
/// A loop over a set of which bytes are met more often than `loop_chance_max` is a gap. Behind a rare word it
/// says much, but it goes on for long, and multiplies the states of what is looked for beside it.
pub(crate) fn required(
    node: &Node,
    bits_min: f32,
    loop_chance_max: f32,
) -> Option<Vec<Fragment<'_>>> {
    let skips = !node.refers_to_groups();
    let of_use = |choice: &Choice<'_>| choice.bits >= bits_min && choice.busy <= BUSY_MAX;
    // A pattern of rounds is screened by one of them.
    let (round, rounds) = match node {
        Node::Repeat { inner, min, .. } if skips && *min > 1 => (&**inner, *min),
        node => (node, 1),
    };
    for bits_max in BITS_MAX {
        let chooser = Chooser {
            bits_max,
            loop_chance_max,
            has_too_many: Cell::new(false),
        };
        // What is left out of the front of the first round leaves a match of as many rounds.
        let choice = chooser.best(round, Length::ZERO, skips, 0).filter(of_use);
        if choice.is_some() || !chooser.has_too_many.get() {
            let mut fragments = choice?.fragments;
            for fragment in &mut fragments {
                fragment.rounds = rounds;
            }
            return Some(fragments);
        }
    }
    None
}

/// The least and most bytes that something matches.
#[derive(Debug, Clone, Copy)]
struct Length {
    min: usize,
    max: Option<usize>,
}

impl Length {
    const ZERO: Self = Self {
        min: 0,
        max: Some(0),
    };

    fn of(node: &Node) -> Self {
        Self {
            min: node.min_len(),
            max: node.max_len(),
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_add(other.min),
            max: self.max.zip(other.max).and_then(|(a, b)| a.checked_add(b)),
        }
    }

    fn window(self) -> Option<Window> {
        Some(Window {
            min: u32::try_from(self.min).ok()?,
            max: u32::try_from(self.max?).ok()?,
        })
    }
}

/// A possible choice.
#[derive(Debug)]
struct Choice<'n> {
    fragments: Vec<Fragment<'n>>,
    /// How seldom one of the fragments is met, as a power of 2.
    bits: f32,
    positions: u32,
    /// How many positions are busy on average.
    busy: f32,
}

/// How choices are compared.
#[derive(Debug)]
struct Chooser {
    bits_max: f32,
    loop_chance_max: f32,
    /// Something was left out because all its fragments have too many positions.
    has_too_many: Cell<bool>,
}

/// A part of a concatenation.
struct Piece<'n> {
    node: &'n Node,
    length: Length,
    /// What a fragment that goes through it gets; `None` for a gap.
    weight: Option<Weight>,
    /// A match that begins with it holds a match that begins behind it.
    is_skipped: bool,
    /// Nothing but skipped parts stands before it, no assertion either.
    is_first: bool,
}

impl Chooser {
    fn value(&self, choice: &Choice<'_>) -> f32 {
        let busy = (choice.busy - 0.25).max(0.0);
        choice.bits.min(self.bits_max) - choice.positions as f32 * POSITION_COST - busy * 8.0
    }

    fn better<'n>(&self, one: Option<Choice<'n>>, other: Option<Choice<'n>>) -> Option<Choice<'n>> {
        match (one, other) {
            (Some(one), Some(other)) => Some(if self.value(&other) > self.value(&one) {
                other
            } else {
                one
            }),
            (one, other) => one.or(other),
        }
    }

    /// The best choice of fragments of a node that stands `before` bytes after the start of the
    /// match. `skips`: whether optional parts at its front need not be matched, see [`Pieces`].
    fn best<'n>(
        &self,
        node: &'n Node,
        before: Length,
        skips: bool,
        nesting: u32,
    ) -> Option<Choice<'n>> {
        let pieces = Pieces::of(node, skips, self.loop_chance_max).list;
        let is_anchored = starts_anchored(node);
        let mut best_choice = None;
        let mut before = before;
        let mut skips = skips;
        for (first, piece) in pieces.iter().enumerate() {
            let rest = pieces.get(first..).unwrap_or_default();
            let anchor = is_anchored && first == 0;
            let row = self.best_row(rest, before, anchor, best_choice.as_ref());
            best_choice = self.better(best_choice, row);
            if let Node::Alternate(branches) | Node::BranchReset(branches) = piece.node
                && nesting < NESTING_MAX
            {
                let skips = skips && piece.is_first;
                let choice = self.best_of_each(branches, before, skips, nesting + 1);
                best_choice = self.better(best_choice, choice);
            }
            if !piece.is_skipped {
                before = before.plus(piece.length);
                skips = false;
            }
        }
        best_choice
    }

    /// The best fragment that begins with the first of these pieces, if it is better than `known`.
    fn best_row<'n>(
        &self,
        pieces: &[Piece<'n>],
        before: Length,
        is_anchored: bool,
        known: Option<&Choice<'n>>,
    ) -> Option<Choice<'n>> {
        // Trying a row on the page can only lower its value.
        let by_letters = self.longest_row(pieces, before, is_anchored, None)?;
        if known.is_some_and(|known| self.value(known) >= self.value(&by_letters.1)) {
            return None;
        }
        let everywhere = Some(Ends::EVERYWHERE);
        let (count, choice, length) = self.longest_row(pieces, before, is_anchored, everywhere)?;
        let parts = pieces.iter().take(count).map(|piece| piece.node).collect();
        let fragment = Fragment {
            parts,
            is_anchored,
            window: length.window(),
            rounds: 1,
            busy: choice.busy,
        };
        Some(Choice {
            fragments: vec![fragment],
            ..choice
        })
    }

    /// How many pieces make the best row, which as yet has no fragment, and where it ends; tried on
    /// the page, or by its letters alone.
    fn longest_row<'n>(
        &self,
        pieces: &[Piece<'n>],
        before: Length,
        is_anchored: bool,
        mut page: Option<Ends>,
    ) -> Option<(usize, Choice<'n>, Length)> {
        let mut row = Weight::NOTHING;
        let mut length = before;
        let mut found: Option<(usize, Choice<'n>, Length)> = None;
        for (count, piece) in (1..).zip(pieces) {
            let Some(weight) = piece.weight else { break };
            row = row.then(weight);
            length = length.plus(piece.length);
            if row.positions > FRAGMENT_POSITIONS_MAX {
                break;
            }
            page = page.map(|ends| ends.after(piece.node));
            // What may be empty is everywhere.
            if length.min == before.min {
                continue;
            }
            let seen = page.as_ref().map_or(0.0, Ends::chance);
            let chance = row.chance.max(seen).max(f32::MIN_POSITIVE);
            let choice = Choice {
                fragments: Vec::new(),
                bits: -chance.log2() + if is_anchored { START_BITS } else { 0.0 },
                positions: row.positions,
                busy: row.busy,
            };
            let is_better =
                |(_, best, _): &(usize, Choice<'n>, Length)| self.value(&choice) > self.value(best);
            if found.as_ref().is_none_or(is_better) {
                found = Some((count, choice, length));
            }
        }
        found
    }

    /// The best fragments of all branches together.
    fn best_of_each<'n>(
        &self,
        branches: &'n [Node],
        before: Length,
        skips: bool,
        nesting: u32,
    ) -> Option<Choice<'n>> {
        let mut all = Choice {
            fragments: Vec::new(),
            bits: 0.0,
            positions: 0,
            busy: 0.0,
        };
        let mut chance = 0.0;
        for branch in branches {
            let choice = self.best(branch, before, skips, nesting)?;
            all.fragments.extend(choice.fragments);
            all.positions += choice.positions;
            all.busy = all.busy.max(choice.busy);
            chance += (-choice.bits).exp2();
            if all.positions > PATTERN_POSITIONS_MAX {
                self.has_too_many.set(true);
                return None;
            }
        }
        all.bits = -chance.max(f32::MIN_POSITIVE).log2();
        Some(all)
    }
}

/// What stands one after the other in a node, as far as a fragment may go through it.
pub(super) fn in_turn(node: &Node) -> impl Iterator<Item = &Node> {
    Pieces::of(node, false, 0.0)
        .list
        .into_iter()
        .map(|piece| piece.node)
}

/// What stands one after the other in a node, down to what is no concatenation.
///
/// Who only asks whether `x?y` matches may leave out `x?`: where it matches, `y` alone matches a
/// little later. That needs that nothing before it looks around, and nothing after it refers to it.
struct Pieces<'n> {
    list: Vec<Piece<'n>>,
    skips: bool,
    loop_chance_max: f32,
}

impl<'n> Pieces<'n> {
    fn of(node: &'n Node, skips: bool, loop_chance_max: f32) -> Self {
        let mut pieces = Self {
            list: Vec::new(),
            skips,
            loop_chance_max,
        };
        pieces.add(node);
        pieces
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
            } if weigh(node, self.loop_chance_max).is_none()
                && *min > 0
                && self.list.len() < PIECES_MAX =>
            {
                self.skips &= *greed != Greed::Possessive;
                let rounds = (*min).min(ROUNDS_MAX);
                (0..rounds).for_each(|_| self.add(inner));
                let once = Length::of(inner);
                let left =
                    |count: u32, length: usize| length.saturating_mul((count - rounds) as usize);
                let length = Length {
                    min: left(*min, once.min),
                    max: once.max.zip(*max).map(|(length, max)| left(max, length)),
                };
                self.push(node, length, None);
            }
            _ => self.push(node, Length::of(node), weigh(node, self.loop_chance_max)),
        }
    }

    fn push(&mut self, node: &'n Node, length: Length, weight: Option<Weight>) {
        let is_first = self.skips;
        let is_optional = matches!(
            node,
            Node::Repeat { min: 0, greed, .. } if *greed != Greed::Possessive
        );
        self.skips &= is_optional;
        self.list.push(Piece {
            node,
            length,
            weight,
            is_skipped: is_first && is_optional,
            is_first,
        });
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

/// The sets that a node loops over are told from others by this.
pub(super) fn loop_set(inner: &Node, max: Option<u32>) -> Option<&ByteSet> {
    match (inner, max) {
        (Node::Byte(set), None) => Some(set),
        _ => None,
    }
}
