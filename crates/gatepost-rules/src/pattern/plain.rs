//! Patterns that need no engine: some rows of bytes, one of which must stand at a place.
//!
//! Many rules are a word or a phrase. To compare a few bytes costs less than to enter an engine, and
//! such a pattern need not be compiled.

use super::byte_set::ByteSet;
use super::node::{Assertion, Greed, Node};

/// Rows, and steps of all of them, beyond which a pattern is compiled.
const ROWS_MAX: usize = 16;
const STEPS_MAX: usize = 128;

/// Rows, tried in their order as Perl tries alternatives.
#[derive(Debug)]
pub(super) struct Plain {
    rows: Box<[Box<[Step]>]>,
    /// The bytes that are a row for themselves.
    single: ByteSet,
    /// The bytes with which the other rows begin.
    others: ByteSet,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Byte(ByteSet),
    /// Takes nothing: a word begins or ends here.
    WordBoundary,
}

impl Plain {
    /// `None` if the pattern is not so simple, or may be empty.
    pub(super) fn of(tree: &Node) -> Option<Self> {
        let rows = expanded(tree, vec![Vec::new()])?;
        let takes_bytes = |row: &Vec<Step>| row.iter().any(|step| matches!(step, Step::Byte(_)));
        let never_empty = rows.iter().all(takes_bytes);
        never_empty.then(|| {
            let (mut single, mut others) = (ByteSet::EMPTY, ByteSet::EMPTY);
            for row in &rows {
                let mut sets = row.iter().filter_map(|step| match step {
                    Step::Byte(set) => Some(set),
                    Step::WordBoundary => None,
                });
                let first = sets.next().copied().unwrap_or_default();
                let all = if row.len() == 1 {
                    &mut single
                } else {
                    &mut others
                };
                *all = all.union(&first);
            }
            Self {
                rows: rows.into_iter().map(Into::into).collect(),
                single,
                others,
            }
        })
    }

    /// How often it matches, if that is told by single bytes alone.
    pub(super) fn count_single(&self, text: &[u8]) -> Option<usize> {
        if self.single.len() == 0 {
            return None;
        }
        text.chunks(ByteSet::BLOCK_BYTES)
            .try_fold(0, |count, block| {
                let is_single = self.others.len() == 0 || self.others.members(block) == 0;
                is_single.then(|| count + self.single.members(block).count_ones() as usize)
            })
    }

    /// The end of the match that begins at a place.
    pub(super) fn end_at(&self, text: &[u8], place: usize) -> Option<usize> {
        self.rows.iter().find_map(|row| end_of(row, text, place))
    }
}

/// Each of the rows with each way in which a node may follow it, in the order in which Perl tries them.
fn expanded(node: &Node, rows: Vec<Vec<Step>>) -> Option<Vec<Vec<Step>>> {
    let with = |step: Step| {
        let rows = rows.iter();
        let with = rows.map(|row| [&row[..], &[step]].concat()).collect();
        Some(with)
    };
    let rows = match node {
        Node::Empty => rows,
        Node::Byte(set) => with(Step::Byte(*set))?,
        Node::Assertion(Assertion::WordBoundary) => with(Step::WordBoundary)?,
        Node::Capture { inner, .. } => expanded(inner, rows)?,
        Node::Concat(parts) => parts
            .iter()
            .try_fold(rows, |rows, part| expanded(part, rows))?,
        Node::Alternate(branches) => {
            let mut all = Vec::new();
            for row in rows {
                for branch in branches {
                    all.extend(expanded(branch, vec![row.clone()])?);
                }
            }
            all
        }
        // Once, or if nothing follows then, not at all.
        Node::Repeat {
            inner,
            min: 0,
            max: Some(1),
            greed: Greed::Greedy,
        } => {
            let mut all = Vec::new();
            for row in rows {
                all.extend(expanded(inner, vec![row.clone()])?);
                all.push(row);
            }
            all
        }
        _ => return None,
    };
    let steps: usize = rows.iter().map(Vec::len).sum();
    (rows.len() <= ROWS_MAX && steps <= STEPS_MAX).then_some(rows)
}

fn end_of(row: &[Step], text: &[u8], place: usize) -> Option<usize> {
    let mut at = place;
    for step in row {
        match step {
            Step::Byte(set) => {
                if !text.get(at).is_some_and(|&byte| set.contains(byte)) {
                    return None;
                }
                at += 1;
            }
            Step::WordBoundary => {
                if !is_word_boundary(text, at) {
                    return None;
                }
            }
        }
    }
    Some(at)
}

/// Perl's `\b`.
pub(super) fn is_word_boundary(text: &[u8], at: usize) -> bool {
    let is_word = |at: usize| text.get(at).is_some_and(|&byte| is_word(byte));
    is_word(at) != is_word(at.wrapping_sub(1))
}

/// Perl's `\w`.
pub(super) fn is_word(byte: u8) -> bool {
    ByteSet::WORD.contains(byte)
}

#[cfg(test)]
mod tests {
    use super::super::Pattern;
    use super::*;

    #[test]
    fn rows_are_tried_in_order() {
        for (pattern, text, place, expected) in [
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
            let tree = Pattern::parse(pattern.as_bytes())
                .expect(pattern)
                .take_tree();
            let end = Plain::of(&tree).and_then(|plain| plain.end_at(text, place));
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
            let tree = Pattern::parse(pattern.as_bytes())
                .expect(pattern)
                .take_tree();
            assert!(Plain::of(&tree).is_none(), "{pattern}");
        }
    }
}
