//! Patterns that regex-automata matches in linear time with the same result as Perl.
//!
//! Perl tries alternatives in order, and so does regex-automata ("leftmost first"), so spans are
//! equal too. Constructs without an equivalent are refused and left to PCRE2: lookaround, atomic
//! and possessive parts, references, and `$` if the pattern before it may consume the last line
//! feed. `$` matches before that line feed, which regex-automata cannot express: the translation
//! consumes the line feed, and the match is shortened by it.

use regex_automata::meta;
use regex_automata::{Anchored, Input};
use regex_syntax::hir::{Class, ClassBytes, ClassBytesRange, Hir, Look, Repetition};

use crate::syntax::{Assertion, Greediness, Node};

/// The maximum memory of one compiled pattern; larger ones use PCRE2.
const AUTOMATON_BYTES_MAX: usize = 256 * 1024;
/// The memory of one pattern's lazy DFA, per thread.
const CACHE_BYTES_MAX: usize = 64 * 1024;
/// A pattern with more positions, its counted repetitions unrolled, is not compiled.
const POSITIONS_MAX: usize = 2_000;

/// A pattern compiled by regex-automata.
#[derive(Debug)]
pub(crate) struct LinearEngine {
    regex: meta::Regex,
    /// The pattern itself never consumes a last line feed: one at the end of a match is the one
    /// after `$`.
    ends_before_feed: bool,
}

impl LinearEngine {
    /// Compiles a pattern; `None` if it has no exact equivalent, or one that is too large.
    pub(crate) fn of(node: &Node) -> Option<Self> {
        let regex = compile(&translate(node)?)?;
        Some(Self {
            regex,
            ends_before_feed: !may_end_with_feed(node),
        })
    }

    /// The first match at or after `start`.
    pub(crate) fn find(&self, text: &[u8], start: usize) -> Option<(usize, usize)> {
        if start > text.len() {
            return None;
        }
        let input = Input::new(text).range(start..).anchored(Anchored::No);
        let found = self.regex.search(&input)?.range();
        let takes_feed = self.ends_before_feed
            && !found.is_empty()
            && found.end == text.len()
            && text.ends_with(b"\n");
        Some((found.start, found.end - usize::from(takes_feed)))
    }
}

fn translate(node: &Node) -> Option<Hir> {
    if positions(node) > POSITIONS_MAX || requires_text_end(node) && may_end_with_feed(node) {
        return None;
    }
    convert(node, true)
}

/// Whether a node contains `$` with the meaning of the end of the text.
fn requires_text_end(node: &Node) -> bool {
    match node {
        Node::Assertion(assertion) => *assertion == Assertion::TextEndOrLastLineFeed,
        Node::Concat(parts) | Node::Alternate(parts) => parts.iter().any(requires_text_end),
        Node::Repeat { inner, .. } | Node::Capture { inner, .. } => requires_text_end(inner),
        // The others are not translated at all.
        _ => false,
    }
}

/// Whether the last byte of a match can be a line feed.
fn may_end_with_feed(node: &Node) -> bool {
    match node {
        Node::Byte(set) => set.contains(b'\n'),
        Node::Concat(parts) => {
            for part in parts.iter().rev() {
                if may_end_with_feed(part) {
                    return true;
                }
                if part.min_len() > 0 {
                    return false;
                }
            }
            false
        }
        Node::Alternate(parts) => parts.iter().any(may_end_with_feed),
        Node::Repeat { inner, .. } | Node::Capture { inner, .. } => may_end_with_feed(inner),
        Node::Empty | Node::Assertion(_) => false,
        // Not translated.
        _ => true,
    }
}

fn compile(hir: &Hir) -> Option<meta::Regex> {
    meta::Builder::new()
        .configure(
            meta::Config::new()
                .utf8_empty(false)
                .nfa_size_limit(Some(AUTOMATON_BYTES_MAX))
                .hybrid_cache_capacity(CACHE_BYTES_MAX)
                .onepass(false)
                .which_captures(regex_automata::nfa::thompson::WhichCaptures::Implicit),
        )
        .build_from_hir(hir)
        .ok()
}

