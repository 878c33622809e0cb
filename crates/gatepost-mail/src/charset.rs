//! Decodes bytes to characters, with SpamAssassin's fallbacks in its order.
//!
//! The declared character set of spam is often wrong. UTF-8 is tried first, whatever was declared,
//! because text is rarely valid UTF-8 by accident; then the declared character set; then
//! Windows-1252, which never fails.

use std::borrow::Cow;

use encoding_rs::{Encoding, WINDOWS_1252};

/// Decoded text, and whether it consists of characters.
///
/// Text that consists of ASCII bytes remains bytes. The difference matters when entities such as
/// `&#233;` are added later: bytes stay one byte (Latin-1), characters become UTF-8.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decoded<'a> {
    /// The text.
    pub(crate) text: Cow<'a, str>,
    /// The text was decoded from a character set.
    pub(crate) characters: bool,
}

/// The strictness with which a declared character set is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CharsetTrust {
    /// Bodies: UTF-8 first, and the declared character set only if every byte is valid.
    Guess,
    /// Encoded words: the declared character set, with replacement characters for invalid bytes.
    Declared,
}

/// The text of a body with `normalize_charset 0`: decoded if it is UTF-8 and was declared as UTF-8,
/// as ASCII or not at all, otherwise its bytes.
pub(crate) fn decode_utf8_only<'a>(bytes: &'a [u8], charset: &[u8]) -> Decoded<'a> {
    if bytes.is_ascii() {
        return plain(bytes);
    }
    let is_declared =
        charset.eq_ignore_ascii_case(b"us-ascii") || charset.eq_ignore_ascii_case(b"utf-8");
    if is_declared && let Ok(text) = std::str::from_utf8(bytes) {
        return Decoded {
            text: Cow::Borrowed(text),
            characters: true,
        };
    }
    Decoded {
        text: latin1(bytes),
        characters: false,
    }
}

/// One character for each byte.
fn latin1(bytes: &[u8]) -> Cow<'static, str> {
    Cow::Owned(bytes.iter().copied().map(char::from).collect())
}

/// Decodes `bytes`, which were declared to be in `charset`.
pub(crate) fn decode<'a>(bytes: &'a [u8], charset: &[u8], trust: CharsetTrust) -> Decoded<'a> {
    let ascii = bytes.is_ascii();
    if ascii && is_ascii_superset(charset) {
        return plain(bytes);
    }
    let mut tried_utf8 = false;
    if !ascii && trust == CharsetTrust::Guess {
        if let Ok(text) = std::str::from_utf8(bytes) {
            return Decoded {
                text: Cow::Borrowed(text),
                characters: true,
            };
        }
        tried_utf8 = true;
    }
    let declared = if trust == CharsetTrust::Guess && is_ascii_name(charset) {
        None
    } else {
        decode_declared(bytes, charset, trust, tried_utf8)
    };
    if let Some(text) = declared {
        return Decoded {
            text,
            characters: true,
        };
    }
    if ascii {
        return plain(bytes);
    }
    Decoded {
        text: windows_1252(bytes),
        characters: true,
    }
}

/// ASCII bytes, undecoded.
fn plain(bytes: &[u8]) -> Decoded<'_> {
    // This check alone processes many bytes at a time.
    let text = std::str::from_utf8(bytes);
    Decoded {
        text: text.map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed),
        characters: false,
    }
}

/// Windows-1252 in which the five unassigned bytes are replacement characters.
pub(crate) fn windows_1252(bytes: &[u8]) -> Cow<'_, str> {
    let (text, _) = WINDOWS_1252.decode_without_bom_handling(bytes);
    if bytes
        .iter()
        .any(|&byte| is_unassigned_in_windows_1252(byte))
    {
        let fixed = text.chars().map(|character| match character {
            '\u{81}' | '\u{8d}' | '\u{8f}' | '\u{90}' | '\u{9d}' => char::REPLACEMENT_CHARACTER,
            character => character,
        });
        return Cow::Owned(fixed.collect());
    }
    text
}

fn is_unassigned_in_windows_1252(byte: u8) -> bool {
    matches!(byte, 0x81 | 0x8d | 0x8f | 0x90 | 0x9d)
}

