//! Decoding of content transfer encodings (base64, quoted-printable), with SpamAssassin's
//! tolerance of malformed input.

use super::ascii::is_space;

/// The value of `byte` as a base64 digit; 64 for `=`, 65 for white space, 66 for anything else.
const BASE64: [u8; 256] = {
    let mut table = [OTHER; 256];
    let mut index = 0;
    while index < 256 {
        let byte = index as u8;
        table[index] = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => PAD,
            _ if is_space(byte) => SPACE,
            _ => OTHER,
        };
        index += 1;
    }
    table
};
const PAD: u8 = 64;
const SPACE: u8 = 65;
const OTHER: u8 = 66;

/// Decodes base64, ignoring invalid characters; a truncated end yields as many bytes as possible.
pub fn base64(text: &[u8]) -> Vec<u8> {
    let mut digits = Vec::with_capacity(text.len());
    let mut strict = true;
    for &byte in text {
        match BASE64[usize::from(byte)] {
            SPACE => {}
            OTHER => strict = false,
            value => digits.push(value),
        }
    }
    // Padding inside the text: valid base64 reads it as `A` (zero bits), invalid base64 as `/`, as
    // the two decoders that SpamAssassin uses do.
    strict &= digits.len() % 4 == 0 && digits.len() >= 2;
    let end = digits
        .iter()
        .rposition(|&digit| digit != PAD)
        .map_or(0, |last| last + 1);
    digits.truncate(end);
    let inner = if strict { 0 } else { 63 };
    for digit in &mut digits {
        if *digit == PAD {
            *digit = inner;
        }
    }
    let mut out = Vec::with_capacity(digits.len() / 4 * 3 + 3);
    let mut groups = digits.chunks_exact(4);
    for group in &mut groups {
        let bits = group
            .iter()
            .fold(0_u32, |bits, &digit| bits << 6 | u32::from(digit));
        out.extend_from_slice(&bits.to_be_bytes()[1..]);
    }
    let rest = groups.remainder();
    let bits = rest
        .iter()
        .fold(0_u32, |bits, &digit| bits << 6 | u32::from(digit));
    match rest.len() {
        2 => out.push((bits >> 4) as u8),
        3 => out.extend_from_slice(&((bits >> 2) as u16).to_be_bytes()),
        _ => {}
    }
    out
}

/// Decodes quoted-printable: removes trailing blanks of lines and soft line breaks, decodes `=XX`
/// in any case, and keeps any other `=`.
pub(crate) fn quoted_printable(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(feed) = memchr::memchr(b'\n', rest) {
        let (line, after) = rest.split_at(feed);
        rest = after.get(1..).unwrap_or_default();
        let (content, ending): (&[u8], &[u8]) = match line.strip_suffix(b"\r") {
            Some(content) => (content, b"\r\n"),
            None => (line, b"\n"),
        };
        let end = content
            .iter()
            .rposition(|byte| !matches!(byte, b' ' | b'\t'))
            .map_or(0, |last| last + 1);
        let content = content.get(..end).unwrap_or_default();
        if let Some(soft) = content.strip_suffix(b"=") {
            out.extend_from_slice(soft);
        } else {
            out.extend_from_slice(content);
            out.extend_from_slice(ending);
        }
    }
    out.extend_from_slice(rest);
    decode_escapes(&mut out);
    out
}

/// Decodes `=XX` in place.
fn decode_escapes(text: &mut Vec<u8>) {
    let Some(mut write) = memchr::memchr(b'=', text) else {
        return;
    };
    let mut read = write;
    while let Some(&byte) = text.get(read) {
        let escape = (byte == b'=')
            .then(|| {
                Some((
                    hex_digit(*text.get(read + 1)?)?,
                    hex_digit(*text.get(read + 2)?)?,
                ))
            })
            .flatten();
        let (value, length) = match escape {
            Some((high, low)) => (high << 4 | low, 3),
            None => (byte, 1),
        };
        text[write] = value;
        write += 1;
        read += length;
    }
    text.truncate(write);
}

/// The value of a hexadecimal digit.
pub(crate) fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_takes_what_mailers_send() {
        assert_eq!(base64(b"SGVsbG8="), b"Hello");
        assert_eq!(base64(b"SGVs\r\nbG8"), b"Hello");
        assert_eq!(base64(b"SGV!sbG8*"), b"Hello");
        assert_eq!(base64(b"SGVsbG8hX"), b"Hello!");
        assert_eq!(base64(b""), b"");
        assert_eq!(base64(b"===="), b"");
    }

    #[test]
    fn quoted_printable_takes_what_mailers_send() {
        assert_eq!(
            quoted_printable(b"a=3Db \t\nc= \n d=\r\ne=zz="),
            b"a=b\nc de=zz="
        );
        assert_eq!(quoted_printable(b"=e4=C3=A4\r\n"), b"\xe4\xc3\xa4\r\n");
    }
}
