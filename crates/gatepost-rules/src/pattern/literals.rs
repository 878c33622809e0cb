//! The texts without which a pattern cannot match.
//!
//! A pattern that is filled with captured texts for each message is only worth compiling where one of
//! those texts stands; this tells whether that is so. (Patterns that stay the same are looked for by
//! what [`screen`](crate::screen) chooses, which knows more than texts.)

use super::byte_set::ByteSet;
use super::node::Node;

/// Alternatives beyond which a set of literals is not worth having.
const LITERALS_MAX: usize = 96;
/// Alternatives beyond which the product of neighbouring parts is not formed.
const PRODUCT_MAX: usize = 32;
/// Bytes of a literal beyond which more say nothing new.
const LENGTH_MAX: usize = 16;
/// A position with more choices than this ends a literal.
const CHOICES_MAX: usize = 4;

/// Texts in lower case of which each match contains at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Literals(pub(crate) Vec<Vec<u8>>);

/// The best set of required literals; `None` if no set is selective enough.
pub(crate) fn required(node: &Node) -> Option<Literals> {
    let facts = facts(node);
    let best = better(facts.required, facts.whole.filter(|texts| usable(texts)));
    best.map(|mut texts| {
        texts.sort_unstable();
        texts.dedup();
        Literals(texts)
    })
}

/// What is known of the texts that a node matches.
#[derive(Clone)]
struct Facts {
    /// All of them (perhaps some more), where they are few.
    whole: Option<Vec<Vec<u8>>>,
    /// A set of which each contains one.
    required: Option<Vec<Vec<u8>>>,
}

impl Facts {
    const UNKNOWN: Self = Self {
        whole: None,
        required: None,
    };

    fn empty() -> Self {
        Self {
            whole: Some(vec![Vec::new()]),
            required: None,
        }
    }
}

fn facts(node: &Node) -> Facts {
    match node {
        Node::Empty | Node::Assertion(_) | Node::Look { .. } => Facts::empty(),
        Node::Byte(set) => Facts {
            whole: choices(set),
            required: None,
        },
        Node::Concat(parts) => {
            let mut run = Run::new();
            for part in parts {
                run.push(facts(part));
            }
            run.finish()
        }
        Node::Alternate(branches) | Node::BranchReset(branches) => alternate(branches),
        Node::Repeat {
            inner, min, max, ..
        } => repeat(inner, *min, *max),
        Node::Capture { inner, .. } | Node::Atomic(inner) => facts(inner),
        Node::Conditional { yes, no, .. } => {
            alternate(&[yes.as_ref().clone(), no.as_ref().clone()])
        }
        Node::BackReference { .. } | Node::Recurse(_) => Facts::UNKNOWN,
    }
}

/// The bytes of a set in lower case, if they are few.
fn choices(set: &ByteSet) -> Option<Vec<Vec<u8>>> {
    // No class that ends here has more than twice as many bytes as it has folded ones.
    if set.len() > 2 * CHOICES_MAX {
        return None;
    }
    let folded: ByteSet = set.iter().map(|byte| byte.to_ascii_lowercase()).collect();
    (folded.len() <= CHOICES_MAX).then(|| folded.iter().map(|byte| vec![byte]).collect())
}

fn alternate(branches: &[Node]) -> Facts {
    let mut whole = Some(Vec::new());
    let mut required = Some(Vec::new());
    for branch in branches {
        let facts = facts(branch);
        let of_branch = better(
            facts.required,
            facts.whole.clone().filter(|texts| usable(texts)),
        );
        whole = join(whole, facts.whole, PRODUCT_MAX);
        required = join(required, of_branch, LITERALS_MAX);
    }
    Facts { whole, required }
}

fn join(
    all: Option<Vec<Vec<u8>>>,
    more: Option<Vec<Vec<u8>>>,
    limit: usize,
) -> Option<Vec<Vec<u8>>> {
    let (mut all, more) = (all?, more?);
    all.extend(more);
    (all.len() <= limit).then_some(all)
}

