//! Normalises some header fields before they are divided into words.
//!
//! Dates, queue ids and random parts differ in every message: unchanged, they would fill the
//! database with tokens that never occur again. The format that software gives them often
//! identifies the sender's software, so the format is kept. The transformations are those of
//! SpamAssassin, since the tokens must be equal.

use std::sync::LazyLock;

use regex_automata::meta::Regex;
use regex_automata::util::captures::Captures;
use regex_automata::util::syntax;

/// A pattern over bytes with Perl's ASCII classes; none if it does not compile, which the tests
/// of this module rule out.
struct BytePattern(Option<Regex>);

impl BytePattern {
    fn new(pattern: &str, case_insensitive: bool) -> Self {
        Self(
            Regex::builder()
                .syntax(
                    syntax::Config::new()
                        .unicode(false)
                        .utf8(false)
                        .case_insensitive(case_insensitive),
                )
                .configure(Regex::config().utf8_empty(false))
                .build(pattern)
                .ok(),
        )
    }

    /// Replaces up to `max` matches by the text that `replace` appends.
    fn replace(
        &self,
        text: &[u8],
        max: usize,
        mut replace: impl FnMut(&dyn Fn(usize) -> Vec<u8>, &mut Vec<u8>),
    ) -> Vec<u8> {
        let Some(regex) = &self.0 else {
            return text.to_vec();
        };
        let mut out = Vec::with_capacity(text.len());
        let mut copied = 0;
        for captures in regex.captures_iter(text).take(max) {
            let Some(found) = captures.get_match() else {
                continue;
            };
            out.extend_from_slice(text.get(copied..found.start()).unwrap_or_default());
            replace(&|index| group(text, &captures, index), &mut out);
            copied = found.end();
        }
        out.extend_from_slice(text.get(copied..).unwrap_or_default());
        out
    }

    fn blank(&self, text: &[u8]) -> Vec<u8> {
        self.replace(text, usize::MAX, |_, out| out.push(b' '))
    }

    fn remove(&self, text: &[u8]) -> Vec<u8> {
        self.replace(text, usize::MAX, |_, _| {})
    }
}

fn group(text: &[u8], captures: &Captures, index: usize) -> Vec<u8> {
    captures
        .get_group(index)
        .and_then(|span| text.get(span.range()))
        .unwrap_or_default()
        .to_vec()
}

macro_rules! patterns {
    ($($name:ident = $pattern:expr $(, $flag:ident)?;)*) => {
        $(static $name: LazyLock<BytePattern> =
            LazyLock::new(|| BytePattern::new($pattern, patterns!(@$($flag)?)));)*
        #[cfg(test)]
        const ALL: &[&LazyLock<BytePattern>] = &[$(&$name),*];
    };
    (@) => { false };
    (@any_case) => { true };
}

patterns! {
    BOUNDARY = "boundary=[\"'](.*?)[\"']", any_case;
    GRAY_TYPE_WORDS = r"\b(?:text|charset)\b";
    OUTLOOK_EXPRESS_ID =
        r"<([0-9a-f]{4})[0-9a-f]{8}\$([0-9a-f]{4})[0-9a-f]{4}\$([0-9a-f]{8})@(\S+)>";
    EXIM_ID = r"<[A-Za-z0-9]{7}-[A-Za-z0-9]{6}-0[A-Za-z0-9]@";
    SENDMAIL_ID =
        r"<20\d\d[01]\d[0123]\d[012]\d[012345]\d[012345]\d\.[A-F0-9]{10,12}@";
    WITH_SMTP_ID = r"\swith\sSMTP\sid\sg[\dA-Z]{10,12}\s";
    WITH_ESMTP_ID = r"\swith\sESMTP\sid\s[\dA-F]{10,12}\s";
    QUEUE_ID = r"\bid\s[a-zA-Z0-9]{7,20}\b";
    EXIM_QUEUE_ID = r"\bid\s[A-Za-z0-9]{7}-[A-Za-z0-9]{6}-0[A-Za-z0-9]";
    DATE = concat!(
        r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),\s)?[0-3\s]?[0-9]\s",
        r"(?:Jan|Feb|Ma[ry]|Apr|Ju[nl]|Aug|Sep|Oct|Nov|Dec)\s(?:19|20)?[0-9]{2}\s",
        r"[0-2][0-9](?::[0-5][0-9]){1,2}\s",
        r"(?:\s*\(|\)|\s*(?:[+-][0-9]{4})|\s*(?:UT|[A-Z]{2,3}T))*",
    );
    ADDRESS_V4 = r"\b(\d{1,3}\.)(\d{1,3}\.)(\d{1,3})(\.\d{1,3})\b";
    GRAY_RECEIVED_WORDS = r"\b(?:with|from|for|SMTP|ESMTP)\b";
    RELAY_KEYS = r" [a-z]+=";
}

