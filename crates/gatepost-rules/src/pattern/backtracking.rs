//! Patterns that need Perl's backtracking: PCRE2 with its just-in-time compiler and a match limit.
//!
//! The pattern is printed anew from the tree, with modifiers applied and bytes in hexadecimal, so
//! that PCRE2 needs no options, no case tables and no UTF: it matches bytes.

use std::fmt::Write as _;

use pcre2::bytes::{Regex, RegexBuilder};

use super::byte_set::ByteSet;
use super::node::{Assertion, Greed, Group, Node};

/// Steps of backtracking that one search may take. Some 10 milliseconds of one core.
pub(super) const MATCH_STEPS_MAX: u32 = 500_000;
/// The stack of compiled patterns, per thread and pattern, taken only when needed.
const STACK_BYTES_MAX: usize = 512 * 1024;

/// Compiles the pattern; the error is PCRE2's text.
pub(super) fn compile(node: &Node) -> Result<Regex, String> {
    RegexBuilder::new()
        .dotall(true)
        .jit_if_available(true)
        .max_jit_stack_size(Some(STACK_BYTES_MAX))
        .build(&print(node))
        .map_err(|error| error.to_string())
}

/// The pattern in PCRE2's syntax.
fn print(node: &Node) -> String {
    let mut text = format!("(*LIMIT_MATCH={MATCH_STEPS_MAX})(*LF)");
    print_node(node, &mut text);
    text
}

fn print_node(node: &Node, out: &mut String) {
    match node {
        Node::Empty => {}
        Node::Byte(set) => print_set(set, out),
        Node::Assertion(assertion) => out.push_str(match assertion {
            Assertion::TextStart => "\\A",
            Assertion::TextEnd => "\\z",
            Assertion::TextEndOrLastLineFeed => "\\Z",
            Assertion::LineStart => "(?m:^)",
            Assertion::LineEnd => "(?m:$)",
            Assertion::WordBoundary => "\\b",
            Assertion::NotWordBoundary => "\\B",
            Assertion::SearchStart => "\\G",
            Assertion::Keep => "\\K",
        }),
        Node::Concat(parts) => parts.iter().for_each(|part| print_part(part, out)),
        Node::Alternate(branches) => print_branches(branches, out),
        Node::Repeat {
            inner,
            min,
            max,
            greed,
        } => print_repeat(inner, *min, *max, *greed, out),
        Node::Capture { name, inner } => {
            out.push('(');
            if let Some(name) = name {
                let _ = write!(out, "?<{name}>");
            }
            print_node(inner, out);
            out.push(')');
        }
        Node::Look {
            behind,
            negated,
            inner,
        } => {
            out.push_str(match (behind, negated) {
                (false, false) => "(?=",
                (false, true) => "(?!",
                (true, false) => "(?<=",
                (true, true) => "(?<!",
            });
            print_node(inner, out);
            out.push(')');
        }
        Node::Atomic(inner) => {
            out.push_str("(?>");
            print_node(inner, out);
            out.push(')');
        }
        Node::BackReference { group, folded } => {
            out.push_str(if *folded { "(?i:" } else { "(?:" });
            let _ = match group {
                Group::Number(number) => write!(out, "\\g{{{number}}}"),
                Group::Name(name) => write!(out, "\\k{{{name}}}"),
            };
            out.push(')');
        }
        Node::Recurse(group) => {
            let _ = match group {
                Group::Number(number) => write!(out, "(?{number})"),
                Group::Name(name) => write!(out, "(?&{name})"),
            };
        }
        Node::Conditional { group, yes, no } => {
            let _ = match group {
                Group::Number(number) => write!(out, "(?({number})"),
                Group::Name(name) => write!(out, "(?(<{name}>)"),
            };
            print_part(yes, out);
            out.push('|');
            print_part(no, out);
            out.push(')');
        }
        Node::BranchReset(branches) => {
            out.push_str("(?|");
            print_branches(branches, out);
            out.push(')');
        }
    }
}

fn print_branches(branches: &[Node], out: &mut String) {
    for (index, branch) in branches.iter().enumerate() {
        if index > 0 {
            out.push('|');
        }
        print_part(branch, out);
    }
}

/// Prints a node so that what comes before and after it does not bind to a part of it.
fn print_part(node: &Node, out: &mut String) {
    if matches!(node, Node::Alternate(_)) {
        out.push_str("(?:");
        print_node(node, out);
        out.push(')');
    } else {
        print_node(node, out);
    }
}

fn print_repeat(inner: &Node, min: u32, max: Option<u32>, greed: Greed, out: &mut String) {
    let single = matches!(
        inner,
        Node::Byte(_) | Node::Capture { .. } | Node::Atomic(_) | Node::BranchReset(_)
    );
    if single {
        print_node(inner, out);
    } else {
        out.push_str("(?:");
        print_node(inner, out);
        out.push(')');
    }
    let _ = match (min, max) {
        (0, None) => write!(out, "*"),
        (1, None) => write!(out, "+"),
        (0, Some(1)) => write!(out, "?"),
        (min, None) => write!(out, "{{{min},}}"),
        (min, Some(max)) if min == max => write!(out, "{{{min}}}"),
        (min, Some(max)) => write!(out, "{{{min},{max}}}"),
    };
    out.push_str(match greed {
        Greed::Greedy => "",
        Greed::Lazy => "?",
        Greed::Possessive => "+",
    });
}

fn print_set(set: &ByteSet, out: &mut String) {
    let ranges = set.ranges();
    match ranges.as_slice() {
        [] => out.push_str("(?!)"),
        [(0, 255)] => out.push('.'),
        [(byte, last)] if byte == last => print_byte(*byte, out),
        _ => {
            out.push('[');
            for (first, last) in ranges {
                print_byte(first, out);
                if last > first {
                    out.push('-');
                    print_byte(last, out);
                }
            }
            out.push(']');
        }
    }
}

fn print_byte(byte: u8, out: &mut String) {
    if byte.is_ascii_alphanumeric() {
        out.push(char::from(byte));
    } else {
        let _ = write!(out, "\\x{byte:02x}");
    }
}