fn repeat(inner: &Node, min: u32, max: Option<u32>) -> Facts {
    let mut run = Run::new();
    match (min, max) {
        (0, Some(1)) => {
            return Facts {
                whole: join(facts(inner).whole, Some(vec![Vec::new()]), PRODUCT_MAX),
                required: None,
            };
        }
        (0, _) => return Facts::UNKNOWN,
        _ => {
            let once = facts(inner);
            for _ in 0..min.min(LENGTH_MAX as u32) {
                run.push(once.clone());
            }
        }
    }
    if max != Some(min) || min > LENGTH_MAX as u32 {
        run.gap();
    }
    run.finish()
}

/// Literals of neighbouring parts, multiplied out as far as they stay few.
struct Run {
    /// The texts since the last gap; `None` only after a part that can match nothing at all.
    texts: Vec<Vec<u8>>,
    /// Whether there was no gap yet.
    is_whole: bool,
    best: Option<Vec<Vec<u8>>>,
}

impl Run {
    fn new() -> Self {
        Self {
            texts: vec![Vec::new()],
            is_whole: true,
            best: None,
        }
    }

    fn push(&mut self, facts: Facts) {
        self.offer(facts.required);
        let Some(next) = facts.whole else {
            self.gap();
            return;
        };
        let too_long = |texts: &[Vec<u8>]| texts.iter().any(|text| text.len() > LENGTH_MAX);
        if self.texts.len() * next.len() > PRODUCT_MAX || too_long(&self.texts) {
            self.gap();
            self.texts = next;
            return;
        }
        self.texts = self
            .texts
            .iter()
            .flat_map(|head| next.iter().map(move |tail| [&head[..], tail].concat()))
            .collect();
    }

    /// Something unknown comes next.
    fn gap(&mut self) {
        let texts = std::mem::replace(&mut self.texts, vec![Vec::new()]);
        self.offer(Some(texts).filter(|texts| usable(texts)));
        self.is_whole = false;
    }

    fn offer(&mut self, texts: Option<Vec<Vec<u8>>>) {
        self.best = better(self.best.take(), texts);
    }

    fn finish(mut self) -> Facts {
        if self.is_whole {
            return Facts {
                whole: Some(self.texts),
                required: self.best,
            };
        }
        self.gap();
        Facts {
            whole: None,
            required: self.best,
        }
    }
}

/// Whether a set is selective enough to be looked for.
fn usable(texts: &[Vec<u8>]) -> bool {
    !texts.is_empty() && texts.len() <= LITERALS_MAX && selectivity(texts) >= 5
}

fn better(one: Option<Vec<Vec<u8>>>, other: Option<Vec<Vec<u8>>>) -> Option<Vec<Vec<u8>>> {
    match (one, other) {
        (Some(one), Some(other)) => {
            let value = |texts: &Vec<Vec<u8>>| {
                let spread = usize::BITS - texts.len().leading_zeros();
                selectivity(texts) * 4 - spread as i32 * 3
            };
            Some(if value(&one) >= value(&other) {
                one
            } else {
                other
            })
        }
        (one, other) => one.or(other),
    }
}

/// How seldom the commonest of the texts is met, as the sum of its bytes' rarities.
fn selectivity(texts: &[Vec<u8>]) -> i32 {
    let of_text = |text: &Vec<u8>| text.iter().map(|&byte| rarity(byte)).sum();
    texts.iter().map(of_text).min().unwrap_or(0)
}

/// How rare a byte is in mail: 1 for what is everywhere.
fn rarity(byte: u8) -> i32 {
    match byte {
        b' ' | b'e' | b't' | b'a' | b'o' | b'i' | b'n' | b's' | b'r' => 1,
        b'a'..=b'i'
        | b'k'..=b'p'
        | b'r'..=b'w'
        | b'y'
        | b'0'..=b'9'
        | b'\n'
        | b'.'
        | b'-'
        | b'/'
        | b'='
        | b':'
        | b'<'
        | b'>'
        | b'"'
        | b',' => 2,
        _ => 3,
    }
}
