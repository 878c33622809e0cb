//! Long runs of bytes that a pattern requires, where it has no useful literal.
//!
//! Some patterns consist of common letters only: `[^
//! ]{50,}`, or `(?:[a-z]{8,}\s+){6}`. It takes little time to determine that a text has no run of
//! that length, or no sequence of that many long words.

use super::concat::concat_nodes;
use crate::byte_set::{ByteSet, probability};
use crate::syntax::Node;

/// Shorter runs are too common, unless their set is rare.
const RUN_BYTES_MIN: usize = 40;
/// A rare run occurs less often than once in 2^`RARE_BITS_MIN` bytes.
const RARE_BITS_MIN: f32 = 16.0;
/// Runs up to this length are searched for block by block, longer ones in strides.
const BLOCK_RUN_BYTES_MAX: usize = 32;

/// A run of bytes that every match contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ByteRun {
    /// `length` bytes of one set.
    Bytes { set: ByteSet, length: usize },
    /// `length` bytes in which each word has at least `word_min` bytes. A word is a maximal run of
    /// bytes of the set.
    Words {
        set: ByteSet,
        word_min: u32,
        length: usize,
    },
}

impl ByteRun {
    /// Whether a text contains such a run.
    pub(super) fn is_in(&self, text: &[u8]) -> bool {
        match self {
            Self::Bytes { set, length } => contains_bytes(text, set, *length),
            Self::Words {
                set,
                word_min,
                length,
            } => contains_words(text, set, *word_min, *length),
        }
    }
}

/// Whether `length` consecutive bytes are in a set.
fn contains_bytes(text: &[u8], set: &ByteSet, length: usize) -> bool {
    if length <= BLOCK_RUN_BYTES_MAX {
        let begins = |(here, next)| runs_begin(here, next, length as u32) != 0;
        return blocks(text, set).any(begins);
    }
    // Tests few bytes: if one is not in the set, the next sufficiently long run begins after it.
    let mut start = 0;
    while let Some(run) = text.get(start..start + length) {
        match run.iter().rposition(|&byte| !set.contains(byte)) {
            Some(at) => start += at + 1,
            None => return true,
        }
    }
    false
}

/// Whether `length` consecutive bytes touch no word that is too short.
fn contains_words(text: &[u8], set: &ByteSet, word_min: u32, length: usize) -> bool {
    let (mut free_from, mut ends_in_word) = (0, 0);
    for (block, (here, next)) in (0..).step_by(ByteSet::BLOCK_BYTES).zip(blocks(text, set)) {
        let starts = here & !(here << 1 | ends_in_word);
        let mut short = starts & !runs_begin(here, next, word_min);
        while short != 0 {
            let start = block + short.trailing_zeros() as usize;
            if start - free_from >= length {
                return true;
            }
            free_from = start + 1;
            short &= short - 1;
        }
        ends_in_word = here >> 63;
    }
    text.len() - free_from >= length
}

/// For each block of a text, the bytes that are in a set, in this block and in the next one.
fn blocks(text: &[u8], set: &ByteSet) -> impl Iterator<Item = (u64, u64)> {
    let members = |block: usize| text.get(block..).map_or(0, |rest| set.members(rest));
    let mut here = members(0);
    (0..text.len())
        .step_by(ByteSet::BLOCK_BYTES)
        .map(move |block| {
            let next = members(block + ByteSet::BLOCK_BYTES);
            (std::mem::replace(&mut here, next), next)
        })
}

/// The bits of a block at which `length` set bits begin, at most 64.
fn runs_begin(here: u64, next: u64, length: u32) -> u64 {
    let mut bits = u128::from(here) | u128::from(next) << 64;
    let mut known = 1;
    while known < length {
        let more = known.min(length - known);
        bits &= bits >> more;
        known += more;
    }
    bits as u64
}

/// The longest run that every match contains.
pub(super) fn required_byte_run(node: &Node) -> Option<ByteRun> {
    let longest = byte_runs(node)
        .filter(|(_, length)| *length >= RUN_BYTES_MIN)
        .max_by_key(|(_, length)| *length);
    longest.map_or_else(
        || required_words(node),
        |(set, length)| Some(ByteRun::Bytes { set, length }),
    )
}

/// A run that every match contains and that is rare in mail.
pub(super) fn rare_byte_run(node: &Node) -> Option<ByteRun> {
    let bits = |(set, length): &(ByteSet, usize)| -probability(set).log2() * *length as f32;
    let rarest = byte_runs(node).max_by(|one, other| bits(one).total_cmp(&bits(other)));
    let (set, length) = rarest.filter(|run| bits(run) >= RARE_BITS_MIN)?;
    Some(ByteRun::Bytes { set, length })
}

/// The repeated bytes of a pattern: their set and their least number.
fn byte_runs(node: &Node) -> impl Iterator<Item = (ByteSet, usize)> {
    concat_nodes(node).filter_map(|part| match part {
        Node::Repeat { inner, min, .. } => Some((only_byte(inner)?, *min as usize)),
        _ => None,
    })
}

