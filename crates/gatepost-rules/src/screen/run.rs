//! Long rows that a pattern cannot match without, where it has no fragment of use.
//!
//! Some patterns are made of nothing but common letters: `[^\n]{50,}`, or `(?:[a-z]{8,}\s+){6}`. That a
//! text has no row so long, or not so many long words one after the other, is seen at a glance.

use super::frequency::chance;
use super::required::in_turn;
use crate::pattern::{ByteSet, Node};

/// Shorter rows are met too often, unless their set is rare.
const RUN_BYTES_MIN: usize = 40;
/// A row of a rare set is met less often than once in 2 to the power of so many bytes.
const RARE_BITS_MIN: f32 = 16.0;
/// Rows up to this length are looked for in each block of a text, longer ones in strides.
const BLOCK_ROW_BYTES_MAX: usize = 32;

/// A row that each match holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Run {
    /// So many bytes of one set.
    Bytes { set: ByteSet, length: usize },
    /// So many bytes in which each word, which is a row of bytes of the set with others around it, is
    /// at least so long.
    Words {
        set: ByteSet,
        word_min: u32,
        length: usize,
    },
}

impl Run {
    /// Whether a text holds such a row.
    pub(crate) fn is_in(&self, text: &[u8]) -> bool {
        match self {
            Self::Bytes { set, length } => holds_bytes(text, set, *length),
            Self::Words {
                set,
                word_min,
                length,
            } => holds_words(text, set, *word_min, *length),
        }
    }
}

/// Whether so many bytes in a row are in a set.
fn holds_bytes(text: &[u8], set: &ByteSet, length: usize) -> bool {
    if length <= BLOCK_ROW_BYTES_MAX {
        let begins = |(here, next)| rows_begin(here, next, length as u32) != 0;
        return blocks(text, set).any(begins);
    }
    // Looks at few bytes: where one is not in the set, the next row that may be long enough begins behind it.
    let mut start = 0;
    while let Some(row) = text.get(start..start + length) {
        match row.iter().rposition(|&byte| !set.contains(byte)) {
            Some(at) => start += at + 1,
            None => return true,
        }
    }
    false
}

/// Whether so many bytes hold no byte of a word that is too short.
fn holds_words(text: &[u8], set: &ByteSet, word_min: u32, length: usize) -> bool {
    let (mut free_from, mut ends_in_word) = (0, 0);
    for (block, (here, next)) in (0..).step_by(ByteSet::BLOCK_BYTES).zip(blocks(text, set)) {
        let starts = here & !(here << 1 | ends_in_word);
        let mut short = starts & !rows_begin(here, next, word_min);
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

/// Which bytes of each block of a text are in a set, and which of the block behind it.
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

/// The bits of a block from which on so many are set, at most 64.
fn rows_begin(here: u64, next: u64, length: u32) -> u64 {
    let mut bits = u128::from(here) | u128::from(next) << 64;
    let mut known = 1;
    while known < length {
        let more = known.min(length - known);
        bits &= bits >> more;
        known += more;
    }
    bits as u64
}

/// The longest row that each match holds.
pub(crate) fn required_run(node: &Node) -> Option<Run> {
    let longest = rows(node)
        .filter(|(_, length)| *length >= RUN_BYTES_MIN)
        .max_by_key(|(_, length)| *length);
    longest.map_or_else(
        || required_words(node),
        |(set, length)| Some(Run::Bytes { set, length }),
    )
}

/// A row that each match holds, and that mail hardly ever does.
pub(crate) fn rare_run(node: &Node) -> Option<Run> {
    let bits = |(set, length): &(ByteSet, usize)| -chance(set).log2() * *length as f32;
    let rarest = rows(node).max_by(|one, other| bits(one).total_cmp(&bits(other)));
    let (set, length) = rarest.filter(|row| bits(row) >= RARE_BITS_MIN)?;
    Some(Run::Bytes { set, length })
}

/// The repeated bytes of a pattern: their set, and how many there are at least.
fn rows(node: &Node) -> impl Iterator<Item = (ByteSet, usize)> {
    in_turn(node).filter_map(|part| match part {
        Node::Repeat { inner, min, .. } => Some((only_byte(inner)?, *min as usize)),
        _ => None,
    })
}

/// The set of a node that takes one byte, whatever it looks at besides.
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

/// The words of a pattern that is nothing but `(?:[a-z]{8,}\s+){6}`, and what takes no bytes.
fn required_words(node: &Node) -> Option<Run> {
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
            let ((set, word_min), (others, others_min)) = (row_of(word)?, row_of(between)?);
            let is_apart = set.intersection(&others).len() == 0 && others_min > 0;
            let length = (*min as usize).saturating_mul((word_min + others_min) as usize);
            let is_of_use = is_apart && word_min <= 64 && length >= RUN_BYTES_MIN;
            is_of_use.then_some(Run::Words {
                set,
                word_min,
                length,
            })
        }
        _ => None,
    }
}

