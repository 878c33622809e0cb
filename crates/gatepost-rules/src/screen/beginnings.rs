//! Whether a pattern can match at a place at all, by the first bytes there.
//!
//! A window around a fragment holds many places, and at nearly all of them a pattern fails within a
//! few bytes; but a pattern of a hundred alternatives needs microseconds to find out, and a
//! millisecond to be compiled for it. So the first bytes of all its matches are an automaton too,
//! made as texts lead there like a screen's, which answers in some nanoseconds.
//!
//! Where a pattern could begin at many places by its first byte, asking at each of them costs more
//! than to read the text once with an automaton that looks for all beginnings anywhere; then only
//! the places in front of the end of one are asked.
//!
//! Invariant: where the pattern matches, the automaton says yes. What it cannot follow (looking
//! around, references, all beyond its depth) it takes as matched.

use std::ops::Range;
use std::sync::OnceLock;

use super::automaton::{Automaton, Reader};
use super::openings::Openings;
use super::positions::{AT_START, Builder, Owner, Position, in_order};
use super::widen;
use crate::pattern::Node;

/// Bytes of a match that are looked at.
const DEPTH_MAX: u32 = 8;
/// Bytes of a text that are read at a place: a set that may be met any number of times has no end of
/// its own.
const READ_MAX: usize = 32;
/// Positions beyond which the rest of a pattern is not followed.
const POSITIONS_MAX: usize = 2_000;

/// The beginnings of all matches of a pattern.
#[derive(Debug)]
pub(crate) struct Beginnings {
    at_place: Automaton,
    /// Made when first needed.
    anywhere: OnceLock<Automaton>,
    /// Bytes behind its first after which a beginning has ended, one way or the other.
    read_max: usize,
}

impl Beginnings {
    /// `None` if a match may be empty, or if nothing is known of its first bytes.
    pub(crate) fn of(tree: Node) -> Option<Self> {
        let tree = widen(tree);
        let mut walk = Walk {
            builder: Builder::new(),
            depths: vec![0, 0],
            ends: Vec::new(),
            loops: false,
        };
        let last = walk.node(&tree, vec![AT_START]);
        walk.ends.extend(last);
        let ends = in_order(walk.ends);
        if ends.contains(&AT_START) {
            return None;
        }
        let owner = Owner {
            pattern: 0,
            window: None,
            rounds: 1,
        };
        walk.builder.end(&ends, owner);
        Some(Self {
            at_place: Automaton::new(walk.builder),
            anywhere: OnceLock::new(),
            read_max: if walk.loops {
                READ_MAX
            } else {
                DEPTH_MAX as usize
            },
        })
    }

    /// With which bytes matches open.
    pub(crate) fn openings(&self) -> Openings {
        self.at_place.openings()
    }

    /// To ask for many places of texts.
    pub(crate) fn reader(&self) -> BeginningsReader<'_> {
        BeginningsReader(self.at_place.reader())
    }

    /// The first places of a text, from `first` to `last`, at which matches may begin, or more; none
    /// if a match begins at no such place.
    pub(crate) fn first_places(
        &self,
        text: &[u8],
        first: usize,
        last: usize,
    ) -> Option<Range<usize>> {
        let end = text.len().min(last + 1 + self.read_max);
        let read = text.get(first..end)?;
        let anywhere = self.anywhere.get_or_init(|| self.at_place.anywhere());
        let mut reader = anywhere.reader();
        let places_end = match reader.first_end(read) {
            Some(found) => first + found,
            // Nothing goes on behind the end of the text, or for so long.
            None if end == text.len() || self.read_max < READ_MAX => return None,
            None => end + 1,
        };
        let begun = text.get(first..places_end - 1)?;
        let places = first + reader.first_open(begun)..places_end.min(last + 1);
        (!places.is_empty()).then_some(places)
    }
}

/// Asks where matches may begin.
pub(crate) struct BeginningsReader<'a>(Reader<'a>);

impl BeginningsReader<'_> {
    /// Whether a match may begin at a place of a text.
    pub(crate) fn may_begin(&mut self, text: &[u8], place: usize) -> bool {
        let Some(rest) = text.get(place..) else {
            return false;
        };
        let read = rest.get(..READ_MAX).unwrap_or(rest);
        // What is open after so many bytes is taken as a beginning.
        self.0
            .has_beginning(read)
            .unwrap_or(read.len() < rest.len())
    }
}

/// A walk through a pattern from its start.
struct Walk {
    builder: Builder,
    /// By position: the least number of bytes before and with it.
    depths: Vec<u32>,
    /// Positions behind which a match may end, or is not followed further.
    ends: Vec<Position>,
    /// Some set may be met any number of times.
    loops: bool,
}