/// The set of a node that consumes one byte, with or without assertions around it.
fn only_byte(node: &Node) -> Option<ByteSet> {
    match node {
        Node::Byte(set) => Some(*set),
        Node::Concat(parts) => {
            let mut takes = parts.iter().filter(|part| part.max_len() != Some(0));
            let only = takes.next()?;
            takes.next().is_none().then(|| only_byte(only))?
        }
        Node::Capture { inner, .. } | Node::Atomic(inner) => only_byte(inner),
        _ => None,
    }
}

/// The words of a pattern such as `(?:[a-z]{8,}\s+){6}`, with or without assertions around it.
fn required_words(node: &Node) -> Option<ByteRun> {
    match node {
        Node::Concat(parts) => {
            let mut takes = parts.iter().filter(|part| part.max_len() != Some(0));
            let only = takes.next()?;
            takes.next().is_none().then(|| required_words(only))?
        }
        Node::Capture { inner, .. } | Node::Atomic(inner) => required_words(inner),
        Node::Repeat { inner, min, .. } => {
            let Node::Concat(round) = &**inner else {
                return None;
            };
            let [word, between] = &round[..] else {
                return None;
            };
            let ((set, word_min), (others, others_min)) =
                (unbounded_run(word)?, unbounded_run(between)?);
            let is_apart = set.intersection(&others).len() == 0 && others_min > 0;
            let length = (*min as usize).saturating_mul((word_min + others_min) as usize);
            let is_useful = is_apart && word_min <= 64 && length >= RUN_BYTES_MIN;
            is_useful.then_some(ByteRun::Words {
                set,
                word_min,
                length,
            })
        }
        _ => None,
    }
}

/// The set of a byte that is repeated without a bound, and its least number.
fn unbounded_run(node: &Node) -> Option<(ByteSet, u32)> {
    match node {
        Node::Repeat {
            inner,
            min,
            max: None,
            ..
        } => match **inner {
            Node::Byte(set) => Some((set, *min)),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(pattern: &str) -> Option<ByteRun> {
        required_byte_run(&crate::syntax::parse_delimited(pattern))
    }

    #[test]
    fn runs_of_one_set() {
        let run = run(r"/^[^\n]{50,}$/m").expect("a run");
        for (text, expected) in [
            ("x".repeat(49), false),
            ("x".repeat(50), true),
            ("x".repeat(49) + "\n" + &"x".repeat(49), false),
            ("x".repeat(30) + "\n" + &"x".repeat(50), true),
            ("x\n".repeat(100) + &"x".repeat(51) + "\n", true),
        ] {
            assert_eq!(run.is_in(text.as_bytes()), expected, "{text:?}");
        }
    }

    /// At every alignment of the blocks, and with an assertion at each byte.
    #[test]
    fn runs_of_a_rare_set() {
        let rare = |pattern: &str| rare_byte_run(&crate::syntax::parse_delimited(pattern));
        let run = rare(r"/\s[a-z]{0,10}(?:(?!--)[-0-9a-f]){10,64}\s/").expect("a run");
        for before in 0..130 {
            let text =
                |run: &str| "fade in ".repeat(before / 8) + &"x".repeat(before % 8) + run + " fee";
            assert!(!run.is_in(text("012345678").as_bytes()), "{before}");
            assert!(run.is_in(text("0123456789").as_bytes()), "{before}");
            assert!(run.is_in(text("0123-4567-cafe").as_bytes()), "{before}");
        }
        assert_eq!(rare(r"/[a-z]{10}/"), None);
        assert_eq!(rare(r"/(?:[0-9]{2}x){10}/"), None);
    }

    #[test]
    fn long_words_one_after_the_other() {
        let run = run(r"/\b(?:[a-z]{8,}[\s\.]+){6}/").expect("words");
        let (long, short) = ("abcdefgh ", "abcdefg ");
        for (text, expected) in [
            (long.repeat(5), false),
            (long.repeat(6), true),
            (long.repeat(5) + short + &long.repeat(5), false),
            (short.repeat(40), false),
            (short.repeat(40) + &long.repeat(6), true),
            (short.repeat(7) + &long.repeat(6) + &short.repeat(40), true),
            // The bytes between words are not checked.
            (long.repeat(3) + "1!2" + &long.repeat(3), true),
            (" ".repeat(53), false),
        ] {
            assert_eq!(run.is_in(text.as_bytes()), expected, "{text:?}");
        }
    }

    /// At every alignment of the blocks, a text that matches contains the words.
    #[test]
    fn words_are_found_across_blocks() {
        let run = run(r"/(?:[a-z]{30,} +){2}/").expect("words");
        for before in 0..130 {
            let words = ["a".repeat(30), "b".repeat(70), String::new()].join(" ");
            let text = "x ".repeat(before) + &words;
            assert!(run.is_in(text.as_bytes()), "{before}");
            assert!(!run.is_in(text.replace("bb", "b.").as_bytes()), "{before}");
        }
    }

    #[test]
    fn other_patterns_have_no_run() {
        for pattern in [
            r"/(?:[a-z]{8,}[a-z\s]+){6}/",
            r"/(?:[a-z]{8,}\s*){6}/",
            r"/(?:[a-z]{8,9}\s+){6}/",
            r"/(?:[a-z]{2,}\s+){6}/",
            r"/(?:[a-z]{8,}\s+){0,6}/",
        ] {
            assert_eq!(run(pattern), None, "{pattern}");
        }
    }
}
