//! First-byte and prefix sets: the offsets at which a match of one pattern can start.
//!
//! At nearly all offsets of a text a pattern fails within a few bytes. The possible first bytes
//! follow from its syntax tree, and are tested before the pattern is matched by an engine, or
//! compiled at all. Searches go from one candidate to the next; a pattern with too many candidates
//! is left to PCRE2's own search.
//!
//! Three filters rule out offsets, the cheapest first: the first byte or literal by `memchr`, the
//! sets of the first three bytes ([`sets`]), and a DFA of the first bytes of all matches ([`dfa`]).
//!
//! Invariant: every offset at which the pattern matches is a candidate.

mod dfa;
mod sets;

use std::ops::Range;

use memchr::memmem::Finder;
use memchr::{memchr, memchr2};

use crate::byte_set::{ByteSet, is_word, is_word_boundary};
use crate::engine::LiteralPattern;
use crate::syntax::{Assertion, Node};
use dfa::{PrefixDfa, PrefixSearcher};
use sets::PrefixSets;

/// If a larger share of offsets is a candidate by its bytes, the prefix DFA searches the text
/// instead of testing each offset.
const TESTED_SHARE_MAX: f32 = 0.15;
/// One of this many offsets is a word boundary.
const BYTES_PER_BOUNDARY: f32 = 3.0;
/// Fewer offsets are tested one by one.
const SEARCHED_OFFSETS_MIN: usize = 48;
/// Shorter literals are too common to be searched for as a whole.
const LITERAL_BYTES_MIN: usize = 3;

/// Rules out offsets at which no match of a pattern starts.
#[derive(Debug)]
pub(crate) struct PrefixFilter {
    /// The set of first bytes of all matches; `None` where a match may be empty.
    first: Option<(ByteSet, FirstBytes)>,
    /// The sets of the first bytes; only that of the first byte if no more is known.
    sets: Option<PrefixSets>,
    start: StartCondition,
    /// `None` if nothing is known, or if the pattern consists of a few literals.
    dfa: Option<PrefixDfa>,
    /// Too many offsets are candidates by their first bytes, so the DFA searches the text.
    searches_by_dfa: bool,
    /// The pattern itself, if it is a few literals.
    pub(crate) literal: Option<LiteralPattern>,
}

/// The first bytes of every match.
#[derive(Debug)]
enum FirstBytes {
    /// One literal.
    Literal(Box<Finder<'static>>),
    One(u8),
    /// Two bytes, such as a letter in either case.
    Two(u8, u8),
    Set,
}

impl FirstBytes {
    fn of(tree: &Node, set: &ByteSet) -> Self {
        let mut literal = Vec::new();
        add_literal(tree, &mut literal);
        if literal.len() >= LITERAL_BYTES_MIN {
            return Self::Literal(Box::new(Finder::new(&literal).into_owned()));
        }
        let mut bytes = set.iter();
        match (bytes.next(), bytes.next(), bytes.next()) {
            (Some(one), None, None) => Self::One(one),
            (Some(one), Some(other), None) => Self::Two(one, other),
            _ => Self::Set,
        }
    }
}

/// Appends the literal with which every match of a node begins. Returns whether the node matches
/// nothing else, so that the next node continues the literal.
fn add_literal(node: &Node, literal: &mut Vec<u8>) -> bool {
    match node {
        Node::Empty | Node::Assertion(_) | Node::Look { .. } => true,
        Node::Byte(set) if set.len() == 1 => {
            literal.extend(set.iter());
            true
        }
        Node::Concat(parts) => parts.iter().all(|part| add_literal(part, literal)),
        Node::Capture { inner, .. } | Node::Atomic(inner) => add_literal(inner, literal),
        _ => false,
    }
}

/// The known conditions on the offsets at which matches start, other than the bytes from there on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct StartCondition {
    /// Only at the start of a text.
    of_text: bool,
    /// Only at starts of lines.
    of_line: bool,
    /// Only at word boundaries.
    at_word: bool,
}

impl StartCondition {
    const UNANCHORED_START: Self = Self {
        of_text: false,
        of_line: false,
        at_word: false,
    };

