//! The syntax tree of a regular expression, with all its modifiers applied.

use crate::byte_set::ByteSet;

/// A part of a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Node {
    /// Matches the empty text.
    Empty,
    /// Matches one byte of a set.
    Byte(ByteSet),
    /// Matches the empty text at certain places.
    Assertion(Assertion),
    /// One part after the other.
    Concat(Vec<Node>),
    /// The first branch that matches.
    Alternate(Vec<Node>),
    /// A repeated node.
    Repeat {
        inner: Box<Node>,
        min: u32,
        max: Option<u32>,
        greed: Greediness,
    },
    /// A capture group.
    Capture {
        name: Option<String>,
        inner: Box<Node>,
    },
    /// Lookaround: matches the empty text where `inner` matches (or does not) ahead or behind.
    Look {
        behind: bool,
        negated: bool,
        inner: Box<Node>,
    },
    /// An atomic group, which is not backtracked into.
    Atomic(Box<Node>),
    /// The text that an earlier group matched; `folded` ignores case.
    BackReference { group: GroupReference, folded: bool },
    /// A call of a group's pattern.
    Recurse(GroupReference),
    /// One of two nodes, depending on whether a group participated in the match.
    Conditional {
        group: GroupReference,
        yes: Box<Node>,
        no: Box<Node>,
    },
    /// An alternation in which each branch numbers its groups from the same start.
    BranchReset(Vec<Node>),
    /// A whole pattern that the parser does not support, in PCRE2's syntax.
    Opaque(Box<str>),
}

/// A reference to a group.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum GroupReference {
    /// By number; 0 is the whole pattern.
    Number(u32),
    /// By name.
    Name(String),
}

/// The order in which a repetition tries its counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Greediness {
    /// As often as possible.
    Greedy,
    /// As seldom as possible.
    Lazy,
    /// As often as possible, without backtracking.
    Possessive,
}

/// A zero-width assertion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Assertion {
    /// `^`, `\A`.
    TextStart,
    /// `\z`.
    TextEnd,
    /// `$`, `\Z`: the end, or before a line feed that is the end.
    TextEndOrLastLineFeed,
    /// `^` under `/m`: the start, and after each line feed but one that ends the text.
    LineStart,
    /// `$` under `/m`: the end, and before each line feed.
    LineEnd,
    /// `\b`.
    WordBoundary,
    /// `\B`.
    NotWordBoundary,
    /// `\G`: the end of the last match.
    SearchStart,
    /// `\K`: the match begins here.
    Keep,
}

