//! Prefix sets: the byte sets of the first, second and third byte of a pattern's matches.
//!
//! One sequence of sets is not selective if alternatives differ: a match of `#[a-z]+|[a-z][.)]`
//! begins with `#` or a letter, and the second byte is a letter or a sign, which all words satisfy.
//! So alternatives have separate sequences where that pays off, and an offset is a candidate if one
//! sequence fits.
//!
//! Invariant: at the start of every match a sequence fits.

use smallvec::SmallVec;

use crate::automaton::{ByteClasses, Nfa, Position, sorted};
use crate::byte_set::{ByteSet, byte_probability, probability};

/// Bytes that are tested.
const BYTES_MAX: usize = 3;
/// Sequences that are tested one after the other.
const SEQUENCES_MAX: usize = 3;
/// The share of all offsets that a separate sequence must rule out: testing it costs as much as
/// running the DFA at one offset of fifty.
const SEQUENCE_SHARE_MIN: f32 = 0.02;

/// The prefix sets of a pattern.
#[derive(Debug)]
pub(super) struct PrefixSets(SmallVec<[SetSequence; 1]>);

/// One set per byte; fewer if a match may be shorter.
type SetSequence = SmallVec<[ByteSet; BYTES_MAX]>;

impl PrefixSets {
    /// The prefix sets of a pattern of which only the first byte is known.
    pub(super) fn of(first: ByteSet) -> Self {
        let mut sequence = SetSequence::new();
        sequence.push(first);
        Self(SmallVec::from_iter([sequence]))
    }

    /// The prefix sets of the anchored literals of an NFA.
    pub(super) fn of_nfa(nfa: &Nfa) -> Self {
        let classes = ClassProbabilities::new(nfa);
        let mut sequences: SmallVec<[ClassSequence; SEQUENCES_MAX + 1]> = SmallVec::new();
        for start in nfa.first_positions() {
            sequences.push(classes.sequence(nfa, start));
            classes.merge(&mut sequences);
        }
        let sets =
            |sequence: &ClassSequence| sequence.sets.iter().map(|set| nfa.bytes_of(set)).collect();
        Self(sequences.iter().map(sets).collect())
    }

    /// Restricts the first byte to a set.
    pub(super) fn with_first(mut self, first: &ByteSet) -> Self {
        for sequence in &mut self.0 {
            if let Some(set) = sequence.first_mut() {
                *set = set.intersection(first);
            }
        }
        self
    }

    /// The probability that a sequence fits at an offset of mail.
    pub(super) fn probability(&self) -> f32 {
        let fits = |sequence: &SetSequence| sequence.iter().map(probability).product::<f32>();
        self.0.iter().map(fits).sum()
    }

    /// The first [`ByteSet::BLOCK_BYTES`] offsets of a text at which a sequence fits, one bit each.
    pub(super) fn candidates(&self, text: &[u8]) -> u64 {
        let fits = |sequence: &SetSequence| {
            let mut candidates = u64::MAX;
            for (index, set) in sequence.iter().enumerate() {
                candidates &= set.members(text.get(index..).unwrap_or_default());
                if candidates == 0 {
                    break;
                }
            }
            candidates
        };
        self.0
            .iter()
            .map(fits)
            .fold(0, |all, sequence| all | sequence)
    }
}

/// A sequence of sets of byte classes.
struct ClassSequence {
    sets: SmallVec<[ByteClasses; BYTES_MAX]>,
    probability: f32,
}

/// By class: the probability that a byte of mail belongs to it.
struct ClassProbabilities([f32; 256]);

impl ClassProbabilities {
    fn new(nfa: &Nfa) -> Self {
        let mut chances = [0.0; 256];
        for (byte, class) in (0..=u8::MAX).zip(nfa.class_of) {
            chances[usize::from(class)] += byte_probability(byte);
        }
        Self(chances)
    }

    /// The first bytes of the literals that begin with a position.
    fn sequence(&self, nfa: &Nfa, start: Position) -> ClassSequence {
        let mut sets = SmallVec::new();
        let mut at = vec![start];
        while sets.len() < BYTES_MAX && !at.is_empty() {
            sets.push(nfa.classes_of(&at));
            if nfa.is_end(&at) {
                break;
            }
            let follow = at.iter().flat_map(|&position| nfa.follow_set(position));
            at = sorted(follow.collect());
        }
        self.with_chance(sets)
    }