    fn of(node: &Node) -> Self {
        match node {
            Node::Assertion(Assertion::TextStart) => Self {
                of_text: true,
                ..Self::UNANCHORED_START
            },
            Node::Assertion(Assertion::LineStart) => Self {
                of_line: true,
                ..Self::UNANCHORED_START
            },
            Node::Assertion(Assertion::WordBoundary) => Self {
                at_word: true,
                ..Self::UNANCHORED_START
            },
            Node::Capture { inner, .. } | Node::Atomic(inner) => Self::of(inner),
            Node::Concat(parts) => {
                let mut all = Self::UNANCHORED_START;
                for part in parts {
                    let part_start = Self::of(part);
                    all.of_text |= part_start.of_text;
                    all.of_line |= part_start.of_line;
                    all.at_word |= part_start.at_word;
                    // The part after one of these is still at the start of the match.
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
                    .unwrap_or(Self::UNANCHORED_START)
            }
            _ => Self::UNANCHORED_START,
        }
    }
}

impl PrefixFilter {
    pub(crate) fn of(tree: &Node) -> Self {
        let literal = LiteralPattern::of(tree);
        let first = tree.first_bytes();
        let first = first.map(|set| (set, FirstBytes::of(tree, &set)));
        let start = StartCondition::of(tree);
        let dfa = match literal {
            Some(_) => None,
            None => PrefixDfa::of(tree),
        };
        let sets = first.as_ref().map(|(set, _)| match &dfa {
            Some(dfa) => dfa.prefix_sets().with_first(set),
            None => PrefixSets::of(*set),
        });
        let share = sets.as_ref().map_or(1.0, PrefixSets::probability);
        let tested_share = match start {
            StartCondition { of_text: true, .. } | StartCondition { of_line: true, .. } => 0.0,
            StartCondition { at_word: true, .. } => share / BYTES_PER_BOUNDARY,
            _ => share,
        };
        Self {
            first,
            sets,
            start,
            dfa,
            searches_by_dfa: tested_share > TESTED_SHARE_MAX,
            literal,
        }
    }

    /// Whether the filter rules out any offset.
    pub(crate) fn is_useful(&self) -> bool {
        self.first.is_some() || self.start.of_text || self.start.of_line
    }

    /// Whether a search from an offset certainly finds no match.
    pub(crate) fn rules_out(&self, text: &[u8], offset: usize) -> bool {
        self.start.of_text && (offset > 0 || self.candidates(text).next(0, 0).is_none())
    }

    /// The offsets of a text at which matches may start.
    pub(crate) fn candidates<'a>(&'a self, text: &'a [u8]) -> StartCandidates<'a> {
        StartCandidates {
            filter: self,
            text,
            searcher: None,
            open: 0..0,
            block: None,
        }
    }
}

/// The offsets of one text at which matches may start.
pub(crate) struct StartCandidates<'a> {
    filter: &'a PrefixFilter,
    text: &'a [u8],
    /// Made when the first offset is tested.
    searcher: Option<PrefixSearcher<'a>>,
    /// The offsets that the DFA did not rule out, up to the last that it searched.
    open: Range<usize>,
    /// The start of the last block that was tested, and the candidates in it, one bit each.
    block: Option<(usize, u64)>,
}

