//! With what the matches of a pattern begin: where a pattern need not be tried.
//!
//! At nearly all places of a text a pattern fails within a few bytes. What those must be is known
//! from its tree, and asked before the compiled pattern is, or is made at all. Searches go from one
//! place that may begin a match to the next; a pattern that may begin at too many is left to PCRE2's
//! own search.
//!
//! Invariant: where the pattern matches, [`Places`] gives the place.

use memchr::{memchr, memchr2};

use super::byte_set::ByteSet;
use super::node::{Assertion, Node};
use super::plain::{Plain, is_word, is_word_boundary};
use crate::screen::{Beginnings, BeginningsReader};

/// With what the matches of a pattern begin.
#[derive(Debug)]
pub(super) struct Lead {
    /// `None` where a match may be empty.
    first: Option<First>,
    start: Start,
    /// `None` where nothing is known, or where the pattern is plain.
    beginnings: Option<Beginnings>,
    /// The whole pattern, if it is so simple.
    pub(super) plain: Option<Plain>,
}

/// The bytes of which one stands first in every match.
#[derive(Debug, Clone, Copy)]
enum First {
    /// Looked for many bytes at a time.
    One(u8),
    /// A letter in either case, for instance; likewise.
    Two(u8, u8),
    Set(ByteSet),
}

impl First {
    fn of(set: ByteSet) -> Self {
        let mut bytes = set.iter();
        match (bytes.next(), bytes.next(), bytes.next()) {
            (Some(one), None, None) => Self::One(one),
            (Some(one), Some(other), None) => Self::Two(one, other),
            _ => Self::Set(set),
        }
    }

    fn contains(self, byte: u8) -> bool {
        match self {
            Self::One(one) => byte == one,
            Self::Two(one, other) => byte == one || byte == other,
            Self::Set(set) => set.contains(byte),
        }
    }

    fn find(self, text: &[u8]) -> Option<usize> {
        match self {
            Self::One(one) => memchr(one, text),
            Self::Two(one, other) => memchr2(one, other, text),
            Self::Set(set) => text.iter().position(|&byte| set.contains(byte)),
        }
    }
}

/// What is known of the places at which matches begin, besides the bytes from there on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Start {
    /// Only at the start of a text.
    of_text: bool,
    /// Only at starts of lines.
    of_line: bool,
    /// Only where a word begins or ends.
    at_word: bool,
}

impl Start {
    const ANYWHERE: Self = Self {
        of_text: false,
        of_line: false,
        at_word: false,
    };

    fn of(node: &Node) -> Self {
        match node {
            Node::Assertion(Assertion::TextStart) => Self {
                of_text: true,
                ..Self::ANYWHERE
            },
            Node::Assertion(Assertion::LineStart) => Self {
                of_line: true,
                ..Self::ANYWHERE
            },
            Node::Assertion(Assertion::WordBoundary) => Self {
                at_word: true,
                ..Self::ANYWHERE
            },
            Node::Capture { inner, .. } | Node::Atomic(inner) => Self::of(inner),
            Node::Concat(parts) => {
                let mut all = Self::ANYWHERE;
                for part in parts {
                    let part_start = Self::of(part);
                    all.of_text |= part_start.of_text;
                    all.of_line |= part_start.of_line;
                    all.at_word |= part_start.at_word;
                    // What comes after these still stands at the same place.
                    if !matches!(part, Node::Assertion(_) | Node::Look { .. } | Node::Empty) {
                        break;
                    }
                }
                all
            }
            Node::Alternate(branches) | Node::BranchReset(branches) => {
                let starts = branches.iter().map(Self::of);
                starts
                    .reduce(|all, branch| Self {
                        of_text: all.of_text && branch.of_text,
                        of_line: all.of_line && branch.of_line,
                        at_word: all.at_word && branch.at_word,
                    })
                    .unwrap_or(Self::ANYWHERE)
            }
            _ => Self::ANYWHERE,
        }
    }
}

impl Lead {
    pub(super) fn of(tree: Node) -> Self {
        let plain = Plain::of(&tree);
        Self {
            first: tree.first_bytes().map(First::of),
            start: Start::of(&tree),
            beginnings: if plain.is_some() {
                None
            } else {
                Beginnings::of(tree)
            },
            plain,
        }
    }

    /// Whether it rules out any place.
    pub(super) fn tells(&self) -> bool {
        self.first.is_some() || self.start.of_text || self.start.of_line
    }

    /// Whether a search from a place surely finds nothing.
    pub(super) fn misses(&self, text: &[u8], place: usize) -> bool {
        self.start.of_text && (place > 0 || self.places(text).next(0, 0).is_none())
    }

