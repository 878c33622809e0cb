//! A set of bytes: the bytes that one position of a pattern matches.

mod frequency;
mod simd;

use std::fmt;

pub(crate) use frequency::{byte_probability, probability};

/// A set of bytes, laid out for vector lookups ([`simd`]): by the highest bit and the lower four
/// bits of a byte, one bit for each value of the three bits between.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct ByteSet([u8; 32]);

/// The position of a byte's bit: the index in the array, and the bit in that element.
const fn bit_of(byte: u8) -> (usize, u8) {
    ((byte >> 7 << 4 | byte & 15) as usize, 1 << (byte >> 4 & 7))
}

/// Every byte, in order.
static ALL_BYTES: [u8; 256] = {
    let mut bytes = [0; 256];
    let mut at = 0;
    while at < bytes.len() {
        bytes[at] = at as u8;
        at += 1;
    }
    bytes
};

impl ByteSet {
    /// The number of bytes that [`ByteSet::members`] tests.
    pub(crate) const BLOCK_BYTES: usize = 64;
    /// The empty set.
    pub(crate) const EMPTY: Self = Self([0; 32]);
    /// The set of all bytes.
    pub(crate) const ALL: Self = Self([u8::MAX; 32]);
    /// ASCII letters, digits and the underscore: Perl's `\w` under `/aa`.
    pub(crate) const WORD: Self = {
        let mut word = Self::EMPTY;
        let mut byte = 0;
        while byte < 128 {
            if (byte as u8).is_ascii_alphanumeric() || byte as u8 == b'_' {
                let (at, bit) = bit_of(byte as u8);
                word.0[at] |= bit;
            }
            byte += 1;
        }
        word
    };

    /// The set of one byte.
    pub(crate) fn one(byte: u8) -> Self {
        let mut set = Self::EMPTY;
        set.insert(byte);
        set
    }

    /// The bytes from `first` to `last`, both included.
    pub(crate) fn range(first: u8, last: u8) -> Self {
        let mut set = Self::EMPTY;
        (first..=last).for_each(|byte| set.insert(byte));
        set
    }

    pub(crate) fn insert(&mut self, byte: u8) {
        let (at, bit) = bit_of(byte);
        self.0[at] |= bit;
    }

    pub(crate) fn contains(&self, byte: u8) -> bool {
        let (at, bit) = bit_of(byte);
        self.0[at] & bit != 0
    }

    /// The members of the set among the first [`ByteSet::BLOCK_BYTES`] bytes of a text: one bit per
    /// byte, the lowest bit for the first.
    pub(crate) fn members(&self, text: &[u8]) -> u64 {
        simd::members(&self.0, text)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|bits| bits.count_ones() as usize).sum()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u8> + use<> {
        (0u8..).zip(self.blocks()).flat_map(|(block, mut members)| {
            std::iter::from_fn(move || {
                let at = (members != 0).then(|| members.trailing_zeros() as u8)?;
                members &= members - 1;
                Some(block * 64 + at)
            })
        })
    }

    /// A bit for each byte, in ascending order.
    fn blocks(&self) -> [u64; 4] {
        [0, 64, 128, 192].map(|start| self.members(&ALL_BYTES[start..]))
    }

    pub(crate) fn union(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] | other.0[at]))
    }

    pub(crate) fn intersection(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] & other.0[at]))
    }

    /// Every byte that is not in the set.
    pub(crate) fn complement(&self) -> Self {
        Self(self.0.map(|bits| !bits))
    }

    /// The maximal ranges of bytes, as first and last.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (u8, u8)> + use<> {
        let members = self.blocks();
        let others = members.map(|block| !block);
        let mut from = 0;
        std::iter::from_fn(move || {
            let first = next_one(&members, from)?;
            from = next_one(&others, first).unwrap_or(256);
            Some((first as u8, (from - 1) as u8))
        })
    }

    /// The set with the other case of every byte added, by Perl's rules for `/aa`: ASCII letters
    /// fold among themselves, and so do the letters of Latin-1, since Perl treats byte strings as
    /// Latin-1.
    pub(crate) fn fold_case(&self) -> Self {
        // The two cases of a letter differ by 0x20, so their bits are in one element, two apart.
        let fold = |at: usize| {
            let (bits, upper) = (self.0[at], UPPER_CASE.0[at]);
            bits | (bits & upper) << 2 | (bits >> 2 & upper)
        };
        Self(std::array::from_fn(fold))
    }
}

