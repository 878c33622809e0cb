//! Character classes of byte strings, as in Perl's patterns.

use std::borrow::Cow;

/// The bytes that `\s` matches in a byte string.
pub(crate) const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// The bytes that `\w` matches in a byte string.
pub(crate) const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Whether a character is permitted in a field name: printable, no colon.
pub(crate) const fn is_field_name(byte: u8) -> bool {
    matches!(byte, 0x21..=0x39 | 0x3b..=0x7e)
}

/// Without white space at either end.
pub(crate) fn trim(text: &[u8]) -> &[u8] {
    trim_end(trim_start(text))
}

/// Without white space at the start.
pub(crate) fn trim_start(text: &[u8]) -> &[u8] {
    let start = text
        .iter()
        .position(|&byte| !is_space(byte))
        .unwrap_or(text.len());
    text.get(start..).unwrap_or_default()
}

/// Without white space at the end.
pub(crate) fn trim_end(text: &[u8]) -> &[u8] {
    let end = text
        .iter()
        .rposition(|&byte| !is_space(byte))
        .map_or(0, |last| last + 1);
    text.get(..end).unwrap_or_default()
}

/// Whether the text is empty or only white space.
pub(crate) fn is_blank(text: &[u8]) -> bool {
    text.iter().all(|&byte| is_space(byte))
}

/// Whether `text` begins with `prefix`, in any case.
pub(crate) fn starts_with_ignore_case(text: &[u8], prefix: &[u8]) -> bool {
    text.get(..prefix.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

/// The position of the first occurrence of `needle` (lower case, not empty) in `text` from `from`
/// on, in any case.
pub(crate) fn find_ignore_case(text: &[u8], needle: &[u8], from: usize) -> Option<usize> {
    let first = *needle.first()?;
    let rest = text.get(from..)?;
    memchr::memchr2_iter(first, first.to_ascii_uppercase(), rest)
        .find(|&at| {
            rest.get(at..at + needle.len())
                .is_some_and(|found| found.eq_ignore_ascii_case(needle))
        })
        .map(|at| from + at)
}

/// The lines of `text`, each with its line feed.
pub fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let length = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
        let (line, after) = rest.split_at(length);
        rest = after;
        Some(line)
    })
}

/// Replaces every CR LF by LF.
pub(crate) fn without_carriage_returns(text: &[u8]) -> Cow<'_, [u8]> {
    let mut out = Vec::new();
    let mut from = 0;
    for at in memchr::memchr_iter(b'\r', text) {
        if text.get(at + 1) == Some(&b'\n') {
            if out.capacity() == 0 {
                out.reserve_exact(text.len());
            }
            out.extend_from_slice(text.get(from..at).unwrap_or_default());
            from = at + 1;
        }
    }
    if from == 0 {
        return Cow::Borrowed(text);
    }
    out.extend_from_slice(text.get(from..).unwrap_or_default());
    Cow::Owned(out)
}
