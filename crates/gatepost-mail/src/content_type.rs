//! `Content-Type:`, and the file name of `Content-Disposition:`, parsed as leniently as mail
//! programs do.

use super::ascii::{find_ignore_case, is_space, is_word, trim_start};

/// The content of a `Content-Type:` field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContentType {
    /// The media type in lower case; `text/plain` for any text that is not HTML, vCard or calendar.
    pub media_type: String,
    /// Parameter `boundary`.
    pub boundary: Option<Vec<u8>>,
    /// Parameter `charset`, as written.
    pub charset: Option<Vec<u8>>,
    /// Parameter `name` or `filename`, as written.
    pub name: Option<Vec<u8>>,
    /// The field has no usable type.
    pub missing: bool,
}

impl ContentType {
    /// Parses the decoded value of the field; `None` or empty if there is none.
    pub fn parse(value: Option<&[u8]>) -> Self {
        let given = value.filter(|value| !value.is_empty() && *value != b"0");
        let text = given.unwrap_or(b"text/plain; charset=us-ascii");
        let (media_type, empty) = media_type(text);
        Self {
            media_type,
            boundary: boundary(text),
            charset: parameter(text, b"charset"),
            name: file_name(text),
            missing: given.is_none() || empty,
        }
    }
}

fn media_type(text: &[u8]) -> (String, bool) {
    let text = trim_start(text);
    let text = text.split(|&byte| byte == b';').next().unwrap_or_default();
    let mut end = text.len();
    if let Some(slash) = memchr::memchr(b'/', text).filter(|&slash| slash > 0) {
        let rest = text.get(slash + 1..).unwrap_or_default();
        let length = rest.iter().position(|&byte| byte == b'/' || is_space(byte));
        end = slash + 1 + length.unwrap_or(rest.len());
    }
    let text = text.get(..end).unwrap_or_default().to_ascii_lowercase();
    let empty = text.is_empty() || text == b"0";
    let plain_text = text.strip_prefix(b"text").is_some_and(|rest| {
        !rest.first().copied().is_some_and(is_word)
            && !matches!(rest, b"/x-vcard" | b"/calendar" | b"/html")
    });
    if empty || plain_text {
        return ("text/plain".to_owned(), empty);
    }
    let kept = text.into_iter().filter(|byte| {
        let is_control = matches!(byte, 0..=0x20 | 0x7f..=0xff);
        let is_special = matches!(byte, b'"' | b'(' | b')' | b',' | b':'..=b'@' | b'['..=b']');
        !is_control && !is_special
    });
    (kept.map(char::from).collect(), false)
}

/// The position of the value of parameter `name`, after the equals sign and blanks.
fn value_start(text: &[u8], name: &[u8], from: usize) -> Option<(usize, usize)> {
    let mut from = from;
    loop {
        let at = find_ignore_case(text, name, from)?;
        from = at + 1;
        if at
            .checked_sub(1)
            .and_then(|before| text.get(before))
            .copied()
            .is_some_and(is_word)
        {
            continue;
        }
        let mut position = at + name.len();
        while text.get(position).copied().is_some_and(is_space) {
            position += 1;
        }
        if text.get(position) != Some(&b'=') {
            continue;
        }
        position += 1;
        while text.get(position).copied().is_some_and(is_space) {
            position += 1;
        }
        return Some((position, at + 1));
    }
}

fn boundary(text: &[u8]) -> Option<Vec<u8>> {
    let mut from = 0;
    while let Some((start, next)) = value_start(text, b"boundary", from) {
        from = next;
        let rest = text.get(start..).unwrap_or_default();
        if let Some(quoted) = rest.strip_prefix(b"\"") {
            let length = memchr::memchr(b'"', quoted).unwrap_or(quoted.len());
            if length > 0 {
                return quoted.get(..length).map(<[u8]>::to_vec);
            }
            continue;
        }
        let length = rest
            .iter()
            .position(|&byte| is_space(byte) || matches!(byte, b'"' | b';'))
            .unwrap_or(rest.len());
        if length > 0 && rest.get(length) != Some(&b'"') {
            return rest.get(..length).map(<[u8]>::to_vec);
        }
    }
    None
}

