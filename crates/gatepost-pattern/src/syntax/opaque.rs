//! Patterns that the parser does not support and that PCRE2 parses.
//!
//! Perl has more syntax than rules use: control verbs, lookaround as a condition, relative
//! references, Unicode properties. The parser refuses it, since nothing could be derived from it
//! for a prefilter. PCRE2 interprets most of it in the same way, so such a pattern is passed on
//! unchanged, with its modifiers in front.

use std::fmt::Write as _;

use super::{Modifiers, Node};

/// Perl's Unicode boundaries, which PCRE2 reads as `\b` and a literal.
const UNICODE_BOUNDARIES: [&[u8]; 2] = [b"\\b{", b"\\B{"];

/// A pattern without delimiters as one node; `None` if PCRE2 would interpret it differently from
/// Perl.
pub(crate) fn opaque(body: &[u8], modifiers: Modifiers) -> Option<Node> {
    let finds = |text: &&[u8]| memchr::memmem::find(body, text).is_some();
    if UNICODE_BOUNDARIES.iter().any(finds) {
        return None;
    }
    let mut source = String::from("(?^");
    for (is_on, letters) in [
        (modifiers.fold_case, "i"),
        (modifiers.multi_line, "m"),
        (modifiers.dot_all, "s"),
        (modifiers.extended && !modifiers.extended_classes, "x"),
        (modifiers.extended_classes, "xx"),
        (modifiers.no_capture, "n"),
    ] {
        if is_on {
            source.push_str(letters);
        }
    }
    source.push(')');
    for &byte in body {
        if byte.is_ascii() {
            source.push(char::from(byte));
        } else {
            let _ = write!(source, "\\x{byte:02x}");
        }
    }
    Some(Node::Opaque(source.into()))
}
