//! With what the matches of a pattern begin: where a pattern need not be tried.
//!
//! At nearly all places of a text a pattern fails within a few bytes. What those must be is known
//! from its tree, and asked before the compiled pattern is, or is made at all. Searches go from one
//! place that may begin a match to the next; a pattern that may begin at too many is left to PCRE2's
//! own search.
//!
//! Invariant: where the pattern matches, [`Places`] gives the place.

use std::ops::Range;

use memchr::memmem::Finder;
use memchr::{memchr, memchr2};

use super::byte_set::ByteSet;
use super::node::{Assertion, Node};
use super::plain::{Plain, is_word, is_word_boundary};
use crate::screen::{Beginnings, BeginningsReader, Openings};

/// Where more of all bytes may begin a match than this, the text is read for beginnings instead of asking
/// at each.
const ASKED_CHANCE_MAX: f32 = 0.15;
/// Of so many bytes a word begins or ends at one.
const BYTES_PER_BOUNDARY: f32 = 3.0;
/// Fewer places are asked one by one.
const READ_PLACES_MIN: usize = 48;
/// Shorter rows of bytes are met too often to be looked for as a whole.
const ROW_BYTES_MIN: usize = 3;

/// With what the matches of a pattern begin.
#[derive(Debug)]
pub(super) struct Lead {
    /// The bytes of which one stands first in every match; `None` where a match may be empty.
    first: Option<(ByteSet, First)>,
    /// What stands first, and behind it; as little as the first byte, where no more is known.
    openings: Option<Openings>,
    start: Start,
    /// `None` where nothing is known, or where the pattern is plain.
    beginnings: Option<Beginnings>,
    /// Whether matches may begin at so many places by their first byte that texts are read for
    /// beginnings.
    reads: bool,
    /// The whole pattern, if it is so simple.
    pub(super) plain: Option<Plain>,
}

/// What stands first in every match.
#[derive(Debug)]
enum First {
    /// A row of bytes.
    Row(Box<Finder<'static>>),
    One(u8),
    /// A letter in either case, for instance.
    Two(u8, u8),
    Set,
}

impl First {
    fn of(tree: &Node, set: &ByteSet) -> Self {
        let mut row = Vec::new();
        add_row(tree, &mut row);
        if row.len() >= ROW_BYTES_MIN {
            return Self::Row(Box::new(Finder::new(&row).into_owned()));
        }
        let mut bytes = set.iter();
        match (bytes.next(), bytes.next(), bytes.next()) {
            (Some(one), None, None) => Self::One(one),
            (Some(one), Some(other), None) => Self::Two(one, other),
            _ => Self::Set,
        }
    }
}

/// Adds the bytes with which each match of a node begins, in their order. Whether what comes after the node
/// comes next.
fn add_row(node: &Node, row: &mut Vec<u8>) -> bool {
    match node {
        Node::Empty | Node::Assertion(_) | Node::Look { .. } => true,
        Node::Byte(set) if set.len() == 1 => {
            row.extend(set.iter());
            true
        }
        Node::Concat(parts) => parts.iter().all(|part| add_row(part, row)),
        Node::Capture { inner, .. } | Node::Atomic(inner) => add_row(inner, row),
        _ => false,
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
        let first = tree.first_bytes();
        let first = first.map(|set| (set, First::of(&tree, &set)));
        let start = Start::of(&tree);
        let beginnings = match plain {
            Some(_) => None,
            None => Beginnings::of(tree),
        };
        let openings = first.as_ref().map(|(set, _)| match &beginnings {
            Some(beginnings) => beginnings.openings().begin_with(set),
            None => Openings::of(*set),
        });
        let chance_all = openings.as_ref().map_or(1.0, Openings::chance);
        let chance_asked = match start {
            Start { of_text: true, .. } | Start { of_line: true, .. } => 0.0,
            Start { at_word: true, .. } => chance_all / BYTES_PER_BOUNDARY,
            _ => chance_all,
        };
        Self {
            first,
            openings,
            start,
            beginnings,
            reads: chance_asked > ASKED_CHANCE_MAX,
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
            open: 0..0,
            block: None,
        }
    }
}

/// The places of one text at which matches may begin.
pub(super) struct Places<'a> {
    lead: &'a Lead,
    text: &'a [u8],
    /// Made for the first place that is asked about.
    beginnings: Option<BeginningsReader<'a>>,
    /// The places that are left after reading up to the last of them.
    open: Range<usize>,
    /// Where the last block begins that was looked at, and at which of its places a match may begin.
    block: Option<(usize, u64)>,
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