fn decode_declared<'a>(
    bytes: &'a [u8],
    charset: &[u8],
    trust: CharsetTrust,
    tried_utf8: bool,
) -> Option<Cow<'a, str>> {
    let name = charset.to_ascii_lowercase();
    let lossy = trust == CharsetTrust::Declared;
    match name.as_slice() {
        b"iso-8859-1" | b"iso8859-1" | b"windows-1252" | b"cp1252" => {
            let strict = !bytes
                .iter()
                .any(|&byte| is_unassigned_in_windows_1252(byte));
            (lossy || strict).then(|| windows_1252(bytes))
        }
        b"utf-8" | b"utf8" => {
            if tried_utf8 {
                return None;
            }
            match std::str::from_utf8(bytes) {
                Ok(text) => Some(Cow::Borrowed(text)),
                Err(_) => lossy.then(|| String::from_utf8_lossy(bytes)),
            }
        }
        // Perl's Latin-1 is the standard's, with control characters at 80 to 9F.
        b"latin1" | b"latin-1" | b"l1" | b"cp819" | b"iso_8859-1" | b"iso-ir-100" => {
            Some(latin1(bytes))
        }
        b"us-ascii" | b"ascii" | b"ansi_x3.4-1968" | b"iso646-us" => (lossy || bytes.is_ascii())
            .then(|| {
                let text = bytes.iter().map(|&byte| {
                    if byte.is_ascii() {
                        char::from(byte)
                    } else {
                        char::REPLACEMENT_CHARACTER
                    }
                });
                Cow::Owned(text.collect())
            }),
        b"utf-7" | b"utf7" | b"unicode-1-1-utf-7" => decode_utf7(bytes).map(Cow::Owned),
        _ if name.starts_with(b"utf-16")
            || name.starts_with(b"utf16")
            || name.starts_with(b"utf 16") =>
        {
            decode_utf16(bytes)
        }
        _ => {
            let encoding = Encoding::for_label_no_replacement(&name)?;
            let (text, malformed) = encoding.decode_without_bom_handling(bytes);
            (lossy || !malformed).then_some(text)
        }
    }
}

/// UTF-16 in either byte order, which the positions of its spaces and zero bytes determine.
fn decode_utf16(bytes: &[u8]) -> Option<Cow<'_, str>> {
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return None;
    }
    let (mut little, mut big) = (0_usize, 0_usize);
    let (mut even, mut odd) = (0_usize, 0_usize);
    for pair in bytes.chunks(2) {
        let first = pair.first().copied().unwrap_or(0);
        let second = pair.get(1).copied().unwrap_or(0);
        even += usize::from(first >> 4) + usize::from(first & 15);
        odd += usize::from(second >> 4) + usize::from(second & 15);
        little += usize::from(first == 0x20 && second == 0);
        big += usize::from(first == 0 && second == 0x20);
    }
    little += usize::from(even > odd * 4);
    big += usize::from(odd * 4 > even);
    let encoding = match little.cmp(&big) {
        std::cmp::Ordering::Greater => encoding_rs::UTF_16LE,
        std::cmp::Ordering::Less => encoding_rs::UTF_16BE,
        std::cmp::Ordering::Equal => return None,
    };
    let (text, malformed) = encoding.decode_without_bom_handling(bytes);
    (!malformed).then_some(text)
}