    fn with_chance(&self, sets: SmallVec<[ByteClasses; BYTES_MAX]>) -> ClassSequence {
        let probability = |set: &ByteClasses| {
            let mut sum = 0.0;
            for (first, mut word) in (0..).step_by(64).zip(*set) {
                while word != 0 {
                    sum += self.0[first + word.trailing_zeros() as usize];
                    word &= word - 1;
                }
            }
            sum
        };
        ClassSequence {
            probability: sets.iter().map(probability).product(),
            sets,
        }
    }

    /// Merges sequences that rule out too little on their own, and the least selective ones if
    /// there are too many.
    fn merge(&self, sequences: &mut SmallVec<[ClassSequence; SEQUENCES_MAX + 1]>) {
        while let Some((rise, one, other, both)) = self.least_rise(sequences)
            && (rise < SEQUENCE_SHARE_MIN || sequences.len() > SEQUENCES_MAX)
        {
            sequences.swap_remove(other);
            sequences[one] = both;
        }
    }

    /// The two sequences whose union fits at the fewest additional offsets.
    fn least_rise(
        &self,
        sequences: &[ClassSequence],
    ) -> Option<(f32, usize, usize, ClassSequence)> {
        let mut least: Option<(f32, usize, usize, ClassSequence)> = None;
        for (other, second) in sequences.iter().enumerate() {
            for (one, first) in sequences.iter().enumerate().take(other) {
                let sets = first.sets.iter().zip(&second.sets);
                let sets = sets.map(|(one, other)| std::array::from_fn(|at| one[at] | other[at]));
                let both = self.with_chance(sets.collect());
                let rise = both.probability - first.probability - second.probability;
                if least.as_ref().is_none_or(|(least, ..)| rise < *least) {
                    least = Some((rise, one, other, both));
                }
            }
        }
        least
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prefix::dfa::PrefixDfa;
    use crate::syntax::parse_delimited;

    fn prefix_sets(pattern: &str) -> PrefixSets {
        PrefixDfa::of(&parse_delimited(pattern))
            .unwrap()
            .prefix_sets()
    }

    #[test]
    fn alternatives_that_differ_have_sequences_of_their_own() {
        for (pattern, expected) in [
            ("/ab[cd]e/", &["[a] [b] [c-d]"][..]),
            ("/a(?:b|cd)/", &["[a] [b-c]"]),
            ("/x[a-z]*1/", &["[x] [1a-z]"]),
            ("/q|ab/", &["[a] [b]", "[q]"]),
            ("/#[a-z]+|[a-z][.)]/", &["[#] [a-z]", "[a-z] [).]"]),
            ("/#[a-z]+|=[.)]/", &["[#=] [).a-z]"]),
            ("/(?: |a)b[cd]/", &["[ a] [b] [c-d]"]),
        ] {
            let sequence = |sequence: &SetSequence| {
                let sets: Vec<_> = sequence.iter().map(|set| format!("{set:?}")).collect();
                sets.join(" ")
            };
            let mut sequences: Vec<_> = prefix_sets(pattern).0.iter().map(sequence).collect();
            sequences.sort();
            assert_eq!(sequences, expected, "{pattern}");
        }
    }

    #[test]
    fn candidates_are_where_a_sequence_fits() {
        let prefix_sets = prefix_sets(r"/#[a-z]+|[a-z][.)]/");
        let text = b"#1 #a by b. by) c";
        assert_eq!(prefix_sets.candidates(text), 1 << 3 | 1 << 9 | 1 << 13);
        let only = prefix_sets.with_first(&ByteSet::one(b'y'));
        assert_eq!(only.candidates(text), 1 << 13);
    }

    #[test]
    fn sequences_are_never_too_many() {
        let differing = r"/ [a-z]|e\d|t[A-Z]|o[.,]|n[()]|i[<>]|[a-d]-|s:|r;/";
        assert!(prefix_sets(differing).0.len() <= SEQUENCES_MAX);
    }
}
