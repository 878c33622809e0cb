//! Patterns that are a few literals, and are matched without a regex engine.
//!
//! Many rules are a word or a phrase. Comparing a few bytes costs less than entering an engine, and
//! such a pattern need not be compiled.

use crate::byte_set::{ByteSet, is_word_boundary};
use crate::syntax::{Assertion, Greediness, Node};

/// Literals, and steps of all of them, beyond which a pattern is compiled.
const LITERALS_MAX: usize = 16;
const STEPS_MAX: usize = 128;

/// Literals, tried in the order in which Perl tries alternatives.
#[derive(Debug)]
pub(crate) struct LiteralPattern {
    literals: Box<[Box<[LiteralStep]>]>,
    /// The literals of one byte.
    single: ByteSet,
    /// The first bytes of the other literals.
    others: ByteSet,
}

#[derive(Debug, Clone, Copy)]
enum LiteralStep {
    Byte(ByteSet),
    /// A position at which a word starts or ends; it consumes nothing.
    WordBoundary,
}

impl LiteralPattern {
    /// `None` if the pattern is too complex, or matches the empty text.
    pub(crate) fn of(tree: &Node) -> Option<Self> {
        let literals = expanded(tree, vec![Vec::new()])?;
        let takes_bytes = |literal: &Vec<LiteralStep>| {
            literal
                .iter()
                .any(|step| matches!(step, LiteralStep::Byte(_)))
        };
        let never_empty = literals.iter().all(takes_bytes);
        never_empty.then(|| {
            let (mut single, mut others) = (ByteSet::EMPTY, ByteSet::EMPTY);
            for literal in &literals {
                let mut sets = literal.iter().filter_map(|step| match step {
                    LiteralStep::Byte(set) => Some(set),
                    LiteralStep::WordBoundary => None,
                });
                let first = sets.next().copied().unwrap_or_default();
                let all = if literal.len() == 1 {
                    &mut single
                } else {
                    &mut others
                };
                *all = all.union(&first);
            }
            Self {
                literals: literals.into_iter().map(Into::into).collect(),
                single,
                others,
            }
        })
    }

    /// The number of matches, if literals of one byte determine it.
    pub(crate) fn count_single(&self, text: &[u8]) -> Option<usize> {
        if self.single.len() == 0 {
            return None;
        }
        text.chunks(ByteSet::BLOCK_BYTES)
            .try_fold(0, |count, block| {
                let is_single = self.others.len() == 0 || self.others.members(block) == 0;
                is_single.then(|| count + self.single.members(block).count_ones() as usize)
            })
    }

    /// The end of the match that starts at an offset.
    pub(crate) fn end_at(&self, text: &[u8], offset: usize) -> Option<usize> {
        self.literals
            .iter()
            .find_map(|literal| end_of(literal, text, offset))
    }
}

/// Each of the literals followed by each text of a node, in the order in which Perl tries them.
fn expanded(node: &Node, literals: Vec<Vec<LiteralStep>>) -> Option<Vec<Vec<LiteralStep>>> {
    let with = |step: LiteralStep| {
        let literals = literals.iter();
        let with = literals
            .map(|literal| [&literal[..], &[step]].concat())
            .collect();
        Some(with)
    };
    let literals = match node {
        Node::Empty => literals,
        Node::Byte(set) => with(LiteralStep::Byte(*set))?,
        Node::Assertion(Assertion::WordBoundary) => with(LiteralStep::WordBoundary)?,
        Node::Capture { inner, .. } => expanded(inner, literals)?,
        Node::Concat(parts) => parts
            .iter()
            .try_fold(literals, |literals, part| expanded(part, literals))?,
        Node::Alternate(branches) => {
            let mut all = Vec::new();
            for literal in literals {
                for branch in branches {
                    all.extend(expanded(branch, vec![literal.clone()])?);
                }
            }
            all
        }
        // Once, or if nothing follows then, not at all.
        Node::Repeat {
            inner,
            min: 0,
            max: Some(1),
            greed: Greediness::Greedy,
        } => {
            let mut all = Vec::new();
            for literal in literals {
                all.extend(expanded(inner, vec![literal.clone()])?);
                all.push(literal);
            }
            all
        }
        _ => return None,
    };
    let steps: usize = literals.iter().map(Vec::len).sum();
    (literals.len() <= LITERALS_MAX && steps <= STEPS_MAX).then_some(literals)
}

fn end_of(literal: &[LiteralStep], text: &[u8], offset: usize) -> Option<usize> {
    let mut at = offset;
    for step in literal {
        match step {
            LiteralStep::Byte(set) => {
                if !text.get(at).is_some_and(|&byte| set.contains(byte)) {
                    return None;
                }
                at += 1;
            }
            LiteralStep::WordBoundary => {
                if !is_word_boundary(text, at) {
                    return None;
                }
            }
        }
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_tried_in_order() {
        for (pattern, text, offset, expected) in [
            ("/e/", &b"ee"[..], 1, Some(2)),
            ("/a|ab/", b"ab", 0, Some(1)),
            ("/ab|a/", b"ab", 0, Some(2)),
            (r"/\b(?:free|money)\b/", b"", 0, None),
            (r"/(\bfree)|[mM]oney\b/", b"a free Money", 7, Some(12)),
            (r"/\bfree\b/", b"freed", 0, None),
            (r"/\bfree\b/", b"a free_", 2, None),
            (r"/\bfree\b/i", b"a FREE", 2, Some(6)),
            (r"/mon(?:day)?/", b"mondays", 0, Some(6)),
            (r"/\bmon(?:day)?\b/", b"monday", 0, Some(6)),
            (r"/\bmon(?:day)?\b/", b"mondays", 0, None),
            (r"/\bmon(?:day)?\b/", b"mon day", 0, Some(3)),
            (r"/(?:a|ab)?(?:c|bc)d?/", b"abcd", 0, Some(4)),
            (r"/(?:a|ab)(?:bc|c)?/", b"abc", 0, Some(3)),
            (r"/(?:ab|a)(?:bc|c)?/", b"abc", 0, Some(3)),
            (r"/(?:a|ab)(?:c|)/", b"abc", 0, Some(1)),
        ] {
            let tree = crate::syntax::parse_delimited(pattern);
            let end = LiteralPattern::of(&tree)
                .and_then(|literal_pattern| literal_pattern.end_at(text, offset));
            assert_eq!(end, expected, "{pattern}");
        }
    }

    #[test]
    fn other_patterns_are_compiled() {
        for pattern in [
            "/a+/",
            "/a??b/",
            "/a?+b/",
            "/a?/",
            "/^a/",
            "/(?=a)b/",
            r"/\b/",
            "/a|/",
            r"/(?:a|b)(?:a|b)(?:a|b)(?:a|b)(?:a|b)/",
        ] {
            let tree = crate::syntax::parse_delimited(pattern);
            assert!(LiteralPattern::of(&tree).is_none(), "{pattern}");
        }
    }
}
