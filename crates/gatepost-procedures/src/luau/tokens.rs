//! The words of Luau code, as far as the search for mistakes needs them.

/// One word of the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LuauToken<'a> {
    Name(&'a str),
    Text(&'a str),
    /// Any other character that is not white space.
    Sign(char),
}

/// The words with their lines, without comments. A text with escapes or parts to be filled in is
/// kept as it is written.
pub(super) fn tokens(source: &str) -> Vec<(usize, LuauToken<'_>)> {
    let mut tokens = Vec::new();
    let mut rest = source;
    let mut line = 1;
    while let Some(first) = rest.chars().next() {
        let (token, length) = next(rest, first);
        let (taken, left) = rest.split_at_checked(length).unwrap_or((rest, ""));
        if let Some(token) = token {
            tokens.push((line, token));
        }
        line += taken.matches('\n').count();
        rest = left;
    }
    tokens
}

/// The token that `rest` begins with, if it is one, and how many bytes it or the gap has.
fn next(rest: &str, first: char) -> (Option<LuauToken<'_>>, usize) {
    if let Some(comment) = rest.strip_prefix("--") {
        let long = long_bracket(comment).map(|(_, length)| length + 2);
        return (None, long.unwrap_or_else(|| line_length(rest)));
    }
    if let Some((text, length)) = long_bracket(rest) {
        return (Some(LuauToken::Text(text)), length);
    }
    if matches!(first, '"' | '\'' | '`') {
        let (text, length) = quoted(rest, first);
        return (Some(LuauToken::Text(text)), length);
    }
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    if is_word(first) {
        let length = rest.find(|character| !is_word(character));
        let length = length.unwrap_or(rest.len());
        return (
            Some(LuauToken::Name(rest.get(..length).unwrap_or_default())),
            length,
        );
    }
    let sign = (!first.is_whitespace()).then_some(LuauToken::Sign(first));
    (sign, first.len_utf8())
}

fn line_length(rest: &str) -> usize {
    rest.find('\n').unwrap_or(rest.len())
}

/// `[[…]]`, `[=[…]=]`: the text and the length of all.
fn long_bracket(rest: &str) -> Option<(&str, usize)> {
    let inner = rest.strip_prefix('[')?;
    let level = inner.len() - inner.trim_start_matches('=').len();
    let text = inner.get(level..)?.strip_prefix('[')?;
    let close = format!("]{}]", "=".repeat(level));
    let end = text.find(&close).unwrap_or(text.len());
    let length = level + 2 + end + close.len();
    Some((text.get(..end)?, length.min(rest.len())))
}

fn quoted(rest: &str, quote: char) -> (&str, usize) {
    let mut is_escaped = false;
    for (at, character) in rest.char_indices().skip(1) {
        if is_escaped {
            is_escaped = false;
        } else if character == '\\' {
            is_escaped = true;
        } else if character == quote {
            return (rest.get(1..at).unwrap_or_default(), at + 1);
        }
    }
    (rest.get(1..).unwrap_or_default(), rest.len())
}
