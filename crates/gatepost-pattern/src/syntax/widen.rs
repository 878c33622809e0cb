//! Over-approximates letters with hundreds of look-alikes.
//!
//! SpamAssassin's `replace_tag` writes a letter as an alternation of its spellings: one byte, or
//! any of the sequences that UTF-8 and HTML have for characters that look like it. In a word these
//! are too many positions for a prefilter. A prefilter may find more than the pattern matches, so
//! the multi-byte spellings of one length are replaced by one sequence whose classes are the unions
//! of theirs. These bytes are rare, so the prefilter stays selective. Spellings keep their lengths,
//! so windows stay correct.

use super::{Greediness, Node};
use crate::byte_set::ByteSet;

/// The longest sequence that is widened, in bytes.
const SEQUENCE_BYTES_MAX: usize = 12;

/// A tree that matches at least what `node` does, with such alternations over-approximated.
pub(crate) fn widen(node: Node) -> Node {
    let all = |parts: Vec<Node>| parts.into_iter().map(widen).collect();
    match node {
        Node::Concat(parts) => Node::Concat(all(parts)),
        Node::BranchReset(parts) => Node::BranchReset(all(parts)),
        Node::Alternate(parts) => widen_branches(all(parts)),
        Node::Repeat {
            inner,
            min,
            max,
            greed,
        } => Node::Repeat {
            inner: Box::new(widen(*inner)),
            min,
            max,
            greed,
        },
        Node::Capture { name, inner } => Node::Capture {
            name,
            inner: Box::new(widen(*inner)),
        },
        Node::Atomic(inner) => Node::Atomic(Box::new(widen(*inner))),
        node => node,
    }
}

fn widen_branches(branches: Vec<Node>) -> Node {
    let mut single = ByteSet::EMPTY;
    let mut wide: Vec<ByteSequence> = Vec::new();
    let mut others = Vec::new();
    for branch in branches {
        match ByteSequence::of(&branch) {
            Some(sequence) if sequence.is_byte() => single = single.union(&sequence.classes[0]),
            Some(sequence) if sequence.is_rare() => {
                let same = |known: &&mut ByteSequence| known.lengths() == sequence.lengths();
                match wide.iter_mut().find(same) {
                    Some(known) => known.or(&sequence),
                    None => wide.push(sequence),
                }
            }
            _ => others.push(branch),
        }
    }
    if single != ByteSet::EMPTY {
        others.push(Node::Byte(single));
    }
    others.extend(wide.into_iter().map(ByteSequence::into_node));
    match others.len() {
        1 => others.swap_remove(0),
        _ => Node::Alternate(others),
    }
}

/// A class for each byte of a sequence; bytes from `min` on are optional.
#[derive(Debug, Clone)]
struct ByteSequence {
    classes: Vec<ByteSet>,
    min: usize,
}

impl ByteSequence {
    /// The texts that a node matches, if they are short and of bounded length.
    fn of(node: &Node) -> Option<Self> {
        Some(match node {
            Node::Byte(set) => Self {
                classes: vec![*set],
                min: 1,
            },
            Node::Concat(parts) => {
                let nothing = Self {
                    classes: Vec::new(),
                    min: 0,
                };
                parts
                    .iter()
                    .try_fold(nothing, |all, part| all.then(&Self::of(part)?))?
            }
            Node::Alternate(branches) => {
                let mut branches = branches.iter().map(Self::of);
                let first = branches.next()??;
                branches.try_fold(first, |mut all, branch| {
                    all.or(&branch?);
                    Some(all)
                })?
            }
            Node::Repeat {
                inner,
                min: 0,
                max: Some(1),
                greed,
            } if *greed != Greediness::Possessive => Self {
                min: 0,
                ..Self::of(inner)?
            },
            _ => return None,
        })
    }

    fn lengths(&self) -> (usize, usize) {
        (self.min, self.classes.len())
    }

    fn is_byte(&self) -> bool {
        self.lengths() == (1, 1)
    }

    /// Whether the sequence begins like a look-alike: with a byte beyond ASCII, or as an HTML
    /// entity.
    fn is_rare(&self) -> bool {
        let begins_rare = |first: &ByteSet| first.iter().all(|byte| byte >= 0x80 || byte == b'&');
        self.min > 0 && self.classes.first().is_some_and(begins_rare)
    }

    /// The union with another sequence.
    fn or(&mut self, other: &Self) {
        self.min = self.min.min(other.min);
        for (index, set) in other.classes.iter().enumerate() {
            match self.classes.get_mut(index) {
                Some(class) => *class = class.union(set),
                None => self.classes.push(*set),
            }
        }
    }

    /// The concatenation with another sequence.
    fn then(self, next: &Self) -> Option<Self> {
        let length = self.classes.len() + next.classes.len();
        if length > SEQUENCE_BYTES_MAX {
            return None;
        }
        let begins = self.min..=self.classes.len();
        let min = self.min + next.min;
        let mut classes = self.classes;
        classes.resize(length, ByteSet::EMPTY);
        for begin in begins {
            for (class, set) in classes.iter_mut().skip(begin).zip(&next.classes) {
                *class = class.union(set);
            }
        }
        Some(Self { classes, min })
    }

    fn into_node(self) -> Node {
        let optional = self.classes.iter().skip(self.min).rev();
        let rest = optional.fold(None, |rest: Option<Node>, set| {
            let inner = Node::Concat([Node::Byte(*set)].into_iter().chain(rest).collect());
            Some(Node::Repeat {
                inner: Box::new(inner),
                min: 0,
                max: Some(1),
                greed: Greediness::Greedy,
            })
        });
        let fixed = self.classes.iter().take(self.min);
        Node::Concat(fixed.map(|set| Node::Byte(*set)).chain(rest).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn widened(pattern: &str) -> Node {
        widen(crate::syntax::parse_delimited(pattern))
    }

    fn same(pattern: &str, expected: &str) {
        let expected = crate::syntax::parse_delimited(expected);
        assert_eq!(widened(pattern), expected, "{pattern}");
    }

    #[test]
    fn look_alikes_become_one_spelling_for_each_length() {
        same(
            r"/(?:[aA@]|\xc3[\x80\x81]|\xc4[\x82]|\xe1(?:\xb8\x80|\xb9\x81))/",
            r"/(?:[aA@]|[\xc3\xc4][\x80-\x82]|\xe1[\xb8\xb9][\x80\x81])/",
        );
        same(r"/(?:cheap|free|[xy]|z)/", r"/(?:cheap|free|[xyz])/");
        same(r"/(?:a|b)+/", r"/[ab]+/");
    }

    #[test]
    fn entities_keep_their_lengths() {
        let node = widened(r"/(?:s|&#(?:1(?:16|7[89])|219|x53);)/");
        assert_eq!((node.min_len(), node.max_len()), (1, Some(6)));
        let node = widened(r"/(?:s|&#(?:31|219|x53[a-f]?);)/");
        assert_eq!((node.min_len(), node.max_len()), (1, Some(7)));
    }
}