    /// Where in a text matches may begin.
    pub(super) fn places<'a>(&'a self, text: &'a [u8]) -> Places<'a> {
        Places {
            lead: self,
            text,
            beginnings: None,
        }
    }
}

/// The places of one text at which matches may begin.
pub(super) struct Places<'a> {
    lead: &'a Lead,
    text: &'a [u8],
    /// Made for the first place that is asked about.
    beginnings: Option<BeginningsReader<'a>>,
}

impl Places<'_> {
    /// The next place from `place` to `last` at which a match may begin.
    pub(super) fn next(&mut self, mut place: usize, last: usize) -> Option<usize> {
        loop {
            place = self.skip(place, last)?;
            if self.may_begin(place) {
                return Some(place);
            }
            place += 1;
        }
    }

    /// The next place from `place` to `last` by its first byte, and by what stands before it.
    pub(super) fn skip(&self, mut place: usize, last: usize) -> Option<usize> {
        let Lead { first, start, .. } = self.lead;
        if start.of_text {
            return (place == 0).then_some(0);
        }
        if start.at_word
            && !start.of_line
            && let Some(first) = first
        {
            return self.boundary(*first, place, last);
        }
        while place <= last {
            if start.of_line {
                place = self.line_start(place).filter(|place| *place <= last)?;
            }
            if let Some(first) = first {
                let rest = self.text.get(place..=last).or(self.text.get(place..))?;
                if !start.of_line {
                    place += first.find(rest)?;
                } else if !rest.first().is_some_and(|&byte| first.contains(byte)) {
                    place += 1;
                    continue;
                }
            }
            if !start.at_word || is_word_boundary(self.text, place) {
                return Some(place);
            }
            place += 1;
        }
        None
    }

    /// The next place from `place` to `last` with one of the first bytes, at which a word begins or ends.
    fn boundary(&self, first: First, place: usize, last: usize) -> Option<usize> {
        let rest = self.text.get(place..=last).or(self.text.get(place..))?;
        let before = place.checked_sub(1).and_then(|at| self.text.get(at));
        let mut was_word = before.is_some_and(|&byte| is_word(byte));
        let at = rest.iter().position(|&byte| {
            let is_boundary = is_word(byte) != was_word;
            was_word ^= is_boundary;
            is_boundary && first.contains(byte)
        })?;
        Some(place + at)
    }

    /// Whether a match may begin at a place that [`Places::skip`] gave.
    pub(super) fn may_begin(&mut self, place: usize) -> bool {
        let Some(beginnings) = &self.lead.beginnings else {
            return true;
        };
        let reader = self.beginnings.get_or_insert_with(|| beginnings.reader());
        reader.may_begin(self.text, place)
    }

    /// The first start of a line at or after a place; the end of a text may be one too.
    fn line_start(&self, place: usize) -> Option<usize> {
        let Some(before) = place.checked_sub(1) else {
            return Some(0);
        };
        let feed = memchr(b'\n', self.text.get(before..)?)?;
        Some(place + feed)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Pattern;
    use super::*;

    fn places(pattern: &str, text: &[u8]) -> Vec<usize> {
        let lead = Lead::of(
            Pattern::parse(pattern.as_bytes())
                .expect(pattern)
                .take_tree(),
        );
        let mut places = lead.places(text);
        let mut all = Vec::new();
        let mut at = 0;
        while let Some(place) = places.next(at, text.len()) {
            all.push(place);
            at = place + 1;
        }
        all
    }

    #[test]
    fn places_are_told_by_what_stands_around_them() {
        for (pattern, text, expected) in [
            ("/^a/", &b"aa\na"[..], &[0][..]),
            ("/^a|^b/m", b"aa\na\nb", &[0, 3, 5]),
            ("/^/m", b"a\nb\n", &[0, 2, 4]),
            (r"/\ba/", b"a ba a_a \xe9a", &[0, 5, 10]),
            (r"/(?=a)\b.b/", b"ab cab ab", &[0, 7]),
            (r"/(?:\ba|\bb)c+/", b"bc abc xac", &[0]),
            (r"/(?:\ba|b)c+/", b"bc abc xac", &[0, 4, 8]),
            (r"/a?/", b"ab", &[0, 1, 2]),
            (r"/\Bb\b/", b"b ab", &[0, 3]),
            (r"/ab|c/", b"abcac", &[0, 2, 3, 4]),
        ] {
            assert_eq!(places(pattern, text), expected, "{pattern}");
        }
    }
}
