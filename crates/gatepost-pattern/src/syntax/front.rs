//! The front of a pattern: the part of its tree that can match the first bytes.
//!
//! A prefix filter compares a few bytes of a match, and a pattern with look-alikes has thousands of
//! positions. Later parts are not copied, widened, or converted to positions; an opaque node
//! represents them, after which anything may follow.

use super::Node;

impl Node {
    /// A tree whose matches are, up to `bytes` bytes, as the matches of this one begin. Lookaround
    /// is left out.
    pub(crate) fn front(&self, bytes: usize) -> Self {
        let all = |branches: &[Self]| branches.iter().map(|part| part.front(bytes)).collect();
        let boxed = |inner: &Self| Box::new(inner.front(bytes));
        match self {
            Self::Concat(parts) => {
                let (mut kept, mut left) = (Vec::new(), bytes);
                for part in parts {
                    if left == 0 {
                        kept.push(Self::Opaque(Box::default()));
                        break;
                    }
                    kept.push(part.front(left));
                    left = left.saturating_sub(part.min_len());
                }
                Self::Concat(kept)
            }
            Self::Alternate(branches) => Self::Alternate(all(branches)),
            Self::BranchReset(branches) => Self::BranchReset(all(branches)),
            Self::Repeat {
                inner,
                min,
                max,
                greed,
            } => Self::Repeat {
                inner: boxed(inner),
                min: *min,
                max: *max,
                greed: *greed,
            },
            Self::Capture { inner, .. } => Self::Capture {
                name: None,
                inner: boxed(inner),
            },
            Self::Atomic(inner) => Self::Atomic(boxed(inner)),
            Self::Look { .. } => Self::Empty,
            node => node.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::syntax::parse_delimited;

    #[test]
    fn parts_after_the_front_are_left_out() {
        for (pattern, front) in [
            ("/abc/", "/abc/"),
            ("/abcdef/", "/abc…/"),
            ("/a?b?cdef/", "/a?b?cde…/"),
            ("/(?:ab|cdefg)hij/", "/(?:ab|cde…)h…/"),
            ("/a(?:bcd){2}e/", "/a(?:bc…){2}…/"),
            (r"/a[bc]*d(?>efg)h/", r"/a[bc]*d(?>e…)…/"),
        ] {
            // The opaque node, which no syntax has, is written as a byte.
            let ellipsis = format!("{:?}", parse_delimited("/…x/"));
            let ellipsis = ellipsis.strip_prefix("Concat([").expect("parts");
            let ellipsis = ellipsis.strip_suffix(", Byte([x])])").expect("parts");
            let expected = format!("{:?}", parse_delimited(front));
            let expected = expected.replace(ellipsis, "Opaque(\"\")");
            let shown = format!("{:?}", parse_delimited(pattern).front(3));
            assert_eq!(shown, expected, "{pattern}");
        }
    }
}
