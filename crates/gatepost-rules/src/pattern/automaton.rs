//! Patterns that a finite automaton matches with the same result as Perl.
//!
//! Perl tries alternatives in order, and so does regex-automata ("leftmost first"), so spans are
//! equal too. What has no equal is refused, and left to PCRE2: looking around, atomic and
//! possessive parts, references, and `$` where it is not clear that the pattern before it left the last
//! line feed alone. `$` matches before that line feed and takes nothing of it, which an automaton
//! cannot say: it takes the line feed in, and the match is shortened by it.

use regex_automata::meta;
use regex_automata::{Anchored, Input};
use regex_syntax::hir::{Class, ClassBytes, ClassBytesRange, Hir, Look, Repetition};

use super::node::{Assertion, Greed, Node};

/// The memory that one pattern's compiled form may take; larger ones go to PCRE2.
const AUTOMATON_BYTES_MAX: usize = 256 * 1024;
/// The memory that one pattern's lazily built states may take, per thread.
const CACHE_BYTES_MAX: usize = 64 * 1024;
/// Beyond this many positions after unrolling counted repetitions no automaton is tried.
const POSITIONS_MAX: usize = 2_000;

/// A pattern compiled to an automaton.
#[derive(Debug)]
pub(super) struct Automaton {
    regex: meta::Regex,
    /// The pattern itself takes no last line feed: one at the end of a match is one that a `$` stands
    /// before.
    ends_before_feed: bool,
}

impl Automaton {
    /// Compiles a pattern; `None` if it has no exact equal, or one that grows too large.
    pub(super) fn of(node: &Node) -> Option<Self> {
        let regex = compile(&translate(node)?)?;
        Some(Self {
            regex,
            ends_before_feed: !may_end_with_feed(node),
        })
    }

    /// The first match at or after `start`.
    pub(super) fn find(&self, text: &[u8], start: usize) -> Option<(usize, usize)> {
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
    if positions(node) > POSITIONS_MAX || asks_for_text_end(node) && may_end_with_feed(node) {
        return None;
    }
    convert(node, true)
}

/// Whether a part is `$` that does not mean the end of any line.
fn asks_for_text_end(node: &Node) -> bool {
    match node {
        Node::Assertion(assertion) => *assertion == Assertion::TextEndOrLastLineFeed,
        Node::Concat(parts) | Node::Alternate(parts) => parts.iter().any(asks_for_text_end),
        Node::Repeat { inner, .. } | Node::Capture { inner, .. } => asks_for_text_end(inner),
        // The others are not translated at all.
        _ => false,
    }
}

/// Whether the last byte that a match takes can be a line feed.
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
        Node::Empty | Node::BackReference { .. } | Node::Recurse(_) => 0,
    }
}

/// `last`: whether nothing of the pattern comes after this node.
fn convert(node: &Node, last: bool) -> Option<Hir> {
    Some(match node {
        Node::Empty => Hir::empty(),
        Node::Byte(set) => {
            let ranges = set.ranges().into_iter();
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
            // A loop over what may be empty ends in Perl after one empty round: leave it there.
            if *greed == Greed::Possessive || inner.min_len() == 0 {
                return None;
            }
            Hir::repetition(Repetition {
                min: *min,
                max: *max,
                greedy: *greed == Greed::Greedy,
                sub: Box::new(convert(inner, false)?),
            })
        }
        Node::Capture { name: None, inner } => convert(inner, last)?,
        Node::Capture { name: Some(_), .. }
        | Node::Look { .. }
        | Node::Atomic(_)
        | Node::BackReference { .. }
        | Node::Recurse(_)
        | Node::Conditional { .. }
        | Node::BranchReset(_) => return None,
    })
}

fn convert_assertion(assertion: Assertion, last: bool) -> Option<Hir> {
    Some(match assertion {
        Assertion::TextStart => Hir::look(Look::Start),
        Assertion::TextEnd => Hir::look(Look::End),
        // Taken in here, and out again where the match is told.
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
            // Perl's line start is not after a final line feed: equal where something must follow.
            Node::Assertion(Assertion::LineStart) if length_after > 0 => Hir::look(Look::StartLF),
            part => convert(part, last && after.is_empty())?,
        });
    }
    Some(Hir::concat(converted))
}
