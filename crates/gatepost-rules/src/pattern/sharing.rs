//! Parts that a pattern holds more than once, printed once.
//!
//! PCRE2 has room for 64 KiB in a compiled pattern, and it writes a repeated or a pasted part out
//! each time; `replace_tag` pastes the same thirty spellings of a letter hundreds of times. Where
//! a pattern is refused as too large, such parts become named groups that are called wherever they
//! stand. A call may be tried in all the ways the part may, so the meaning stays the same; a part
//! that notes a capture or asks for one is never shared, since a call forgets what it captured.

use std::collections::HashMap;

use super::node::Node;

/// Calling a part takes about as much room as matching so many positions of letters.
const POSITIONS_MIN: usize = 3;

/// The parts to share, with the number each is called by.
pub(super) type Shared<'n> = HashMap<&'n Node, usize>;

/// Finds what stands in the pattern more than once.
pub(super) fn find(tree: &Node) -> Shared<'_> {
    let mut counts = HashMap::new();
    count(tree, false, &mut counts);
    let repeated = counts.into_iter().filter(|(_, times)| *times > 1);
    let mut repeated: Vec<&Node> = repeated.map(|(node, _)| node).collect();
    // In an order that does not change from one run to the next.
    repeated.sort_by_cached_key(|node| format!("{node:?}"));
    let numbered = repeated.into_iter().enumerate();
    numbered.map(|(number, node)| (node, number)).collect()
}

/// Counts the parts that a group could stand for; `often` if PCRE2 writes the part out repeatedly.
fn count<'n>(node: &'n Node, often: bool, counts: &mut HashMap<&'n Node, u32>) {
    if is_group(node, often) && can_be_shared(node) && positions(node) >= POSITIONS_MIN {
        let times = counts.entry(node).or_default();
        *times += if often { 2 } else { 1 };
        if *times > 2 {
            return;
        }
    }
    for (part, often) in parts(node) {
        count(part, often, counts);
    }
}

/// Whether the part is printed in brackets anyway.
fn is_group(node: &Node, often: bool) -> bool {
    matches!(node, Node::Alternate(_)) || (often && matches!(node, Node::Concat(_)))
}

/// The parts right below, and whether PCRE2 writes each out repeatedly.
fn parts(node: &Node) -> Vec<(&Node, bool)> {
    match node {
        Node::Concat(parts) | Node::Alternate(parts) | Node::BranchReset(parts) => {
            parts.iter().map(|part| (part, false)).collect()
        }
        Node::Repeat {
            inner, min, max, ..
        } => vec![(inner, max.unwrap_or(*min) > 1)],
        Node::Capture { inner, .. } | Node::Look { inner, .. } | Node::Atomic(inner) => {
            vec![(inner, false)]
        }
        Node::Conditional { yes, no, .. } => vec![(yes, false), (no, false)],
        _ => Vec::new(),
    }
}

fn can_be_shared(node: &Node) -> bool {
    !matches!(
        node,
        Node::Capture { .. }
            | Node::BackReference { .. }
            | Node::Recurse(_)
            | Node::Conditional { .. }
            | Node::BranchReset(_)
    ) && parts(node).iter().all(|(part, _)| can_be_shared(part))
}

fn positions(node: &Node) -> usize {
    match node {
        Node::Byte(_) => 1,
        _ => parts(node).iter().map(|(part, _)| positions(part)).sum(),
    }
}
