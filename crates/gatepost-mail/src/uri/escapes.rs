//! Percent-encoded characters of a link.

use crate::transfer::hex_digit;

/// Decodes percent-encoded characters that need no encoding, and encodes those that do.
pub(super) fn decode_percent(link: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(link.len());
    let mut at = 0;
    while let Some(&byte) = link.get(at) {
        let escape = match (byte, link.get(at + 1), link.get(at + 2)) {
            (b'%', Some(&high), Some(&low)) => hex_digit(high).zip(hex_digit(low)),
            _ => None,
        };
        if let Some((high, low)) = escape {
            let value = high << 4 | low;
            if matches!(value, 0x21..=0x7e) {
                out.push(value);
            } else {
                out.extend_from_slice(link.get(at..at + 3).unwrap_or_default());
            }
            at += 3;
            continue;
        }
        if matches!(byte, 0..=0x20 | 0x7f..=0xff | b'"' | b'%' | b'<' | b'>') {
            out.extend_from_slice(format!("%{byte:02x}").as_bytes());
        } else {
            out.push(byte);
        }
        at += 1;
    }
    out
}

/// Whether the link contains percent-encoded characters.
pub(super) fn has_percent_escape(link: &[u8]) -> bool {
    memchr::memchr_iter(b'%', link).any(|at| {
        let digits = link.get(at + 1..at + 3);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    })
}

/// Decodes numeric entities for printable characters, and those for the dots of other scripts.
pub(super) fn decode_entities(form: &[u8]) -> Vec<u8> {
    const DOTS: [&[u8]; 7] = [
        b"x2e", b"12290", b"x3002", b"65294", b"xff0e", b"65377", b"xff61",
    ];
    let mut out = Vec::with_capacity(form.len());
    let mut rest = form;
    while let Some(start) = memchr::memmem::find(rest, b"&#") {
        out.extend_from_slice(rest.get(..start).unwrap_or_default());
        let inner = rest.get(start + 2..).unwrap_or_default();
        let length = inner.iter().take(64).position(|&byte| byte == b';');
        let name = length
            .and_then(|length| inner.get(..length))
            .unwrap_or_default();
        let character = if DOTS.iter().any(|dot| name.eq_ignore_ascii_case(dot)) {
            Some(b'.')
        } else {
            printable(name)
        };
        if let (Some(character), Some(length)) = (character, length) {
            out.push(character);
            rest = inner.get(length + 1..).unwrap_or_default();
        } else {
            out.extend_from_slice(b"&#");
            rest = inner;
        }
    }
    out.extend_from_slice(rest);
    out
}

fn printable(name: &[u8]) -> Option<u8> {
    let (digits, radix) = match name.strip_prefix(b"x") {
        Some(digits) => (digits, 16),
        None => (name, 10),
    };
    let digits = std::str::from_utf8(digits).ok()?.trim_start_matches('0');
    if digits.is_empty() || digits.len() > 3 || digits.starts_with('+') {
        return None;
    }
    let value = u8::from_str_radix(digits, radix).ok()?;
    (0x21..=0x7e).contains(&value).then_some(value)
}
