//! Macros in the names of an SPF record, RFC 7208, section 7.

use crate::authentication::AnswerPending;

/// The longest name of a query; longer names lose labels from the left (section 7.3).
const NAME_BYTES_MAX: usize = 253;

/// A part of a text with macros.
enum MacroPart<'t> {
    Text(&'t str),
    Macro {
        letter: char,
        /// The number of labels kept, from the right; 0 for all.
        keep: usize,
        reverse: bool,
        delimiters: &'t str,
    },
}

/// The parts of a text; `None` if a macro is malformed.
fn pieces(text: &str) -> Option<Vec<MacroPart<'_>>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        pieces.push(MacroPart::Text(before));
        let (piece, after) = match after.as_bytes().first()? {
            b'%' => (MacroPart::Text("%"), after.get(1..)?),
            b'_' => (MacroPart::Text(" "), after.get(1..)?),
            b'-' => (MacroPart::Text("%20"), after.get(1..)?),
            b'{' => {
                let (inner, after) = after.get(1..)?.split_once('}')?;
                (read_macro(inner)?, after)
            }
            _ => return None,
        };
        pieces.push(piece);
        rest = after;
    }
    pieces.push(MacroPart::Text(rest));
    let is_text = |piece: &MacroPart<'_>| match piece {
        MacroPart::Text(text) => text
            .bytes()
            .all(|byte| byte.is_ascii_graphic() || byte == b' '),
        MacroPart::Macro { .. } => true,
    };
    pieces.iter().all(is_text).then_some(pieces)
}

fn read_macro(inner: &str) -> Option<MacroPart<'_>> {
    let letter = inner.chars().next()?;
    // c, r and t are valid only in explanations.
    if !"slodiphv".contains(letter.to_ascii_lowercase()) {
        return None;
    }
    let rest = inner.get(1..)?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = rest.split_at(digits);
    let keep: usize = if number.is_empty() {
        0
    } else {
        number.parse().ok().filter(|&keep| keep > 0)?
    };
    let after_r = rest.strip_prefix(['r', 'R']);
    let delimiters = after_r.unwrap_or(rest);
    let all_known = delimiters.chars().all(|letter| ".-+,/_=".contains(letter));
    all_known.then_some(MacroPart::Macro {
        letter,
        keep,
        reverse: after_r.is_some(),
        delimiters: if delimiters.is_empty() {
            "."
        } else {
            delimiters
        },
    })
}

/// Whether the macros of a text are valid.
pub(super) fn check(text: &str) -> Option<()> {
    pieces(text).map(|_| ())
}

/// Expands the macros of a name. `value` returns the value of a macro letter in lower case.
pub(super) fn expand(
    text: &str,
    value: impl Fn(char) -> Result<String, AnswerPending>,
) -> Result<String, AnswerPending> {
    let mut name = String::new();
    for piece in pieces(text).unwrap_or_default() {
        match piece {
            MacroPart::Text(text) => name.push_str(text),
            MacroPart::Macro {
                letter,
                keep,
                reverse,
                delimiters,
            } => {
                let value = value(letter.to_ascii_lowercase())?;
                let mut parts: Vec<&str> =
                    value.split(|letter| delimiters.contains(letter)).collect();
                if reverse {
                    parts.reverse();
                }
                let skipped = if keep == 0 {
                    0
                } else {
                    parts.len().saturating_sub(keep)
                };
                let value = parts.get(skipped..).unwrap_or_default().join(".");
                if letter.is_ascii_uppercase() {
                    escape(&value, &mut name);
                } else {
                    name.push_str(&value);
                }
            }
        }
    }
    let mut name = name.trim_end_matches('.').to_owned();
    while name.len() > NAME_BYTES_MAX {
        match name.split_once('.') {
            Some((_, rest)) => name = rest.to_owned(),
            None => name.clear(),
        }
    }
    Ok(name)
}

/// RFC 3986: characters that are not unreserved are written as `%XX`.
fn escape(value: &str, name: &mut String) {
    use std::fmt::Write as _;
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            name.push(char::from(byte));
        } else {
            let _ = write!(name, "%{byte:02X}");
        }
    }
}