/// The size of the pattern with its counted repetitions unrolled.
fn positions(node: &Node) -> usize {
    match node {
        Node::Byte(_) | Node::Assertion(_) => 1,
        Node::Concat(parts) | Node::Alternate(parts) | Node::BranchReset(parts) => parts
            .iter()
            .fold(0, |sum: usize, part| sum.saturating_add(positions(part))),
        Node::Repeat {
            inner, min, max, ..
        } => positions(inner).saturating_mul(max.unwrap_or(min + 1).max(1) as usize),
        Node::Capture { inner, .. } | Node::Atomic(inner) | Node::Look { inner, .. } => {
            positions(inner)
        }
        Node::Conditional { yes, no, .. } => positions(yes).saturating_add(positions(no)),
        Node::Empty | Node::BackReference { .. } | Node::Recurse(_) | Node::Opaque(_) => 0,
    }
}

/// `last` states whether this node is the last of the pattern.
fn convert(node: &Node, last: bool) -> Option<Hir> {
    Some(match node {
        Node::Empty => Hir::empty(),
        Node::Byte(set) => {
            let ranges = set.ranges();
            let ranges = ranges.map(|(first, last)| ClassBytesRange::new(first, last));
            Hir::class(Class::Bytes(ClassBytes::new(ranges)))
        }
        Node::Assertion(assertion) => convert_assertion(*assertion, last)?,
        Node::Concat(parts) => convert_concat(parts, last)?,
        Node::Alternate(branches) => Hir::alternation(
            branches
                .iter()
                .map(|branch| convert(branch, last))
                .collect::<Option<_>>()?,
        ),
        Node::Repeat {
            inner,
            min,
            max,
            greed,
        } => {
            // A loop over a part that may be empty ends in Perl after one empty round.
            if *greed == Greediness::Possessive || inner.min_len() == 0 {
                return None;
            }
            Hir::repetition(Repetition {
                min: *min,
                max: *max,
                greedy: *greed == Greediness::Greedy,
                sub: Box::new(convert(inner, false)?),
            })
        }
        Node::Capture { name: None, inner } => convert(inner, last)?,
        Node::Capture { name: Some(_), .. }
        | Node::Look { .. }
        | Node::Atomic(_)
        | Node::BackReference { .. }
        | Node::Recurse(_)
        | Node::Opaque(_)
        | Node::Conditional { .. }
        | Node::BranchReset(_) => return None,
    })
}

fn convert_assertion(assertion: Assertion, last: bool) -> Option<Hir> {
    Some(match assertion {
        Assertion::TextStart => Hir::look(Look::Start),
        Assertion::TextEnd => Hir::look(Look::End),
        // Consumed here, and removed again when the match is reported.
        Assertion::TextEndOrLastLineFeed if last => Hir::concat(vec![
            Hir::repetition(Repetition {
                min: 0,
                max: Some(1),
                greedy: true,
                sub: Box::new(Hir::literal(*b"\n")),
            }),
            Hir::look(Look::End),
        ]),
        Assertion::LineEnd => Hir::look(Look::EndLF),
        Assertion::WordBoundary => Hir::look(Look::WordAscii),
        Assertion::NotWordBoundary => Hir::look(Look::WordAsciiNegate),
        Assertion::LineStart
        | Assertion::TextEndOrLastLineFeed
        | Assertion::SearchStart
        | Assertion::Keep => return None,
    })
}

fn convert_concat(parts: &[Node], last: bool) -> Option<Hir> {
    let mut converted = Vec::with_capacity(parts.len());
    let mut rest = parts;
    while let [part, after @ ..] = rest {
        rest = after;
        let length_after: usize = after.iter().map(Node::min_len).sum();
        converted.push(match part {
            // Perl's line start is not after a last line feed: equivalent where something must
            // follow.
            Node::Assertion(Assertion::LineStart) if length_after > 0 => Hir::look(Look::StartLF),
            part => convert(part, last && after.is_empty())?,
        });
    }
    Some(Hir::concat(converted))
}