impl Node {
    /// Adds the names of all named groups.
    pub(crate) fn group_names<'n>(&'n self, names: &mut Vec<&'n str>) {
        match self {
            Self::Concat(parts) | Self::Alternate(parts) | Self::BranchReset(parts) => {
                for part in parts {
                    part.group_names(names);
                }
            }
            Self::Capture { name, inner } => {
                names.extend(name.as_deref());
                inner.group_names(names);
            }
            Self::Repeat { inner, .. } | Self::Look { inner, .. } | Self::Atomic(inner) => {
                inner.group_names(names);
            }
            Self::Conditional { yes, no, .. } => {
                yes.group_names(names);
                no.group_names(names);
            }
            Self::Empty
            | Self::Byte(_)
            | Self::Assertion(_)
            | Self::BackReference { .. }
            | Self::Recurse(_)
            | Self::Opaque(_) => {}
        }
    }

    /// The least number of bytes that the node can match.
    pub(crate) fn min_len(&self) -> usize {
        match self {
            Self::Byte(_) => 1,
            Self::Concat(parts) => parts.iter().map(Self::min_len).sum(),
            Self::Alternate(parts) | Self::BranchReset(parts) => {
                parts.iter().map(Self::min_len).min().unwrap_or(0)
            }
            Self::Repeat { inner, min, .. } => inner.min_len().saturating_mul(*min as usize),
            Self::Capture { inner, .. } | Self::Atomic(inner) => inner.min_len(),
            Self::Conditional { yes, no, .. } => yes.min_len().min(no.min_len()),
            Self::Empty
            | Self::Assertion(_)
            | Self::Look { .. }
            | Self::BackReference { .. }
            | Self::Recurse(_)
            | Self::Opaque(_) => 0,
        }
    }

    /// The most bytes that the node can match; `None` if there is no bound.
    pub(crate) fn max_len(&self) -> Option<usize> {
        match self {
            Self::Byte(_) => Some(1),
            Self::Concat(parts) => parts
                .iter()
                .try_fold(0usize, |sum, part| sum.checked_add(part.max_len()?)),
            Self::Alternate(parts) | Self::BranchReset(parts) => parts
                .iter()
                .try_fold(0usize, |most, part| Some(most.max(part.max_len()?))),
            Self::Repeat { inner, max, .. } => {
                let once = inner.max_len()?;
                match max {
                    Some(max) => once.checked_mul(*max as usize),
                    None => (once == 0).then_some(0),
                }
            }
            Self::Capture { inner, .. } | Self::Atomic(inner) => inner.max_len(),
            Self::Conditional { yes, no, .. } => Some(yes.max_len()?.max(no.max_len()?)),
            Self::BackReference { .. } | Self::Recurse(_) | Self::Opaque(_) => None,
            Self::Empty | Self::Assertion(_) | Self::Look { .. } => Some(0),
        }
    }

    /// The first bytes of all matches; `None` if a match may be empty.
    pub(crate) fn first_bytes(&self) -> Option<ByteSet> {
        let (first, may_be_empty) = self.begins();
        (!may_be_empty).then_some(first)
    }

    /// The first bytes that matches consume, and whether a match may be empty.
    fn begins(&self) -> (ByteSet, bool) {
        match self {
            Self::Byte(set) => (*set, false),
            Self::Concat(parts) => {
                let mut first = ByteSet::EMPTY;
                let ahead = Self::allowed_by_lookahead(parts);
                for part in parts {
                    let (bytes, may_be_empty) = part.begins();
                    first = first.union(&bytes);
                    if !may_be_empty {
                        return (first.intersection(&ahead), false);
                    }
                }
                (first, true)
            }
            Self::Alternate(parts) | Self::BranchReset(parts) => {
                let branches = parts.iter().map(Self::begins);
                branches.fold((ByteSet::EMPTY, false), |(all, any), (bytes, empty)| {
                    (all.union(&bytes), any || empty)
                })
            }
            Self::Repeat { inner, min, .. } => {
                let (bytes, may_be_empty) = inner.begins();
                (bytes, may_be_empty || *min == 0)
            }
            Self::Capture { inner, .. } | Self::Atomic(inner) => inner.begins(),
            Self::Conditional { yes, no, .. } => {
                let ((one, one_empty), (other, other_empty)) = (yes.begins(), no.begins());
                (one.union(&other), one_empty || other_empty)
            }
            Self::Empty | Self::Assertion(_) | Self::Look { .. } => (ByteSet::EMPTY, true),
            Self::BackReference { .. } | Self::Recurse(_) | Self::Opaque(_) => (ByteSet::ALL, true),
        }
    }

    /// The bytes that lookahead at the front of these parts allows as the first byte.
    fn allowed_by_lookahead(parts: &[Self]) -> ByteSet {
        let takes_nothing =
            |part: &&Self| matches!(part, Self::Look { .. } | Self::Assertion(_) | Self::Empty);
        let required = parts
            .iter()
            .take_while(takes_nothing)
            .filter_map(|part| match part {
                Self::Look {
                    behind: false,
                    negated: false,
                    inner,
                } => inner.first_bytes(),
                _ => None,
            });
        required.fold(ByteSet::ALL, |all, one| all.intersection(&one))
    }

    /// Whether a part refers to a group by name or number.
    pub(crate) fn refers_to_groups(&self) -> bool {
        match self {
            Self::BackReference { .. }
            | Self::Recurse(_)
            | Self::Opaque(_)
            | Self::Conditional { .. }
            | Self::BranchReset(_) => true,
            Self::Concat(parts) | Self::Alternate(parts) => {
                parts.iter().any(Self::refers_to_groups)
            }
            Self::Repeat { inner, .. }
            | Self::Capture { inner, .. }
            | Self::Look { inner, .. }
            | Self::Atomic(inner) => inner.refers_to_groups(),
            Self::Empty | Self::Byte(_) | Self::Assertion(_) => false,
        }
    }

    /// Whether PCRE2 may refuse the node although the parser accepts it: it checks references, and
    /// the lengths that lookbehind matches.
    pub(crate) fn may_be_refused(&self) -> bool {
        match self {
            Self::BackReference { .. } | Self::Recurse(_) | Self::Conditional { .. } => true,
            Self::Look {
                behind: true,
                inner,
                ..
            } => inner.max_len() != Some(inner.min_len()) || inner.may_be_refused(),
            Self::Concat(parts) | Self::Alternate(parts) | Self::BranchReset(parts) => {
                parts.iter().any(Self::may_be_refused)
            }
            Self::Repeat { inner, .. }
            | Self::Capture { inner, .. }
            | Self::Look { inner, .. }
            | Self::Atomic(inner) => inner.may_be_refused(),
            Self::Empty | Self::Byte(_) | Self::Assertion(_) | Self::Opaque(_) => false,
        }
    }
}
