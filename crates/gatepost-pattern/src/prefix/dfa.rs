//! A DFA of the first bytes of all matches of a pattern.
//!
//! A window around a literal contains many offsets, and at nearly all of them a pattern fails
//! within a few bytes; but a pattern of a hundred alternatives needs microseconds to fail, and a
//! millisecond to be compiled for that. The first bytes of its matches form a lazy DFA, which
//! decides within nanoseconds.
//!
//! If many offsets are candidates by their first bytes, testing each of them costs more than one
//! search of the text by an unanchored DFA of the same prefixes; then only the offsets before the
//! end of a prefix that it finds are tested.
//!
//! Invariant: the DFA accepts every offset at which the pattern matches. It accepts everything that
//! it cannot follow (lookaround, references, everything beyond its depth).

use std::ops::Range;
use std::sync::OnceLock;

use super::sets::PrefixSets;
use crate::automaton::{
    ANCHORED_START, LazyDfa, LazyDfaSearcher, LiteralInfo, NfaBuilder, Position, sorted,
};
use crate::syntax::{Node, widen};

/// Bytes of a match that the DFA follows.
const DEPTH_MAX: u32 = 8;
/// Number of bytes of a text that are searched at an offset, since a loop has no end.
const SEARCHED_BYTES_MAX: usize = 32;
/// NFA positions beyond which the rest of a pattern is not followed.
const POSITIONS_MAX: usize = 2_000;

/// The prefixes of all matches of a pattern.
#[derive(Debug)]
pub(super) struct PrefixDfa {
    anchored: LazyDfa,
    /// Built when first needed.
    unanchored: OnceLock<LazyDfa>,
    /// Bytes after the first of a prefix within which the DFA decides; `SEARCHED_BYTES_MAX` where
    /// it may be undecided after this many.
    length_max: usize,
}

impl PrefixDfa {
    /// `None` if a match may be empty, or if its first bytes are unknown.
    pub(super) fn of(tree: &Node) -> Option<Self> {
        let tree = widen(tree.front(DEPTH_MAX as usize));
        let mut prefixes = PrefixBuilder {
            builder: NfaBuilder::new(),
            depths: vec![0, 0],
            lengths: vec![0, 0],
            ends: Vec::new(),
            has_loops: false,
        };
        let last = prefixes.node(&tree, vec![ANCHORED_START]);
        prefixes.ends.extend(last);
        let ends = sorted(prefixes.ends);
        if ends.contains(&ANCHORED_START) {
            return None;
        }
        let literal = LiteralInfo {
            pattern: 0,
            window: None,
            rounds: 1,
        };
        prefixes.builder.end(&ends, literal);
        let length_max = prefixes.lengths.iter().max().copied().unwrap_or(0);
        Some(Self {
            anchored: LazyDfa::new(prefixes.builder),
            unanchored: OnceLock::new(),
            length_max: if prefixes.has_loops {
                SEARCHED_BYTES_MAX
            } else {
                SEARCHED_BYTES_MAX.min(length_max)
            },
        })
    }

    /// The sets of the first bytes of all matches.
    pub(super) fn prefix_sets(&self) -> PrefixSets {
        PrefixSets::of_nfa(self.anchored.nfa())
    }

    /// A searcher for many offsets of texts.
    pub(super) fn searcher(&self) -> PrefixSearcher<'_> {
        PrefixSearcher(self.anchored.searcher())
    }

    /// The first offsets of a text, from `first` to `last`, at which matches may start, or more;
    /// `None` if no match starts between the two.
    pub(super) fn first_candidates(
        &self,
        text: &[u8],
        first: usize,
        last: usize,
    ) -> Option<Range<usize>> {
        let end = text.len().min(last + 1 + self.length_max);
        let searched = text.get(first..end)?;
        let unanchored = self.unanchored.get_or_init(|| self.anchored.unanchored());
        let mut searcher = unanchored.searcher();
        let candidates_end = match searcher.first_end(searched) {
            Some(found) => first + found,
            // No prefix extends beyond the end of the text, or beyond its greatest length.
            None if end == text.len() || self.length_max < SEARCHED_BYTES_MAX => return None,
            None => end + 1,
        };
        let started = text.get(first..candidates_end - 1)?;
        let candidates = first + searcher.first_active_start(started)..candidates_end.min(last + 1);
        (!candidates.is_empty()).then_some(candidates)
    }
}

/// Tests whether matches may start at offsets of texts.
pub(super) struct PrefixSearcher<'a>(LazyDfaSearcher<'a>);

impl PrefixSearcher<'_> {
    /// Whether a match may start at an offset of a text.
    pub(super) fn may_start(&mut self, text: &[u8], offset: usize) -> bool {
        let Some(rest) = text.get(offset..) else {
            return false;
        };
        let searched = rest.get(..SEARCHED_BYTES_MAX).unwrap_or(rest);
        // A prefix that is undecided after this many bytes is accepted.
        self.0
            .starts_with_literal(searched)
            .unwrap_or(searched.len() < rest.len())
    }
}