/// UTF-7, RFC 2152: `+` shifts to UTF-16 in base64, `-` back. `None` if a shift contains half a
/// character.
fn decode_utf7(bytes: &[u8]) -> Option<String> {
    let mut out = String::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(shift) = memchr::memchr(b'+', rest) {
        out.push_str(std::str::from_utf8(rest.get(..shift)?).ok()?);
        let inner = rest.get(shift + 1..)?;
        let length = inner
            .iter()
            .take_while(|&&byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
            .count();
        let after = inner.get(length..)?;
        if length == 0 {
            out.push('+');
        } else {
            let units = super::transfer::base64(inner.get(..length)?);
            let (text, malformed) = encoding_rs::UTF_16BE
                .decode_without_bom_handling(units.get(..units.len() / 2 * 2)?);
            if malformed {
                return None;
            }
            out.push_str(&text);
        }
        rest = after.strip_prefix(b"-").unwrap_or(after);
    }
    out.push_str(std::str::from_utf8(rest).ok()?);
    Some(out)
}

fn is_ascii_name(charset: &[u8]) -> bool {
    charset.eq_ignore_ascii_case(b"us-ascii") || charset.eq_ignore_ascii_case(b"ascii")
}

/// Whether `charset` is ASCII or a common character set whose lower half is ASCII, so that ASCII
/// text needs no decoding.
fn is_ascii_superset(charset: &[u8]) -> bool {
    let name = charset.to_ascii_lowercase();
    let name = name.as_slice();
    let digits = |text: &[u8], range: std::ops::RangeInclusive<usize>| {
        range.contains(&text.len()) && text.iter().all(u8::is_ascii_digit)
    };
    if is_ascii_name(name) || matches!(name, b"iso646-us" | b"utf-8" | b"utf8" | b"big5" | b"gbk") {
        return true;
    }
    if matches!(
        name,
        b"ansi x3.4-1986"
            | b"ansi_x3.4-1986"
            | b"ansi x3.4-1968"
            | b"ansi_x3.4-1968"
            | b"ansix3.4-1968"
    ) {
        return true;
    }
    if let Some(rest) = name.strip_prefix(b"iso") {
        let rest = rest
            .strip_prefix(b"-")
            .or_else(|| rest.strip_prefix(b" "))
            .unwrap_or(rest);
        if let Some(part) = rest.strip_prefix(b"8859") {
            return part.is_empty()
                || part
                    .strip_prefix(b"-")
                    .is_some_and(|part| digits(part, 1..=2));
        }
    }
    if let Some(page) = name.strip_prefix(b"windows-") {
        return digits(page, 4..=4);
    }
    if let Some(rest) = name
        .strip_prefix(b"koi8-")
        .or_else(|| name.strip_prefix(b"euc-"))
    {
        return matches!(rest.len(), 1..=2) && rest.iter().all(u8::is_ascii_lowercase);
    }
    if let Some(rest) = name.strip_prefix(b"gb") {
        let rest = rest
            .strip_prefix(b"-")
            .or_else(|| rest.strip_prefix(b" "))
            .unwrap_or(rest);
        return rest == b"18030"
            || rest
                .strip_prefix(b"18030-20")
                .is_some_and(|year| digits(year, 2..=2));
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guess(bytes: &[u8], charset: &str) -> String {
        decode(bytes, charset.as_bytes(), CharsetTrust::Guess)
            .text
            .into_owned()
    }

    #[test]
    fn utf8_takes_precedence_over_the_declared_charset() {
        assert_eq!(guess(b"\xc3\xa4", "iso-8859-1"), "\u{e4}");
        assert_eq!(guess(b"\xe4", "iso-8859-1"), "\u{e4}");
        assert_eq!(guess(b"\xe4", "us-ascii"), "\u{e4}");
        assert_eq!(guess(b"\xc1", "koi8-r"), "\u{430}");
    }

    #[test]
    fn ascii_bytes_stay_bytes() {
        assert!(!decode(b"abc", b"iso-8859-15", CharsetTrust::Guess).characters);
        assert!(decode(b"abc", b"iso-2022-jp", CharsetTrust::Guess).characters);
    }

    #[test]
    fn bytes_stay_bytes_unless_they_are_declared_utf8() {
        let decoded = |bytes, charset: &str| {
            let decoded = decode_utf8_only(bytes, charset.as_bytes());
            (decoded.text.into_owned(), decoded.characters)
        };
        let utf8 = "\u{e4}".as_bytes();
        assert_eq!(decoded(utf8, "UTF-8"), ("\u{e4}".to_owned(), true));
        assert_eq!(decoded(utf8, "us-ascii"), ("\u{e4}".to_owned(), true));
        assert_eq!(decoded(utf8, "koi8-r"), ("\u{c3}\u{a4}".to_owned(), false));
        assert_eq!(decoded(b"\xe4", "utf-8"), ("\u{e4}".to_owned(), false));
        assert_eq!(decoded(b"a", "koi8-r"), ("a".to_owned(), false));
    }

    #[test]
    fn utf7_shifts_to_utf16_and_back() {
        assert_eq!(guess(b"M+APw-ller +- a+AGI", "utf-7"), "M\u{fc}ller + ab");
    }

    #[test]
    fn utf16_is_recognised_by_its_zeros() {
        assert_eq!(guess(b"a\0 \0b\0", "utf-16"), "a b");
    }
}
