//! Patterns that need no engine: some rows of bytes, one of which must stand at a place.
//!
//! Many rules are a word or a phrase. To compare a few bytes costs less than to enter an engine, and
//! such a pattern need not be compiled.

use super::byte_set::ByteSet;
use super::node::{Assertion, Node};

/// Steps of all rows beyond which a pattern is compiled.
const STEPS_MAX: usize = 128;

/// Rows, tried in their order as Perl tries alternatives.
#[derive(Debug)]
pub(super) struct Plain(Box<[Box<[Step]>]>);

#[derive(Debug, Clone, Copy)]
enum Step {
    Byte(ByteSet),
    /// Takes nothing: a word begins or ends here.
    WordBoundary,
}

impl Plain {
    /// `None` if the pattern is not so simple, or may be empty.
    pub(super) fn of(tree: &Node) -> Option<Self> {
        let mut rows = Vec::new();
        add_rows(tree, &mut rows)?;
        let steps: usize = rows.iter().map(|row| row.len()).sum();
        let takes_bytes = |row: &[Step]| row.iter().any(|step| matches!(step, Step::Byte(_)));
        let never_empty = rows.iter().all(|row| takes_bytes(row));
        (steps <= STEPS_MAX && never_empty).then(|| Self(rows.into()))
    }

    /// The end of the match that begins at a place.
    pub(super) fn end_at(&self, text: &[u8], place: usize) -> Option<usize> {
        self.0.iter().find_map(|row| end_of(row, text, place))
    }
}

fn add_rows(node: &Node, rows: &mut Vec<Box<[Step]>>) -> Option<()> {
    match node {
        Node::Alternate(branches) => branches
            .iter()
            .try_for_each(|branch| add_rows(branch, rows)),
        Node::Capture { inner, .. } => add_rows(inner, rows),
        _ => {
            let mut row = Vec::new();
            add_steps(node, &mut row)?;
            rows.push(row.into());
            Some(())
        }
    }
}

fn add_steps(node: &Node, row: &mut Vec<Step>) -> Option<()> {
    match node {
        Node::Byte(set) => row.push(Step::Byte(*set)),
        Node::Assertion(Assertion::WordBoundary) => row.push(Step::WordBoundary),
        Node::Concat(parts) => parts.iter().try_for_each(|part| add_steps(part, row))?,
        Node::Capture { inner, .. } => add_steps(inner, row)?,
        _ => return None,
    }
    (row.len() <= STEPS_MAX).then_some(())
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
                if is_word(text, at) == is_word(text, at.wrapping_sub(1)) {
                    return None;
                }
            }
        }
    }
    Some(at)
}

/// Perl's `\w` of bytes that are no characters.
fn is_word(text: &[u8], at: usize) -> bool {
    let byte = text.get(at);
    byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
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
            "/a?b/",
            "/^a/",
            "/(?=a)b/",
            r"/\b/",
            "/a|/",
            r"/a(?:b|c)/",
        ] {
            let tree = Pattern::parse(pattern.as_bytes())
                .expect(pattern)
                .take_tree();
            assert!(Plain::of(&tree).is_none(), "{pattern}");
        }
    }
}
