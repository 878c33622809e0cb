//! The symbol of each byte.
//!
//! Bytes that are in the same sets form a class. Patterns for mail have over a hundred classes, so
//! classes are merged until each has a symbol. A set that contains a part of a symbol is treated
//! as if it contained all of it, which makes positions active without a reason: those two classes
//! are merged for which that will happen least often.

use super::symbol_set::{NO_BYTE, SYMBOLS, Symbol, SymbolSet};
use crate::automaton::nfa::{ANCHORED_START, NfaBuilder, byte_classes};
use crate::byte_set::{ByteSet, byte_probability};

/// The greatest number of symbols of bytes.
const SYMBOLS_MAX: usize = SYMBOLS - 1;
/// The least probability of a byte: texts in other languages have bytes that are rare in most mail.
const PROBABILITY_MIN: f32 = 0.002;
/// The greatest probability of the bytes of a set, so that a loop ends.
const PROBABILITY_MAX: f32 = 0.9;
/// Sets for which fewer positions wait on average are ignored.
const WAITING_MIN: f32 = 1e-4;

/// Figures of several sets, which one vector instruction computes with.
type Lanes = [f32; LANES];
const LANES: usize = 8;

/// The symbol of each byte.
#[derive(Debug)]
pub(super) struct Alphabet {
    pub(super) symbol_of: [Symbol; 256],
}

impl Alphabet {
    /// The alphabet of the literals of a builder.
    pub(super) fn new(builder: &NfaBuilder) -> Self {
        let mut symbols = Symbols::new(builder);
        while symbols.left() > SYMBOLS_MAX {
            symbols.merge_most_similar();
        }
        let mut symbol_of = [NO_BYTE; 256];
        let mut symbol = NO_BYTE;
        for bytes in symbols.bytes.iter().flatten() {
            symbol += 1;
            for byte in bytes.iter() {
                symbol_of[usize::from(byte)] = symbol;
            }
        }
        Self { symbol_of }
    }

    /// The symbols of the bytes of a set.
    pub(super) fn symbols(&self, set: &ByteSet) -> SymbolSet {
        let symbols = set.iter().map(|byte| self.symbol_of[usize::from(byte)]);
        symbols.collect()
    }
}

/// Bytes that become symbols, by class.
struct Symbols {
    /// `None` if the class was merged with another.
    bytes: Vec<Option<ByteSet>>,
    probabilities: Vec<f32>,
    /// By class and set: the average number of positions that wait for a byte of the set, or 0 if
    /// the class is not in it.
    waiting: Vec<Vec<Lanes>>,
    /// By pairs of classes: the cost of their merge.
    costs: Vec<Vec<f32>>,
}

impl Symbols {
    fn new(builder: &NfaBuilder) -> Self {
        let classes = byte_classes(builder.sets());
        let weights = waiting_positions(builder);
        let sets: Vec<(&ByteSet, f32)> = builder
            .sets()
            .iter()
            .zip(weights)
            .filter(|(_, weight)| *weight >= WAITING_MIN)
            .collect();
        let waiting = |class: &ByteSet| {
            let first = class.iter().next();
            let contains = |set: &ByteSet| first.is_some_and(|byte| set.contains(byte));
            let waiting =
                |(set, weight): &(&ByteSet, f32)| if contains(set) { *weight } else { 0.0 };
            let lanes = |sets: &[(&ByteSet, f32)]| {
                std::array::from_fn(|lane| sets.get(lane).map_or(0.0, waiting))
            };
            sets.chunks(LANES).map(lanes).collect()
        };
        let mut symbols = Self {
            probabilities: classes.iter().map(likelihood).collect(),
            waiting: classes.iter().map(waiting).collect(),
            bytes: classes.iter().map(|bytes| Some(*bytes)).collect(),
            costs: vec![vec![f32::INFINITY; classes.len()]; classes.len()],
        };
        if symbols.left() > SYMBOLS_MAX {
            for one in 0..symbols.bytes.len() {
                for other in 0..one {
                    symbols.costs[one][other] = symbols.cost_of_merge(one, other);
                }
            }
        }
        symbols
    }

    fn left(&self) -> usize {
        self.bytes.iter().flatten().count()
    }

    /// The number of positions that are active without a reason, on average, if two classes become
    /// one symbol.
    fn cost_of_merge(&self, one: usize, other: usize) -> f32 {
        let (p_one, p_other) = (self.probabilities[one], self.probabilities[other]);
        let mut costs = Lanes::default();
        for (one, other) in self.waiting[one].iter().zip(&self.waiting[other]) {
            for (cost, (one, other)) in costs.iter_mut().zip(one.iter().zip(other)) {
                *cost += (other - one).max(0.0) * p_one + (one - other).max(0.0) * p_other;
            }
        }
        costs.iter().sum()
    }

    /// Merges the two symbols whose merge costs least.
    fn merge_most_similar(&mut self) {
        let (mut least, mut kept, mut removed) = (f32::INFINITY, 0, 0);
        for (one, row) in self.costs.iter().enumerate() {
            for (other, &cost) in row.iter().enumerate().take(one) {
                if cost < least {
                    (least, kept, removed) = (cost, one, other);
                }
            }
        }
        let Some(bytes) = self.bytes[removed].take() else {
            return;
        };
        if let Some(kept) = &mut self.bytes[kept] {
            *kept = kept.union(&bytes);
        }
        self.probabilities[kept] += self.probabilities[removed];
        let waiting = std::mem::take(&mut self.waiting[removed]);
        let of_kept = self.waiting[kept].as_flattened_mut().iter_mut();
        for (all, one) in of_kept.zip(waiting.as_flattened()) {
            *all = all.max(*one);
        }
        for other in 0..self.bytes.len() {
            let (row, column) = (removed.max(other), removed.min(other));
            self.costs[row][column] = f32::INFINITY;
            if other != kept && self.bytes[other].is_some() {
                let (row, column) = (kept.max(other), kept.min(other));
                self.costs[row][column] = self.cost_of_merge(row, column);
            }
        }
    }
}

/// The probability that a byte is in the set; each of its bytes counts with [`PROBABILITY_MIN`] at
/// least.
fn likelihood(bytes: &ByteSet) -> f32 {
    bytes
        .iter()
        .map(|byte| byte_probability(byte).max(PROBABILITY_MIN))
        .sum()
}

/// By set: the average number of positions that wait for a byte of it.
///
/// Positions follow those that were added before them, except in loops, where a position follows
/// itself: one pass in the order of positions is enough.
fn waiting_positions(builder: &NfaBuilder) -> Vec<f32> {
    let likelihoods: Vec<f32> = builder
        .sets()
        .iter()
        .map(|set| likelihood(set).min(PROBABILITY_MAX))
        .collect();
    let mut waiting = vec![0.0; builder.sets().len()];
    let mut reached = vec![0.0; builder.positions().len()];
    for (number, (set, followers, _)) in (0u32..).zip(builder.positions()) {
        let set = usize::from(*set);
        let active = if number <= ANCHORED_START {
            1.0
        } else {
            // However many ways lead to a position, it waits once.
            let before = f32::min(reached[number as usize], 1.0);
            waiting[set] += before;
            let active = before * likelihoods[set];
            if followers.contains(&number) {
                active / (1.0 - likelihoods[set])
            } else {
                active
            }
        };
        for &follower in followers {
            if follower > number {
                reached[follower as usize] += active;
            }
        }
    }
    waiting
}
