//! Header lines with 8-bit text as encoded words (RFC 2047), at the places where SpamAssassin puts
//! them.

use std::fmt::Write as _;

use base64::{Engine as _, engine::general_purpose::STANDARD};

/// A field's value in which every line consists of printable ASCII.
pub(super) fn encode(value: &str) -> String {
    if value.bytes().all(|byte| is_plain(byte) || byte == b'\n') {
        return value.to_owned();
    }
    let lines: Vec<String> = value.split('\n').map(line).collect();
    lines.join("\n")
}

/// One line: all from the first to the last word that is not plain is one encoded word.
fn line(text: &str) -> String {
    let bytes = text.as_bytes();
    let is_odd = |&byte: &u8| !is_plain(byte);
    let (Some(first), Some(last)) = (
        bytes.iter().position(is_odd),
        bytes.iter().rposition(is_odd),
    ) else {
        return text.to_owned();
    };
    let is_blank = |&byte: &u8| matches!(byte, b' ' | b'\t');
    let start = bytes.iter().take(first).rposition(is_blank);
    let start = start.map_or(0, |blank| blank + 1);
    let end = bytes.iter().skip(last).position(is_blank);
    let end = end.map_or(bytes.len(), |blank| last + blank);
    let word = bytes.get(start..end).unwrap_or_default();
    let (before, after) = (text.get(..start), text.get(end..));
    format!(
        "{}{}{}",
        before.unwrap_or_default(),
        encoded(word),
        after.unwrap_or_default()
    )
}

const fn is_plain(byte: u8) -> bool {
    matches!(byte, b'\t' | b' '..=b'~')
}

/// The shorter of the two encodings.
fn encoded(word: &[u8]) -> String {
    let needs_escape =
        |byte: u8| matches!(byte, b'=' | b'?' | b'_') || !matches!(byte, b' '..=b'~');
    let escapes = word.iter().filter(|&&byte| needs_escape(byte)).count();
    if 3 * (word.len() + 2 * escapes) > 4 * (word.len() + 2) {
        return format!("=?UTF-8?B?{}?=", STANDARD.encode(word));
    }
    let mut text = String::from("=?UTF-8?Q?");
    for &byte in word {
        match byte {
            b' ' => text.push('_'),
            byte if needs_escape(byte) => {
                let _ = write!(text, "={byte:02X}");
            }
            byte => text.push(char::from(byte)),
        }
    }
    text.push_str("?=");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_that_need_it_are_encoded() {
        for (value, encoded) in [
            ("plain", "plain"),
            ("a w\u{f6}rld b", "a =?UTF-8?Q?w=C3=B6rld?= b"),
            ("a\n\tw\u{f6}rds. x", "a\n\t=?UTF-8?Q?w=C3=B6rds.?= x"),
            (
                "x \u{e4}bcdefg hi \u{e4}bcdefg y",
                "x =?UTF-8?Q?=C3=A4bcdefg_hi_=C3=A4bcdefg?= y",
            ),
            ("\u{e4}\u{e4}\u{e4}", "=?UTF-8?B?w6TDpMOk?="),
        ] {
            assert_eq!(encode(value), encoded);
        }
    }
}
