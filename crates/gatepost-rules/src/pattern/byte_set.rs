//! A set of bytes: what one position of a pattern may match.

use std::fmt;

/// A set of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct ByteSet([u64; 4]);

impl ByteSet {
    /// No byte.
    pub(crate) const EMPTY: Self = Self([0; 4]);
    /// Every byte.
    pub(crate) const ALL: Self = Self([u64::MAX; 4]);

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
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    pub(crate) fn contains(&self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] & (1 << (byte & 63)) != 0
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u8> + '_ {
        (0u8..).zip(self.0).flat_map(|(word, mut bits)| {
            std::iter::from_fn(move || {
                let bit = (bits != 0).then(|| bits.trailing_zeros() as u8)?;
                bits &= bits - 1;
                Some(word * 64 + bit)
            })
        })
    }

    pub(crate) fn union(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] | other.0[word]))
    }

    /// Every byte that is not in the set.
    pub(crate) fn complement(&self) -> Self {
        Self(self.0.map(|word| !word))
    }

    /// The maximal runs of neighbouring bytes, as first and last.
    pub(crate) fn ranges(&self) -> Vec<(u8, u8)> {
        let mut ranges: Vec<(u8, u8)> = Vec::new();
        for byte in self.iter() {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == byte => *last = byte,
                _ => ranges.push((byte, byte)),
            }
        }
        ranges
    }

    /// The set with every byte's other case added, by Perl's rules for `/aa`: ASCII letters fold
    /// among themselves, and so do the letters of Latin-1, since byte strings are Latin-1 to Perl.
    pub(crate) fn fold_case(&self) -> Self {
        let mut folded = *self;
        for byte in self.iter() {
            if let Some(other) = other_case(byte) {
                folded.insert(other);
            }
        }
        folded
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

/// The other case of a Latin-1 letter whose both cases are one byte.
fn other_case(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' | 0xC0..=0xD6 | 0xD8..=0xDE => Some(byte + 0x20),
        b'a'..=b'z' | 0xE0..=0xF6 | 0xF8..=0xFE => Some(byte - 0x20),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_maximal() {
        let set: ByteSet = b"cabxz".iter().copied().collect();
        assert_eq!(set.ranges(), [(b'a', b'c'), (b'x', b'x'), (b'z', b'z')]);
        assert_eq!(ByteSet::ALL.ranges(), [(0, 255)]);
        assert_eq!(ByteSet::EMPTY.complement(), ByteSet::ALL);
    }

    #[test]
    fn folding_keeps_the_signs_between_the_letters_of_latin_1() {
        assert!(ByteSet::one(0xE9).fold_case().contains(0xC9));
        assert_eq!(ByteSet::one(0xD7).fold_case().len(), 1);
        assert_eq!(ByteSet::one(0xDF).fold_case().len(), 1);
        assert_eq!(ByteSet::one(0xFF).fold_case().len(), 1);
    }
}