/// Builds the NFA of the prefixes of a pattern.
struct PrefixBuilder {
    builder: NfaBuilder,
    /// By position: the least number of bytes up to it.
    depths: Vec<u32>,
    /// By position: the greatest number of bytes up to it, each loop as one. Exceeds `DEPTH_MAX`
    /// after branches of different lengths.
    lengths: Vec<usize>,
    /// Positions in which a prefix ends: a match ends there, or is not followed any further.
    ends: Vec<Position>,
    /// The prefixes contain a loop.
    has_loops: bool,
}

impl PrefixBuilder {
    /// Adds a node after the positions `before`; returns the positions in which it may end.
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
                sorted(ends)
            }
            Node::Repeat {
                inner, min, max, ..
            } => self.repeat(inner, *min, *max, before),
            Node::Capture { inner, .. } | Node::Atomic(inner) => self.node(inner, before),
            Node::BackReference { .. }
            | Node::Recurse(_)
            | Node::Conditional { .. }
            | Node::Opaque(_) => {
                self.ends.extend(before);
                Vec::new()
            }
        }
    }

    /// Adds a position that consumes a byte, unless it is too deep.
    fn byte(
        &mut self,
        before: Vec<Position>,
        add: impl FnOnce(&mut NfaBuilder, Vec<Position>) -> Vec<Position>,
    ) -> Vec<Position> {
        let depth = |position: &Position| self.depths.get(*position as usize);
        let depth = before.iter().filter_map(depth).min().copied().unwrap_or(0);
        if depth >= DEPTH_MAX || self.depths.len() >= POSITIONS_MAX {
            self.ends.extend(before);
            return Vec::new();
        }
        let length = |position: &Position| self.lengths.get(*position as usize);
        let length = before.iter().filter_map(length).max().copied().unwrap_or(0);
        let at = add(&mut self.builder, before);
        if at.iter().any(|&at| at as usize >= self.depths.len()) {
            self.depths.push(depth + 1);
            self.lengths.push(length + 1);
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
            self.has_loops = true;
            let mut ends = self.byte(at, |builder, before| builder.bytes(set, before));
            if min == 0 {
                ends.extend(before);
            }
            return sorted(ends);
        }
        let mut ends = if min == 0 { before.clone() } else { Vec::new() };
        let mut at = before;
        for round in 1..=max.unwrap_or(u32::MAX) {
            if round > DEPTH_MAX {
                // Rounds that may be empty lead no further.
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
        sorted(ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::parse_delimited;

    fn prefix_dfa(pattern: &str) -> Option<PrefixDfa> {
        PrefixDfa::of(&parse_delimited(pattern))
    }

    #[test]
    fn offsets_with_other_prefixes_are_ruled_out() {
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
            // Parts beyond the depth that may be left out.
            (r"/a(?:bcdefghijk)?xyz/", b"abcdefghijkxyz", true),
            (r"/a(?:bcdefghijk)?xyz/", b"axyz", true),
            (r"/a(?:bcdefghijk)?xyz/", b"abcdxyz", false),
            (r"/a(?:bcdefghijk|q)*xyz/", b"abcdefghijkqxyz", true),
            (r"/v(?:i|\xc3[\xac-\xaf])a/", b"v\xc3\xada", true),
        ] {
            let dfa = prefix_dfa(pattern).expect(pattern);
            for _ in 0..2 {
                let may_start = dfa.searcher().may_start(text, 0);
                assert_eq!(may_start, expected, "{pattern}");
            }
        }
    }

    #[test]
    fn patterns_without_a_prefix_have_no_dfa() {
        for pattern in ["/a?/", "/(?=a)/", r"/(?:)/", r"/(?:a?b?){20}c/"] {
            assert!(prefix_dfa(pattern).is_none(), "{pattern}");
        }
    }

    #[test]
    fn a_prefix_of_long_branches_is_found_at_the_last_offset() {
        let start = 50;
        for (pattern, found) in [
            (
                "/(?:a|bcdefgh)(?:i|jklmnop)(?:q|rstuvwx)/",
                "bcdefghjklmnoprstuvwx",
            ),
            (
                "/(?:a|bcdefgh)?(?:i|jklmnop)(?:q|rstuvwx)/",
                "bcdefghjklmnoprstuvwx",
            ),
            (
                "/(?:a|b[a-z]*g)(?:1|1234567)(?:q|rstuvwx)/",
                "bcdefg1234567rstuvwx",
            ),
        ] {
            let dfa = prefix_dfa(pattern).expect(pattern);
            let text = format!("{}{found}{}", "-".repeat(start), "-".repeat(start));
            let candidates = dfa.first_candidates(text.as_bytes(), 0, start);
            assert!(
                candidates.is_some_and(|offsets| offsets.contains(&start)),
                "{pattern}"
            );
            let candidates = dfa.first_candidates(text.as_bytes(), 0, start - 1);
            assert_eq!(candidates, None, "{pattern}");
        }
    }
}
