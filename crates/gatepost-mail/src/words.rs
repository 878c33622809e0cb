//! Field values: unfolding, and decoding of RFC 2047 encoded words to UTF-8.

use super::ascii::{is_space, starts_with_ignore_case, trim};
use super::charset::{CharsetTrust, decode};
use super::transfer::{base64, quoted_printable};

/// The value of field `name` as rules match it: unfolded, trimmed, decoded, UTF-8.
pub(crate) fn decode_field(name: &[u8], raw: &[u8]) -> Vec<u8> {
    let unfolded = unfold(raw);
    decode_value(name, trim(&unfolded))
}

/// Each fold (a line feed and the blanks after it) becomes one space.
fn unfold(raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(feed) = memchr::memchr(b'\n', rest) {
        let (before, after) = rest.split_at(feed);
        out.extend_from_slice(before);
        let after = after.get(1..).unwrap_or_default();
        let blanks = after
            .iter()
            .position(|byte| !matches!(byte, b' ' | b'\t'))
            .unwrap_or(after.len());
        out.push(if blanks > 0 { b' ' } else { b'\n' });
        rest = after.get(blanks..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    out
}

/// Decodes a value that is already unfolded.
pub(crate) fn decode_value(name: &[u8], value: &[u8]) -> Vec<u8> {
    let mut text = value.to_vec();
    if text.contains(&b'\n') {
        text = without_line_ends(&text);
    }
    if !text.is_ascii() {
        text = decode(&text, b"UTF-8", CharsetTrust::Guess)
            .text
            .into_owned()
            .into_bytes();
    }
    if memchr::memmem::find(&text, b"=?").is_none() || is_never_encoded(name) {
        return text;
    }
    decode_words(&text)
}

fn without_line_ends(text: &[u8]) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::with_capacity(text.len());
    for &byte in text {
        if byte == b'\n' {
            if out.last() == Some(&b'\r') {
                out.pop();
            }
        } else {
            out.push(byte);
        }
    }
    out
}

/// RFC 2047, section 5: encoded words are not permitted in fields whose values are not free text.
fn is_never_encoded(name: &[u8]) -> bool {
    const STRUCTURED: [&[u8]; 8] = [
        b"received",
        b"message-id",
        b"date",
        b"resent-message-id",
        b"resent-date",
        b"mime-version",
        b"references",
        b"in-reply-to",
    ];
    STRUCTURED
        .iter()
        .any(|structured| name.eq_ignore_ascii_case(structured))
        || starts_with_ignore_case(name, b"list-")
}

/// One encoded word.
struct Word<'a> {
    charset: &'a [u8],
    base64: bool,
    text: &'a [u8],
    length: usize,
}

/// The encoded word at the start of `text`.
fn word_at(text: &[u8]) -> Option<Word<'_>> {
    let rest = text.strip_prefix(b"=?")?;
    let charset_length = rest
        .iter()
        .position(|&byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'*' | b'_' | b'-')))?;
    let (charset, rest) = rest
        .split_at_checked(charset_length)
        .filter(|(charset, _)| !charset.is_empty())?;
    let rest = rest.strip_prefix(b"?")?;
    let base64 = match rest.first()? {
        b'b' | b'B' => true,
        b'q' | b'Q' => false,
        _ => return None,
    };
    let rest = rest.get(1..)?.strip_prefix(b"?")?;
    let end = memchr::memchr(b'?', rest)?;
    let after = rest.get(end..)?;
    if !after.starts_with(b"?=") {
        return None;
    }
    let length = text.len() - after.len() + 2;
    Some(Word {
        charset,
        base64,
        text: rest.get(..end)?,
        length,
    })
}

/// Decodes all encoded words. Adjacent words of one character set are joined before decoding,
/// because some mail programs divide words within a character.
fn decode_words(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut pending: Vec<u8> = Vec::new();
    let mut pending_charset: Vec<u8> = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(word) = word_at(rest) {
            let charset = word.charset.to_ascii_lowercase();
            if charset != pending_charset {
                flush(&mut out, &mut pending, &pending_charset);
                pending_charset = charset;
            }
            pending.extend(decode_word(&word));
            rest = rest.get(word.length..).unwrap_or_default();
            rest = skip_blanks_between_words(rest);
            continue;
        }
        flush(&mut out, &mut pending, &pending_charset);
        pending_charset.clear();
        let next = rest
            .iter()
            .skip(1)
            .position(|&byte| byte == b'=')
            .map_or(rest.len(), |at| at + 1);
        let (literal, after) = rest.split_at(next);
        out.extend_from_slice(literal);
        rest = after;
    }
    flush(&mut out, &mut pending, &pending_charset);
    out
}

/// RFC 2047, section 6.2: blanks between two encoded words are not part of the text.
fn skip_blanks_between_words(rest: &[u8]) -> &[u8] {
    let blanks = rest
        .iter()
        .position(|&byte| !is_space(byte))
        .unwrap_or(rest.len());
    match rest.get(blanks..) {
        Some(after) if blanks > 0 && word_at(after).is_some() => after,
        _ => rest,
    }
}

fn decode_word(word: &Word<'_>) -> Vec<u8> {
    if word.base64 {
        return base64(word.text);
    }
    let mut text = Vec::with_capacity(word.text.len() + 16);
    for &byte in word.text {
        match byte {
            b'_' => text.extend_from_slice(b"=20"),
            byte => text.push(byte),
        }
    }
    quoted_printable(&text)
}

fn flush(out: &mut Vec<u8>, pending: &mut Vec<u8>, charset: &[u8]) {
    if pending.is_empty() {
        return;
    }
    // RFC 2231, section 5: a language may follow the character set after an asterisk.
    let name = charset
        .split(|&byte| byte == b'*')
        .next()
        .unwrap_or_default();
    out.extend_from_slice(
        decode(pending, name, CharsetTrust::Declared)
            .text
            .as_bytes(),
    );
    pending.clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(value: &str) -> String {
        String::from_utf8(decode_field(b"Subject", value.as_bytes())).expect("decoding gives UTF-8")
    }

    #[test]
    fn words_are_decoded_and_joined() {
        assert_eq!(
            decoded(" =?utf-8?Q?caf=C3?= =?utf-8?q?=A9?= x"),
            "caf\u{e9} x"
        );
        assert_eq!(decoded(" a =?iso-8859-1?B?5A==?= =b"), "a \u{e4} =b");
        assert_eq!(decoded(" =?bad"), "=?bad");
        assert_eq!(decoded(" =?x?Q?a_b?="), "a b");
    }

    #[test]
    fn folds_become_one_space() {
        assert_eq!(decoded(" a\n\t b\r\n  c\n"), "a b\r c");
    }

    #[test]
    fn structured_fields_keep_their_words() {
        assert_eq!(
            decode_field(b"message-id", b" =?utf-8?q?a?="),
            b"=?utf-8?q?a?="
        );
    }
}