impl StartCandidates<'_> {
    /// The next offset from `offset` to `last` at which a match may start.
    pub(crate) fn next(&mut self, mut offset: usize, last: usize) -> Option<usize> {
        loop {
            offset = self.skip(offset, last)?;
            if self.may_start(offset) {
                return Some(offset);
            }
            offset += 1;
        }
    }

    /// The next offset from `offset` to `last` that is a candidate by its first bytes and by the
    /// byte before it, without a test by the DFA. Offsets must be requested in ascending order.
    pub(crate) fn skip(&mut self, mut offset: usize, last: usize) -> Option<usize> {
        let by_dfa = self.filter.searches_by_dfa;
        let Some(dfa) = self.filter.dfa.as_ref().filter(|_| by_dfa) else {
            return self.skip_by_first_byte(offset, last);
        };
        while offset <= last {
            if offset >= self.open.end {
                self.open = if last - offset < SEARCHED_OFFSETS_MIN {
                    offset..last + 1
                } else {
                    dfa.first_candidates(self.text, offset, last)?
                };
            }
            let open_last = last.min(self.open.end - 1);
            let next = self.skip_by_first_byte(offset.max(self.open.start), open_last);
            if next.is_some() {
                return next;
            }
            offset = self.open.end;
        }
        None
    }

    fn skip_by_first_byte(&mut self, mut offset: usize, last: usize) -> Option<usize> {
        let PrefixFilter { first, start, .. } = self.filter;
        if start.of_text {
            return (offset == 0).then_some(0);
        }
        while offset <= last {
            if start.of_line {
                offset = self.line_start(offset).filter(|offset| *offset <= last)?;
            }
            if let Some((set, first)) = first {
                let rest = self.text.get(offset..)?;
                if start.of_line {
                    if !rest.first().is_some_and(|&byte| set.contains(byte)) {
                        offset += 1;
                        continue;
                    }
                } else {
                    let up_to = |bytes: usize| rest.get(..last - offset + bytes).unwrap_or(rest);
                    match first {
                        FirstBytes::Literal(literal) => {
                            offset += literal.find(up_to(literal.needle().len()))?;
                        }
                        FirstBytes::One(one) if !start.at_word => offset += memchr(*one, up_to(1))?,
                        FirstBytes::Two(one, other) if !start.at_word => {
                            offset += memchr2(*one, *other, up_to(1))?;
                        }
                        _ => return self.skip_by_block(offset, last),
                    }
                }
            }
            if !start.at_word || is_word_boundary(self.text, offset) {
                return Some(offset);
            }
            offset += 1;
        }
        None
    }

    /// The next offset from `offset` to `last` at which the prefix sets fit, at a word boundary if
    /// the pattern starts with one.
    fn skip_by_block(&mut self, mut offset: usize, last: usize) -> Option<usize> {
        while offset <= last {
            let (start, candidates) = match self.block {
                Some((start, candidates))
                    if (start..start + ByteSet::BLOCK_BYTES).contains(&offset) =>
                {
                    (start, candidates)
                }
                _ => (offset, self.block_at(offset)?),
            };
            self.block = Some((start, candidates));
            let candidates = candidates >> (offset - start);
            if candidates != 0 {
                offset += candidates.trailing_zeros() as usize;
                return (offset <= last).then_some(offset);
            }
            offset = start + ByteSet::BLOCK_BYTES;
        }
        None
    }

    /// The candidates of the block that starts at an offset, one bit each.
    fn block_at(&self, offset: usize) -> Option<u64> {
        let rest = self.text.get(offset..).filter(|rest| !rest.is_empty())?;
        let candidates = self.filter.sets.as_ref()?.candidates(rest);
        if candidates == 0 || !self.filter.start.at_word {
            return Some(candidates);
        }
        let words = ByteSet::WORD.members(rest);
        let before = offset.checked_sub(1).and_then(|at| self.text.get(at));
        let follows_word = before.is_some_and(|&byte| is_word(byte));
        Some(candidates & (words ^ (words << 1 | u64::from(follows_word))))
    }

    /// Whether a match may start at an offset that [`StartCandidates::skip`] returned, by the DFA.
    pub(crate) fn may_start(&mut self, offset: usize) -> bool {
        let Some(dfa) = &self.filter.dfa else {
            return true;
        };
        let searcher = self.searcher.get_or_insert_with(|| dfa.searcher());
        searcher.may_start(self.text, offset)
    }

    /// The first start of a line at or after an offset; the end of a text may be one too.
    fn line_start(&self, offset: usize) -> Option<usize> {
        let Some(before) = offset.checked_sub(1) else {
            return Some(0);
        };
        let feed = memchr(b'\n', self.text.get(before..)?)?;
        Some(offset + feed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::parse_delimited;

    fn candidates(pattern: &str, text: &[u8]) -> Vec<usize> {
        let filter = PrefixFilter::of(&parse_delimited(pattern));
        let mut candidates = filter.candidates(text);
        let mut all = Vec::new();
        let mut at = 0;
        while let Some(offset) = candidates.next(at, text.len()) {
            all.push(offset);
            at = offset + 1;
        }
        all
    }

    #[test]
    fn candidates_depend_on_the_bytes_around_them() {
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
            assert_eq!(candidates(pattern, text), expected, "{pattern}");
        }
    }
}
