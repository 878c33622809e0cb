//! The delimiters of Perl's match operator: `/…/i`, `m{…}x`, `m!…!`.

use super::cursor::Modifiers;
use super::error::SyntaxError;

/// Splits a pattern into its body and its modifiers.
pub(crate) fn split(text: &[u8]) -> Result<(&[u8], Modifiers), SyntaxError> {
    let (rest, end) = opening(text).map_err(|reason| error(reason, 0))?;
    let start = text.len() - rest.len();
    let letters = rest
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_lowercase())
        .count();
    let body_end = rest.len() - letters;
    let (body, letters) = rest.split_at(body_end);
    let body = body.strip_suffix(&[end]).ok_or_else(|| {
        let reason = format!("the closing {} is missing", char::from(end));
        error(reason, start + body_end)
    })?;
    let mut modifiers = Modifiers::default();
    for (index, &letter) in letters.iter().enumerate() {
        if !modifiers.set(letter, true) {
            let reason = format!("unknown modifier {}", char::from(letter));
            return Err(error(reason, start + body_end + index));
        }
    }
    // Brackets need no escape inside the pattern; any other delimiter does.
    if !matches!(end, b'}' | b')' | b']')
        && let Some(position) = unescaped(body, end)
    {
        let reason = format!("unescaped {} inside the pattern", char::from(end));
        return Err(error(reason, start + position));
    }
    Ok((body, modifiers))
}

fn error(reason: String, position: usize) -> SyntaxError {
    SyntaxError { reason, position }
}

/// The text after the opening delimiter, and the closing delimiter.
fn opening(text: &[u8]) -> Result<(&[u8], u8), String> {
    if let [b'/', rest @ ..] = text {
        return Ok((rest, b'/'));
    }
    let rest = text
        .strip_prefix(b"m")
        .or_else(|| text.strip_prefix(b"qr"))
        .ok_or("the delimiters are missing")?;
    match rest {
        [b'{', rest @ ..] => Ok((rest, b'}')),
        [b'(', rest @ ..] => Ok((rest, b')')),
        [b'[', rest @ ..] => Ok((rest, b']')),
        [b'<', rest @ ..] => Ok((rest, b'>')),
        [b'\\', ..] => Err("a backslash cannot be the delimiter".to_owned()),
        [delimiter, rest @ ..] if !delimiter.is_ascii_alphanumeric() && *delimiter != b'_' => {
            Ok((rest, *delimiter))
        }
        _ => Err("the delimiters are missing".to_owned()),
    }
}

/// The first position of a delimiter without a backslash before it.
fn unescaped(body: &[u8], delimiter: u8) -> Option<usize> {
    let mut bytes = body.iter().enumerate();
    while let Some((position, &byte)) = bytes.next() {
        if byte == b'\\' {
            bytes.next();
        } else if byte == delimiter {
            return Some(position);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_kinds_of_delimiters() {
        for text in [
            "/a b/i", "m{a b}i", "m,a b,i", "m!a b!i", "qr(a b)i", "m/a b/i",
        ] {
            let (body, modifiers) = split(text.as_bytes()).unwrap();
            assert_eq!(body, b"a b");
            assert!(modifiers.fold_case);
        }
        assert_eq!(split(br"/a\/b/").unwrap().0, br"a\/b");
        assert_eq!(split(b"m{a{2}}").unwrap().0, b"a{2}");
    }

    #[test]
    fn broken_ones_are_refused() {
        for text in [
            "", "/", "abc", "/a/b/", "/a/Q", "/a/e", "mxax", r"m\a\", "/abc",
        ] {
            assert!(split(text.as_bytes()).is_err(), "{text}");
        }
        for (text, position) in [("/a/b/", 2), ("/ab/iq", 5), ("m{ab1", 5), ("abc", 0)] {
            let error = split(text.as_bytes()).unwrap_err();
            assert_eq!(error.position, position, "{text}: {error}");
        }
    }
}