/// The set of a repeated byte, and how often it stands at least, for what goes on as long as it can.
fn row_of(node: &Node) -> Option<(ByteSet, u32)> {
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
    use crate::pattern::Pattern;

    fn run(pattern: &[u8]) -> Option<Run> {
        let tree = Pattern::parse(pattern).expect("a pattern").take_tree();
        required_run(&tree)
    }

    #[test]
    fn rows_of_one_set() {
        let run = run(br"/^[^\n]{50,}$/m").expect("a row");
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

    /// Wherever the blocks begin, and whatever is looked at beside each byte.
    #[test]
    fn rows_of_a_rare_set() {
        let rare =
            |pattern: &[u8]| rare_run(&Pattern::parse(pattern).expect("a pattern").take_tree());
        let run = rare(br"/\s[a-z]{0,10}(?:(?!--)[-0-9a-f]){10,64}\s/").expect("a row");
        for before in 0..130 {
            let text =
                |row: &str| "fade in ".repeat(before / 8) + &"x".repeat(before % 8) + row + " fee";
            assert!(!run.is_in(text("012345678").as_bytes()), "{before}");
            assert!(run.is_in(text("0123456789").as_bytes()), "{before}");
            assert!(run.is_in(text("0123-4567-cafe").as_bytes()), "{before}");
        }
        assert_eq!(rare(br"/[a-z]{10}/"), None);
        assert_eq!(rare(br"/(?:[0-9]{2}x){10}/"), None);
    }

    #[test]
    fn long_words_one_after_the_other() {
        let run = run(br"/\b(?:[a-z]{8,}[\s\.]+){6}/").expect("words");
        let (long, short) = ("abcdefgh ", "abcdefg ");
        for (text, expected) in [
            (long.repeat(5), false),
            (long.repeat(6), true),
            (long.repeat(5) + short + &long.repeat(5), false),
            (short.repeat(40), false),
            (short.repeat(40) + &long.repeat(6), true),
            (short.repeat(7) + &long.repeat(6) + &short.repeat(40), true),
            // What stands between words is not looked at.
            (long.repeat(3) + "1!2" + &long.repeat(3), true),
            (" ".repeat(53), false),
        ] {
            assert_eq!(run.is_in(text.as_bytes()), expected, "{text:?}");
        }
    }

    /// Wherever the blocks begin, a text that matches holds the words.
    #[test]
    fn words_are_found_across_blocks() {
        let run = run(br"/(?:[a-z]{30,} +){2}/").expect("words");
        for before in 0..130 {
            let words = ["a".repeat(30), "b".repeat(70), String::new()].join(" ");
            let text = "x ".repeat(before) + &words;
            assert!(run.is_in(text.as_bytes()), "{before}");
            assert!(!run.is_in(text.replace("bb", "b.").as_bytes()), "{before}");
        }
    }

    #[test]
    fn other_patterns_have_no_row() {
        for pattern in [
            &br"/(?:[a-z]{8,}[a-z\s]+){6}/"[..],
            br"/(?:[a-z]{8,}\s*){6}/",
            br"/(?:[a-z]{8,9}\s+){6}/",
            br"/(?:[a-z]{2,}\s+){6}/",
            br"/(?:[a-z]{8,}\s+){0,6}/",
        ] {
            assert_eq!(run(pattern), None, "{}", pattern.escape_ascii());
        }
    }
}
