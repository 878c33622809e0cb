//! Translates a pattern for PCRE2, which backtracks as Perl does.
//!
//! The pattern is printed from the tree, with modifiers applied and bytes in hexadecimal, so that
//! PCRE2 needs no options, no case tables and no UTF: it matches bytes.

use std::fmt::Write as _;

use super::pcre::{CompileMode, PcreCode, PcreError};
use super::subroutines::Subroutines;
use crate::byte_set::ByteSet;
use crate::syntax::{Assertion, Greediness, GroupReference, Node};

/// Only a line feed ends a line.
const LINE_ENDS: &str = "(*LF)";

/// Compiles a pattern; the error is PCRE2's message.
pub(crate) fn compile(node: &Node, mode: CompileMode) -> Result<PcreCode, String> {
    let build = |subroutines: &Subroutines<'_>| PcreCode::compile(&print(node, subroutines), mode);
    let outcome = match build(&Subroutines::default()) {
        Err(PcreError::TOO_LARGE) => build(&Subroutines::of(node)),
        outcome => outcome,
    };
    outcome.map_err(|error| error.to_string())
}

/// The number of backtracking steps that one search with groups may take.
const MATCH_STEPS_MAX: u32 = 500_000;

/// Compiles a pattern with its capture groups.
pub(crate) fn compile_with_groups(node: &Node) -> Result<pcre2::bytes::Regex, String> {
    let nothing = Subroutines::default();
    let mut printer = Printer {
        out: format!("(*LIMIT_MATCH={MATCH_STEPS_MAX}){LINE_ENDS}"),
        subroutines: &nothing,
        groups: true,
    };
    printer.node(node);
    pcre2::bytes::RegexBuilder::new()
        .dotall(true)
        .jit_if_available(true)
        .build(&printer.out)
        .map_err(|error| error.to_string())
}

/// The pattern in PCRE2's syntax. Subroutines are defined at its end, so that the numbers of its
/// own groups stay the same.
fn print(node: &Node, subroutines: &Subroutines<'_>) -> String {
    let mut printer = Printer {
        out: LINE_ENDS.to_owned(),
        subroutines,
        groups: node.refers_to_groups(),
    };
    printer.node(node);
    if !subroutines.parts().is_empty() {
        // Branches of the pattern itself end before the definitions.
        printer.out.insert_str(LINE_ENDS.len(), "(?:");
        printer.out.push(')');
    }
    for (number, part) in subroutines.parts().iter().enumerate() {
        let _ = write!(printer.out, "(?(DEFINE)(?<{SUBROUTINE_PREFIX}{number}>");
        printer.node(part);
        printer.out.push_str("))");
    }
    printer.out
}

/// The prefix of the names of subroutines; no group of a rule has it.
const SUBROUTINE_PREFIX: &str = "subroutine_";

const fn assertion_source(assertion: Assertion) -> &'static str {
    match assertion {
        Assertion::TextStart => "\\A",
        Assertion::TextEnd => "\\z",
        Assertion::TextEndOrLastLineFeed => "\\Z",
        Assertion::LineStart => "(?m:^)",
        Assertion::LineEnd => "(?m:$)",
        Assertion::WordBoundary => "\\b",
        Assertion::NotWordBoundary => "\\B",
        Assertion::SearchStart => "\\G",
        Assertion::Keep => "\\K",
    }
}

struct Printer<'n> {
    out: String,
    subroutines: &'n Subroutines<'n>,
    /// Whether the pattern refers to groups; if not, no group needs to capture.
    groups: bool,
}