/// The value that starts at `start`: up to a semicolon, without quotes around it.
fn parameter_value(text: &[u8], start: usize) -> &[u8] {
    let rest = text.get(start..).unwrap_or_default();
    let rest = match rest.first() {
        Some(b'"' | b'\'') => rest.get(1..).unwrap_or_default(),
        _ => rest,
    };
    let value = rest.split(|&byte| byte == b';').next().unwrap_or_default();
    match value.last() {
        Some(b'"' | b'\'') => value.get(..value.len() - 1).unwrap_or_default(),
        _ => value,
    }
}

fn parameter(text: &[u8], name: &[u8]) -> Option<Vec<u8>> {
    let (start, _) = value_start(text, name, 0)?;
    Some(parameter_value(text, start).to_vec())
}

fn file_name(text: &[u8]) -> Option<Vec<u8>> {
    let plain = value_start(text, b"name", 0);
    let file = value_start(text, b"filename", 0);
    let first = match (plain, file) {
        (Some(plain), Some(file)) => Some(plain.min(file)),
        (plain, file) => plain.or(file),
    };
    let name = first.map(|(start, _)| parameter_value(text, start).to_vec());
    match name {
        Some(name) if !name.is_empty() => Some(name),
        name => continued_name(text).or(name),
    }
}

/// RFC 2231, section 3: `name*0=…; name*1=…`.
fn continued_name(text: &[u8]) -> Option<Vec<u8>> {
    /// More pieces than any mail program writes.
    const PIECES_MAX: u32 = 100;
    let mut name = Vec::new();
    let mut found = false;
    for piece in 0..PIECES_MAX {
        let suffix = format!("name*{piece}");
        let start = value_start(text, suffix.as_bytes(), 0)
            .or_else(|| value_start(text, format!("file{suffix}").as_bytes(), 0));
        match start {
            Some((start, _)) => name.extend_from_slice(parameter_value(text, start)),
            None if piece == 0 => return None,
            None => break,
        }
        found = true;
    }
    found.then_some(name)
}

/// The file name in a `Content-Disposition:` field.
pub(crate) fn disposition_name(value: &[u8]) -> Option<Vec<u8>> {
    let mut from = 0;
    while let Some(at) = find_ignore_case(value, b"name=", from) {
        from = at + 1;
        let rest = trim_start(value.get(at + 5..).unwrap_or_default());
        let rest = rest.strip_prefix(b"\"").unwrap_or(rest);
        let end = rest
            .iter()
            .position(|byte| matches!(byte, b'"' | b';'))
            .unwrap_or(rest.len());
        if end > 0 {
            return rest.get(..end).map(<[u8]>::to_vec);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> ContentType {
        ContentType::parse(Some(text.as_bytes()))
    }

    #[test]
    fn types_are_reduced_to_the_rendered_kinds() {
        assert_eq!(
            parse("Text/HTML; charset=\"UTF-8\"").media_type,
            "text/html"
        );
        assert_eq!(parse("text").media_type, "text/plain");
        assert_eq!(parse("text/enriched x").media_type, "text/plain");
        assert_eq!(parse("image/gif/x").media_type, "image/gif");
        assert_eq!(parse("\"image/gif\"").media_type, "image/gif");
        assert!(ContentType::parse(None).missing);
        assert_eq!(
            ContentType::parse(None).charset.as_deref(),
            Some(&b"us-ascii"[..])
        );
    }

    #[test]
    fn parameters_need_no_closing_quote() {
        assert_eq!(
            parse("multipart/mixed; boundary=\"a b").boundary.as_deref(),
            Some(&b"a b"[..])
        );
        assert_eq!(
            parse("multipart/mixed; BOUNDARY = ab; x")
                .boundary
                .as_deref(),
            Some(&b"ab"[..])
        );
        assert_eq!(parse("multipart/mixed; boundary=\"\"").boundary, None);
        assert_eq!(
            parse("a/b; name='x.gif'").name.as_deref(),
            Some(&b"x.gif"[..])
        );
        assert_eq!(
            parse("a/b; name*0=\"x\"; name*1=y.gif").name.as_deref(),
            Some(&b"xy.gif"[..])
        );
    }
}