impl FromIterator<u8> for ByteSet {
    fn from_iter<I: IntoIterator<Item = u8>>(bytes: I) -> Self {
        let mut set = Self::EMPTY;
        for byte in bytes {
            set.insert(byte);
        }
        set
    }
}

impl fmt::Debug for ByteSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("[")?;
        for (first, last) in self.ranges() {
            write!(formatter, "{}", first.escape_ascii())?;
            if last > first {
                write!(formatter, "-{}", last.escape_ascii())?;
            }
        }
        formatter.write_str("]")
    }
}

/// Perl's `\w`.
#[inline]
pub(crate) fn is_word(byte: u8) -> bool {
    ByteSet::WORD.contains(byte)
}

/// Perl's `\b`.
#[inline]
pub(crate) fn is_word_boundary(text: &[u8], at: usize) -> bool {
    let is_word = |at: usize| text.get(at).is_some_and(|&byte| is_word(byte));
    is_word(at) != is_word(at.wrapping_sub(1))
}

/// The first bit that is set, at or after `from`.
fn next_one(blocks: &[u64; 4], from: usize) -> Option<usize> {
    let mut hidden = u64::MAX << (from % 64);
    for (number, block) in blocks.iter().enumerate().skip(from / 64) {
        let left = block & hidden;
        if left != 0 {
            return Some(number * 64 + left.trailing_zeros() as usize);
        }
        hidden = u64::MAX;
    }
    None
}

/// The upper-case letters of Latin-1 whose two cases are one byte each.
const UPPER_CASE: ByteSet = {
    let mut upper = ByteSet::EMPTY;
    let mut byte = 0;
    while byte < 256 {
        if matches!(byte as u8, b'A'..=b'Z' | 0xC0..=0xD6 | 0xD8..=0xDE) {
            let (at, bit) = bit_of(byte as u8);
            upper.0[at] |= bit;
        }
        byte += 1;
    }
    upper
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_maximal() {
        let set: ByteSet = b"cabxz".iter().copied().collect();
        let ranges = |set: ByteSet| set.ranges().collect::<Vec<_>>();
        assert_eq!(ranges(set), [(b'a', b'c'), (b'x', b'x'), (b'z', b'z')]);
        assert_eq!(ranges(ByteSet::ALL), [(0, 255)]);
        assert_eq!(ranges(ByteSet::EMPTY), []);
        assert_eq!(ByteSet::EMPTY.complement(), ByteSet::ALL);
    }

    #[test]
    fn members_of_sixty_four_bytes() {
        let texts: [Vec<u8>; 5] = [
            Vec::new(),
            (0..=u8::MAX).collect(),
            (0..=u8::MAX).rev().collect(),
            b"A short one: \xe9".to_vec(),
            [b"x".repeat(63), b"\xff".to_vec()].concat(),
        ];
        let sets = [
            ByteSet::EMPTY,
            ByteSet::ALL,
            ByteSet::WORD,
            ByteSet::range(0x78, 0x88),
            ByteSet::range(0xf0, 0xff),
            b" :x\x00\x80\xe9".iter().copied().collect(),
        ];
        for (text, set) in texts
            .iter()
            .flat_map(|text| sets.iter().map(move |set| (text, set)))
        {
            for start in 0..=text.len() {
                let rest = &text[start..];
                let expected = (0..).zip(rest).take(64).fold(0, |bits, (at, &byte)| {
                    bits | u64::from(set.contains(byte)) << at
                });
                assert_eq!(set.members(rest), expected, "{set:?} in {rest:?}");
            }
        }
        assert_eq!(ByteSet::WORD.len(), 63);
    }

    #[test]
    fn folding_keeps_the_signs_between_the_letters_of_latin_1() {
        assert!(ByteSet::one(0xE9).fold_case().contains(0xC9));
        assert_eq!(ByteSet::one(0xD7).fold_case().len(), 1);
        assert_eq!(ByteSet::one(0xDF).fold_case().len(), 1);
        assert_eq!(ByteSet::one(0xFF).fold_case().len(), 1);
        for byte in 0..=u8::MAX {
            let other = match byte {
                b'A'..=b'Z' | 0xC0..=0xD6 | 0xD8..=0xDE => byte + 0x20,
                b'a'..=b'z' | 0xE0..=0xF6 | 0xF8..=0xFE => byte - 0x20,
                _ => byte,
            };
            let expected: ByteSet = [byte, other].into_iter().collect();
            assert_eq!(ByteSet::one(byte).fold_case(), expected, "{byte:#x}");
        }
    }
}