impl Printer<'_> {
    /// Prints a call if the node is a subroutine.
    fn call(&mut self, node: &Node) -> bool {
        let number = self.subroutines.number(node);
        if let Some(number) = number {
            let _ = write!(self.out, "(?&{SUBROUTINE_PREFIX}{number})");
        }
        number.is_some()
    }

    fn node(&mut self, node: &Node) {
        match node {
            Node::Empty => {}
            Node::Byte(set) => print_set(set, &mut self.out),
            Node::Assertion(assertion) => self.out.push_str(assertion_source(*assertion)),
            Node::Concat(parts) => parts.iter().for_each(|part| self.part(part)),
            Node::Alternate(branches) => self.branches(branches),
            Node::Repeat {
                inner,
                min,
                max,
                greed,
            } => self.repeat(inner, *min, *max, *greed),
            Node::Capture { name, inner } => {
                let _ = match name {
                    _ if !self.groups => write!(self.out, "(?:"),
                    Some(name) => write!(self.out, "(?<{name}>"),
                    None => write!(self.out, "("),
                };
                self.node(inner);
                self.out.push(')');
            }
            Node::Look {
                behind,
                negated,
                inner,
            } => {
                let opening = match (behind, negated) {
                    (false, false) => "(?=",
                    (false, true) => "(?!",
                    (true, false) => "(?<=",
                    (true, true) => "(?<!",
                };
                self.group(opening, inner);
            }
            Node::Atomic(inner) => self.group("(?>", inner),
            Node::BackReference { group, folded } => {
                self.out.push_str(if *folded { "(?i:" } else { "(?:" });
                let _ = match group {
                    GroupReference::Number(number) => write!(self.out, "\\g{{{number}}}"),
                    GroupReference::Name(name) => write!(self.out, "\\k{{{name}}}"),
                };
                self.out.push(')');
            }
            Node::Opaque(source) => self.out.push_str(source),
            Node::Recurse(group) => {
                let _ = match group {
                    GroupReference::Number(number) => write!(self.out, "(?{number})"),
                    GroupReference::Name(name) => write!(self.out, "(?&{name})"),
                };
            }
            Node::Conditional { group, yes, no } => {
                let _ = match group {
                    GroupReference::Number(number) => write!(self.out, "(?({number})"),
                    GroupReference::Name(name) => write!(self.out, "(?(<{name}>)"),
                };
                self.part(yes);
                self.out.push('|');
                self.part(no);
                self.out.push(')');
            }
            Node::BranchReset(branches) => {
                self.out.push_str("(?|");
                self.branches(branches);
                self.out.push(')');
            }
        }
    }

    /// Prints a node in a group; `opening` includes the parenthesis.
    fn group(&mut self, opening: &str, inner: &Node) {
        self.out.push_str(opening);
        self.node(inner);
        self.out.push(')');
    }

    fn branches(&mut self, branches: &[Node]) {
        for (index, branch) in branches.iter().enumerate() {
            if index > 0 {
                self.out.push('|');
            }
            self.part(branch);
        }
    }

    /// Prints a node so that its neighbours do not bind to a part of it.
    fn part(&mut self, node: &Node) {
        if self.call(node) {
            return;
        }
        if matches!(node, Node::Alternate(_)) {
            self.group("(?:", node);
        } else {
            self.node(node);
        }
    }

    fn repeat(&mut self, inner: &Node, min: u32, max: Option<u32>, greed: Greediness) {
        // The JIT compiler of PCRE2 10.46 miscompiles a class that is repeated zero to several
        // times after an alternation: `(?:cheap|free)[a-z]{0,9}` never matches `free`. One to
        // several times is right.
        if let (Node::Byte(_), 0, Some(2..)) = (inner, min, max) {
            self.out.push_str("(?:");
            self.repeat(inner, 1, max, greed);
            self.out.push_str(")?");
            self.greed(greed);
            return;
        }
        let single = matches!(
            inner,
            Node::Capture { .. } | Node::Atomic(_) | Node::BranchReset(_)
        );
        if let Node::Byte(set) = inner {
            print_class(set, &mut self.out);
        } else if single {
            self.node(inner);
        } else if !self.call(inner) {
            self.out.push_str("(?:");
            self.node(inner);
            self.out.push(')');
        }
        let _ = match (min, max) {
            (0, None) => write!(self.out, "*"),
            (1, None) => write!(self.out, "+"),
            (0, Some(1)) => write!(self.out, "?"),
            (min, None) => write!(self.out, "{{{min},}}"),
            (min, Some(max)) if min == max => write!(self.out, "{{{min}}}"),
            (min, Some(max)) => write!(self.out, "{{{min},{max}}}"),
        };
        self.greed(greed);
    }

    fn greed(&mut self, greed: Greediness) {
        self.out.push_str(match greed {
            Greediness::Greedy => "",
            Greediness::Lazy => "?",
            Greediness::Possessive => "+",
        });
    }
}

/// Prints one position of a pattern.
fn print_set(set: &ByteSet, out: &mut String) {
    let mut ranges = set.ranges();
    if let (Some((upper, _)), Some((lower, _)), None) =
        (ranges.next(), ranges.next(), ranges.next())
        && set.len() == 2
        && upper.is_ascii_uppercase()
        && lower == upper.to_ascii_lowercase()
    {
        // A letter of either case compiles to two bytes, a class to 33, and a compiled pattern is
        // limited to 64 KiB, which the longest stock rules would exceed.
        out.push_str("(?i)");
        out.push(char::from(lower));
        out.push_str("(?-i)");
    } else {
        print_class(set, out);
    }
}

/// Prints one position of a pattern so that a quantifier may follow.
fn print_class(set: &ByteSet, out: &mut String) {
    let mut ranges = set.ranges();
    match (ranges.next(), ranges.next()) {
        (None, _) => out.push_str("(?!)"),
        (Some((0, 255)), _) => out.push('.'),
        (Some((byte, last)), None) if byte == last => print_byte(byte, out),
        (first, second) => {
            out.push('[');
            for (first, last) in first.into_iter().chain(second).chain(ranges) {
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
        let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value & 15)]);
        out.extend(['\\', 'x', digit(byte >> 4), digit(byte)]);
    }
}
