//! The delimiters of Perl's match operator: `/…/i`, `m{…}x`, `m!…!`.

use super::cursor::Modifiers;

/// Splits a pattern into its body and its modifiers.
pub(crate) fn split(text: &[u8]) -> Result<(&[u8], Modifiers), String> {
    let (rest, end) = opening(text)?;
    let letters = rest
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_lowercase())
        .count();
    let body_end = rest.len() - letters;
    let (body, letters) = rest.split_at(body_end);
    let body = body
        .strip_suffix(&[end])
        .ok_or_else(|| format!("the closing {} is missing", char::from(end)))?;
    let mut modifiers = Modifiers::default();
    for &letter in letters {
        if !modifiers.set(letter, true) {
            return Err(format!("unknown modifier {}", char::from(letter)));
        }
    }
    // Brackets need no escape inside the pattern; any other delimiter does.
    if !matches!(end, b'}' | b')' | b']') && has_unescaped(body, end) {
        return Err(format!("unescaped {} inside the pattern", char::from(end)));
    }
    Ok((body, modifiers))
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

fn has_unescaped(body: &[u8], delimiter: u8) -> bool {
    let mut bytes = body.iter();
    while let Some(&byte) = bytes.next() {
        if byte == b'\\' {
            bytes.next();
        } else if byte == delimiter {
            return true;
        }
    }
    false
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
    }
}