/// `Content-Type`: of a boundary only the shape is kept, at the end.
pub(super) fn content_type(value: &[u8]) -> Vec<u8> {
    let mut boundary = None;
    let mut text = BOUNDARY.replace(value, usize::MAX, |group, out| {
        boundary = Some(group(1));
        out.push(b' ');
    });
    text.extend(boundary_shape(&boundary.unwrap_or_default()));
    GRAY_TYPE_WORDS.blank(&text)
}

/// A boundary with its hexadecimal digits as `H` and its runs of separators as words.
fn boundary_shape(boundary: &[u8]) -> Vec<u8> {
    let is_separator = |byte: u8| matches!(byte, b'-' | b'_' | b'.' | b'=');
    let mut shape = Vec::with_capacity(boundary.len() * 2);
    let mut in_run = false;
    for byte in boundary {
        if is_separator(*byte) != in_run {
            shape.push(b' ');
            in_run = !in_run;
        }
        shape.push(if byte.is_ascii_hexdigit() {
            b'H'
        } else {
            *byte
        });
    }
    if in_run {
        shape.push(b' ');
    }
    shape
}

/// `Message-Id`: the parts that the sending software chose.
pub(super) fn message_id(value: &[u8]) -> Vec<u8> {
    let text = OUTLOOK_EXPRESS_ID.replace(value, usize::MAX, |group, out| {
        for (mark, index) in [(&b" OEA"[..], 1), (b" OEB", 2), (b" OEC", 3), (b" ", 4)] {
            out.extend_from_slice(mark);
            out.extend(group(index));
        }
        out.push(b' ');
    });
    let text = EXIM_ID.replace(&text, 1, |_, _| {});
    let mut text = SENDMAIL_ID.remove(&text);
    for byte in &mut text {
        if !byte.is_ascii_alphanumeric() && *byte != b'_' {
            *byte = b' ';
        }
    }
    text
}

/// `Received`: hosts and networks, without ids and dates.
pub(super) fn received(value: &[u8]) -> Vec<u8> {
    let text = WITH_SMTP_ID.blank(value);
    let text = WITH_ESMTP_ID.blank(&text);
    let text = QUEUE_ID.blank(&text);
    let text = EXIM_QUEUE_ID.blank(&text);
    let text = DATE.remove(&text);
    let text = ADDRESS_V4.replace(&text, usize::MAX, |group, out| {
        let network = [group(1), group(2), group(3)].concat();
        out.extend_from_slice(&network);
        out.extend_from_slice(b" ip*");
        out.extend_from_slice(&network);
        out.extend(group(4));
        out.push(b' ');
    });
    GRAY_RECEIVED_WORDS.blank(&text)
}

/// The relays that SpamAssassin reads from `Received`: the values without their keys.
pub(super) fn relays(value: &[u8]) -> Vec<u8> {
    RELAY_KEYS.blank(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles() {
        assert!(ALL.iter().all(|pattern| pattern.0.is_some()));
    }

    #[track_caller]
    fn check(chew: fn(&[u8]) -> Vec<u8>, value: &str, expected: &str) {
        assert_eq!(String::from_utf8_lossy(&chew(value.as_bytes())), expected);
    }

    #[test]
    fn fields_are_stripped_of_unique_values() {
        check(
            content_type,
            " multipart/mixed; boundary=\"--Next_0a\"",
            " multipart/mixed;   -- NHxt _ HH",
        );
        check(
            received,
            " from a (a [10.1.2.3]) by b with ESMTP id EF86747C67 for <x@y>; \
             Thu, 22 Aug 2002 10:05:00 -0400 (EDT)",
            "   a (a [10.1.2 ip*10.1.2.3 ]) by b   <x@y>; ",
        );
        check(
            message_id,
            " <E17hCD2-0001aB-00@mx.example>",
            " mx example ",
        );
        check(relays, "[ ip=1.2.3.4 rdns= helo=x ]", "[ 1.2.3.4  x ]");
    }
}