    /// The next place from `place` to `last` by its first byte, and by what stands before it. Asked
    /// for places in their order.
    pub(super) fn skip(&mut self, mut place: usize, last: usize) -> Option<usize> {
        let Some(beginnings) = self.lead.beginnings.as_ref().filter(|_| self.lead.reads) else {
            return self.skip_by_byte(place, last);
        };
        while place <= last {
            if place >= self.open.end {
                self.open = if last - place < READ_PLACES_MIN {
                    place..last + 1
                } else {
                    beginnings.first_places(self.text, place, last)?
                };
            }
            let open_last = last.min(self.open.end - 1);
            let next = self.skip_by_byte(place.max(self.open.start), open_last);
            if next.is_some() {
                return next;
            }
            place = self.open.end;
        }
        None
    }

    fn skip_by_byte(&mut self, mut place: usize, last: usize) -> Option<usize> {
        let Lead { first, start, .. } = self.lead;
        if start.of_text {
            return (place == 0).then_some(0);
        }
        while place <= last {
            if start.of_line {
                place = self.line_start(place).filter(|place| *place <= last)?;
            }
            if let Some((set, first)) = first {
                let rest = self.text.get(place..)?;
                if start.of_line {
                    if !rest.first().is_some_and(|&byte| set.contains(byte)) {
                        place += 1;
                        continue;
                    }
                } else {
                    let up_to = |bytes: usize| rest.get(..last - place + bytes).unwrap_or(rest);
                    match first {
                        First::Row(row) => place += row.find(up_to(row.needle().len()))?,
                        First::One(one) if !start.at_word => place += memchr(*one, up_to(1))?,
                        First::Two(one, other) if !start.at_word => {
                            place += memchr2(*one, *other, up_to(1))?;
                        }
                        _ => return self.skip_by_block(place, last),
                    }
                }
            }
            if !start.at_word || is_word_boundary(self.text, place) {
                return Some(place);
            }
            place += 1;
        }
        None
    }

    /// The next place from `place` to `last` at which a match may open, and a word begins or ends if that
    /// is asked.
    fn skip_by_block(&mut self, mut place: usize, last: usize) -> Option<usize> {
        while place <= last {
            let (start, places) = match self.block {
                Some((start, places)) if (start..start + ByteSet::BLOCK_BYTES).contains(&place) => {
                    (start, places)
                }
                _ => (place, self.block_at(place)?),
            };
            self.block = Some((start, places));
            let places = places >> (place - start);
            if places != 0 {
                place += places.trailing_zeros() as usize;
                return (place <= last).then_some(place);
            }
            place = start + ByteSet::BLOCK_BYTES;
        }
        None
    }

    /// At which of the places from one on matches may begin.
    fn block_at(&self, place: usize) -> Option<u64> {
        let rest = self.text.get(place..).filter(|rest| !rest.is_empty())?;
        let places = self.lead.openings.as_ref()?.places(rest);
        if places == 0 || !self.lead.start.at_word {
            return Some(places);
        }
        let words = ByteSet::WORD.members(rest);
        let before = place.checked_sub(1).and_then(|at| self.text.get(at));
        let follows_word = before.is_some_and(|&byte| is_word(byte));
        Some(places & (words ^ (words << 1 | u64::from(follows_word))))
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
