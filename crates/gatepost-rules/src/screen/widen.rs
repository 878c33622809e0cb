//! Letters with hundreds of look-alikes, made small.
//!
//! `replace_tag` writes a letter as an alternation of its spellings: one byte, or any of the
//! sequences that UTF-8 and HTML have for what looks like it. Followed through a word they are too
//! many positions for a screen. A screen may find more than a pattern matches, so the spellings of
//! many bytes are replaced by one for each length that allows at each place what any of them has
//! there. They are rare anyway. Spellings keep their lengths, so windows stay right.

use crate::pattern::{ByteSet, Greed, Node};

/// Longest sequence that is widened, bytes.
const SEQUENCE_BYTES_MAX: usize = 12;

/// The same tree with such alternations made small.
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
    let mut wide: Vec<Sequence> = Vec::new();
    let mut others = Vec::new();
    for branch in branches {
        match Sequence::of(&branch) {
            Some(sequence) if sequence.is_byte() => single = single.union(&sequence.places[0]),
            Some(sequence) if sequence.is_rare() => {
                let same = |known: &&mut Sequence| known.lengths() == sequence.lengths();
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
    others.extend(wide.into_iter().map(Sequence::into_node));
    match others.len() {
        1 => others.swap_remove(0),
        _ => Node::Alternate(others),
    }
}

/// What each byte of a sequence may be, and how many bytes it has at least.
#[derive(Debug, Clone)]
struct Sequence {
    places: Vec<ByteSet>,
    min: usize,
}

impl Sequence {
    /// What a node matches, where that is short and of bounded length.
    fn of(node: &Node) -> Option<Self> {
        Some(match node {
            Node::Byte(set) => Self {
                places: vec![*set],
                min: 1,
            },
            Node::Concat(parts) => {
                let nothing = Self {
                    places: Vec::new(),
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
            } if *greed != Greed::Possessive => Self {
                min: 0,
                ..Self::of(inner)?
            },
            _ => return None,
        })
    }

    fn lengths(&self) -> (usize, usize) {
        (self.min, self.places.len())
    }

    fn is_byte(&self) -> bool {
        self.lengths() == (1, 1)
    }

    /// Whether it begins as look-alikes do: with a byte beyond ASCII, or as an HTML entity.
    fn is_rare(&self) -> bool {
        let begins_rare = |first: &ByteSet| first.iter().all(|byte| byte >= 0x80 || byte == b'&');
        self.min > 0 && self.places.first().is_some_and(begins_rare)
    }

    /// Allows what another does too.
    fn or(&mut self, other: &Self) {
        self.min = self.min.min(other.min);
        for (index, set) in other.places.iter().enumerate() {
            match self.places.get_mut(index) {
                Some(place) => *place = place.union(set),
                None => self.places.push(*set),
            }
        }
    }

    /// One after the other.
    fn then(self, next: &Self) -> Option<Self> {
        let length = self.places.len() + next.places.len();
        if length > SEQUENCE_BYTES_MAX {
            return None;
        }
        let begins = self.min..=self.places.len();
        let min = self.min + next.min;
        let mut places = self.places;
        places.resize(length, ByteSet::EMPTY);
        for begin in begins {
            for (place, set) in places.iter_mut().skip(begin).zip(&next.places) {
                *place = place.union(set);
            }
        }
        Some(Self { places, min })
    }

    fn into_node(self) -> Node {
        let optional = self.places.iter().skip(self.min).rev();
        let rest = optional.fold(None, |rest: Option<Node>, set| {
            let inner = Node::Concat([Node::Byte(*set)].into_iter().chain(rest).collect());
            Some(Node::Repeat {
                inner: Box::new(inner),
                min: 0,
                max: Some(1),
                greed: Greed::Greedy,
            })
        });
        let fixed = self.places.iter().take(self.min);
        Node::Concat(fixed.map(|set| Node::Byte(*set)).chain(rest).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::Pattern;

    fn widened(pattern: &str) -> Node {
        widen(Pattern::parse(pattern.as_bytes()).unwrap().take_tree())
    }

    fn same(pattern: &str, expected: &str) {
        let expected = Pattern::parse(expected.as_bytes()).unwrap().take_tree();
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