impl Walk {
    /// The positions in which a node may end that comes after the positions `before`.
    fn node(&mut self, node: &Node, before: Vec<Position>) -> Vec<Position> {
        if before.is_empty() {
            return before;
        }
        match node {
            Node::Empty | Node::Assertion(_) | Node::Look { .. } => before,
            Node::Byte(set) => self.byte(before, |builder, before| builder.byte(set, before)),
            Node::Concat(parts) => parts.iter().fold(before, |at, part| self.node(part, at)),
            Node::Alternate(branches) | Node::BranchReset(branches) => {
                let mut ends = Vec::new();
                for branch in branches {
                    ends.extend(self.node(branch, before.clone()));
                }
                in_order(ends)
            }
            Node::Repeat {
                inner, min, max, ..
            } => self.repeat(inner, *min, *max, before),
            Node::Capture { inner, .. } | Node::Atomic(inner) => self.node(inner, before),
            Node::BackReference { .. } | Node::Recurse(_) | Node::Conditional { .. } => {
                self.ends.extend(before);
                Vec::new()
            }
        }
    }

    /// Adds what takes a byte, unless that is too deep.
    fn byte(
        &mut self,
        before: Vec<Position>,
        add: impl FnOnce(&mut Builder, Vec<Position>) -> Vec<Position>,
    ) -> Vec<Position> {
        let depth = |position: &Position| self.depths.get(*position as usize);
        let depth = before.iter().filter_map(depth).min().copied().unwrap_or(0);
        if depth >= DEPTH_MAX || self.depths.len() >= POSITIONS_MAX {
            self.ends.extend(before);
            return Vec::new();
        }
        let at = add(&mut self.builder, before);
        if at.iter().any(|&at| at as usize >= self.depths.len()) {
            self.depths.push(depth + 1);
        }
        at
    }

    fn repeat(
        &mut self,
        inner: &Node,
        min: u32,
        max: Option<u32>,
        before: Vec<Position>,
    ) -> Vec<Position> {
        if let (Node::Byte(set), None) = (inner, max) {
            let mut at = before.clone();
            for _ in 1..min {
                at = self.node(inner, at);
            }
            if at.is_empty() {
                return at;
            }
            self.loops = true;
            let mut ends = self.byte(at, |builder, before| builder.bytes(set, before));
            if min == 0 {
                ends.extend(before);
            }
            return in_order(ends);
        }
        let mut ends = if min == 0 { before.clone() } else { Vec::new() };
        let mut at = before;
        for round in 1..=max.unwrap_or(u32::MAX) {
            if round > DEPTH_MAX {
                // Rounds that may be empty: they lead no further.
                self.ends.extend(at);
                break;
            }
            at = self.node(inner, at);
            if at.is_empty() {
                break;
            }
            if round >= min {
                ends.extend_from_slice(&at);
            }
        }
        in_order(ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::Pattern;

    fn beginnings(pattern: &str) -> Option<Beginnings> {
        let mut pattern = Pattern::parse(pattern.as_bytes()).unwrap();
        Beginnings::of(pattern.take_tree())
    }

    #[test]
    fn places_that_begin_otherwise_are_told() {
        for (pattern, text, expected) in [
            ("/(?:your |my )?(?:name|age)[ :]/i", &b"Your AGE:"[..], true),
            ("/(?:your |my )?(?:name|age)[ :]/i", b"your agent", false),
            ("/(?:your |my )?(?:name|age)[ :]/i", b"your ag", false),
            (r"/\b(?=x)a{2,}b/", b"aaab", true),
            (r"/\b(?=x)a{2,}b/", b"ab", false),
            (r"/[a-z]+teen/", b"seventeen", true),
            (r"/[a-z]+teen/", b"seventeens", true),
            (r"/[a-z]+teen/", b"seventies", false),
            (r"/[a-z]+teen/", b"teenagers", false),
            (r"/x[a-z]*1/", b"x1", true),
            (r"/x[a-z]*1/", b"xabcdefghijklmnopqrst1", true),
            (r"/x[a-z]*1/", b"xabcdefghijklmnopqrst2", false),
            (
                r"/x[a-z]*1/",
                b"xabcdefghijklmnopqrstuvwxyzabcdefghijkl",
                true,
            ),
            (r"/(?:ab){9}c/", b"ababababab", true),
            (r"/(?:ab){9}c/", b"ababac", false),
            (r"/(?:a|b)(c)\1/", b"bcx", true),
            (r"/v(?:i|\xc3[\xac-\xaf])a/", b"v\xc3\xada", true),
        ] {
            let beginnings = beginnings(pattern).expect(pattern);
            for _ in 0..2 {
                let may_begin = beginnings.reader().may_begin(text, 0);
                assert_eq!(may_begin, expected, "{pattern}");
            }
        }
    }

    #[test]
    fn what_may_begin_anywhere_is_not_looked_at() {
        for pattern in ["/a?/", "/(?=a)/", r"/(?:)/", r"/(?:a?b?){20}c/"] {
            assert!(beginnings(pattern).is_none(), "{pattern}");
        }
    }
}
