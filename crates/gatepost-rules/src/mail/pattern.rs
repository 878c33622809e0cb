//! Patterns that rule files give to views and eval functions: `/…/i`, `m{…}`, or bare.

use pcre2::bytes::{Regex, RegexBuilder};
use std::sync::Arc;

/// Steps a pattern may take on one text; beyond that it counts as not matching.
const MATCH_STEPS_MAX: u32 = 300_000;

/// A compiled pattern in Perl's notation. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Pattern(Arc<Regex>);

impl Pattern {
    /// Compiles a pattern with delimiters and flags, or, without delimiters, as it stands.
    pub(crate) fn compile(text: &str) -> Result<Self, String> {
        let (body, flags) = split_delimiters(text.trim());
        Self::with_flags(body, flags)
    }

    /// Compiles a pattern that has no delimiters.
    pub(crate) fn with_flags(body: &str, flags: &str) -> Result<Self, String> {
        let mut builder = RegexBuilder::new();
        builder.jit_if_available(true);
        builder.caseless(flags.contains('i'));
        builder.multi_line(flags.contains('m'));
        builder.dotall(flags.contains('s'));
        builder.extended(flags.contains('x'));
        let limited = format!("(*LIMIT_MATCH={MATCH_STEPS_MAX}){body}");
        builder
            .build(&limited)
            .map(|regex| Self(Arc::new(regex)))
            .map_err(|error| error.to_string())
    }

    /// Whether it matches anywhere in `text`.
    pub(crate) fn is_match(&self, text: &[u8]) -> bool {
        self.0.is_match(text).unwrap_or(false)
    }

    /// What its group `index` matched at its first match; group 0 is the whole.
    pub(crate) fn group<'t>(&self, text: &'t [u8], index: usize) -> Option<&'t [u8]> {
        let mut locations = self.0.capture_locations();
        self.0.captures_read(&mut locations, text).ok()??;
        locations
            .get(index)
            .and_then(|(start, end)| text.get(start..end))
    }

    /// What its first `N` groups matched at its first match.
    pub(crate) fn groups<'t, const N: usize>(
        &self,
        text: &'t [u8],
    ) -> Option<[Option<&'t [u8]>; N]> {
        let mut locations = self.0.capture_locations();
        self.0.captures_read(&mut locations, text).ok()??;
        Some(std::array::from_fn(|index| {
            locations
                .get(index)
                .and_then(|(start, end)| text.get(start..end))
        }))
    }

    /// The names of its groups; `None` for those without.
    pub(crate) fn group_names(&self) -> &[Option<String>] {
        self.0.capture_names()
    }

    /// The spans of all its matches.
    pub(crate) fn spans<'t>(&'t self, text: &'t [u8]) -> impl Iterator<Item = (usize, usize)> + 't {
        self.0
            .find_iter(text)
            .map_while(Result::ok)
            .map(|found| (found.start(), found.end()))
    }
}

/// Pattern and flags of `/…/flags`, `m{…}flags`, `m'…'flags`.
fn split_delimiters(text: &str) -> (&str, &str) {
    let Some(open_at) = text.strip_prefix('m').map_or_else(
        || text.starts_with('/').then_some(0),
        |rest| {
            rest.chars()
                .next()
                .filter(|mark| !mark.is_alphanumeric() && !mark.is_whitespace() && *mark != '\\')
                .map(|_| 1)
        },
    ) else {
        return (text, "");
    };
    let Some(open) = text.get(open_at..).and_then(|rest| rest.chars().next()) else {
        return (text, "");
    };
    let close = match open {
        '{' => '}',
        '(' => ')',
        '[' => ']',
        '<' => '>',
        mark => mark,
    };
    let start = open_at + open.len_utf8();
    match text.rfind(close).filter(|&end| end >= start) {
        Some(end) => {
            let flags = text.get(end + close.len_utf8()..).unwrap_or_default();
            if flags.bytes().all(|byte| byte.is_ascii_alphabetic()) {
                (text.get(start..end).unwrap_or_default(), flags)
            } else {
                (text, "")
            }
        }
        None => (text, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delimiters_are_taken_off() {
        assert_eq!(split_delimiters("/a\\/b/i"), ("a\\/b", "i"));
        assert_eq!(split_delimiters("m'a/b'i"), ("a/b", "i"));
        assert_eq!(split_delimiters("m{a}"), ("a", ""));
        assert_eq!(split_delimiters("a.b"), ("a.b", ""));
        assert_eq!(split_delimiters("mail"), ("mail", ""));
    }

    #[test]
    fn groups_are_found() {
        let pattern = Pattern::compile("/u=(.*?)(?:&|$)/i").expect("it is a pattern");
        assert_eq!(pattern.group(b"x?U=ab&c", 1), Some(&b"ab"[..]));
        assert_eq!(pattern.group(b"x", 1), None);
    }
}
