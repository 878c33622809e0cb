//! Patterns of views and eval functions in rule files: `/…/i`, `m{…}`, or bare.

use std::borrow::Cow;
use std::ffi::CString;
use std::sync::Arc;

use gatepost_pattern::{CompileMode, PcreCode};

/// The most matching steps on one text; beyond them the pattern counts as not matching.
const MATCH_STEPS_MAX: u32 = 300_000;
/// The number of groups that can be requested by number.
const GROUPS: usize = 4;

/// A compiled pattern in Perl's notation. Cheap to clone.
#[derive(Clone, Debug)]
pub struct MailPattern(Arc<PcreCode>);

impl MailPattern {
    /// Compiles a pattern with delimiters and flags, or a bare one.
    pub fn compile(text: &str) -> Result<Self, String> {
        let (body, flags) = split_delimiters(text.trim());
        Self::with_flags(body, flags)
    }

    /// Compiles a pattern that has no delimiters.
    pub fn with_flags(body: &str, flags: &str) -> Result<Self, String> {
        let known: String = flags
            .chars()
            .filter(|flag| "imsx".contains(*flag))
            .collect();
        let pattern = match &known[..] {
            "" => Cow::Borrowed(body),
            known => Cow::Owned(format!("(?{known}){body}")),
        };
        PcreCode::compile(&pattern, CompileMode::AsWritten)
            .map(|code| Self(Arc::new(code)))
            .map_err(|error| error.to_string())
    }

    /// Whether the pattern matches anywhere in `text`.
    pub fn is_match(&self, text: &[u8]) -> bool {
        self.find(text, 0).is_some()
    }

    fn find(&self, text: &[u8], start: usize) -> Option<(usize, usize)> {
        self.0.search(text, start, MATCH_STEPS_MAX).ok()?
    }

    /// The text of group `index` in the first match; group 0 is the whole match.
    pub fn group<'t>(&self, text: &'t [u8], index: usize) -> Option<&'t [u8]> {
        debug_assert!(index < GROUPS);
        let groups = self.groups::<GROUPS>(text)?;
        groups.get(index).copied().flatten()
    }

    /// The texts of the first `N` groups in the first match; group 0 is the whole match.
    pub fn groups<'t, const N: usize>(&self, text: &'t [u8]) -> Option<[Option<&'t [u8]>; N]> {
        let found = self.0.search_groups::<N>(text, 0, MATCH_STEPS_MAX).ok()?;
        let whole = found.first().copied().flatten();
        whole.map(|_| found.map(|span| span.and_then(|(from, to)| text.get(from..to))))
    }

    /// The number of a named group.
    pub(crate) fn group_number(&self, name: &str) -> Option<usize> {
        self.0.group_number(&CString::new(name).ok()?)
    }

    /// The spans of all matches. An empty match directly after another is left out.
    pub fn spans<'t>(&'t self, text: &'t [u8]) -> impl Iterator<Item = (usize, usize)> + 't {
        let (mut start, mut last_end) = (0, None);
        std::iter::from_fn(move || {
            loop {
                let (from, to) = self.find(text, start)?;
                start = if from == to { to + 1 } else { to };
                if from == to && last_end == Some(to) {
                    continue;
                }
                last_end = Some(to);
                return Some((from, to));
            }
        })
    }
}

/// The pattern and the flags of `/…/flags`, `m{…}flags`, `m'…'flags`.
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
        let pattern = MailPattern::compile("/u=(.*?)(?:&|$)/i").expect("it is a pattern");
        assert_eq!(pattern.group(b"x?U=ab&c", 1), Some(&b"ab"[..]));
        assert_eq!(pattern.group(b"x", 1), None);
    }

    #[test]
    fn spans_follow_each_other() {
        let spans = |pattern: &str, text: &[u8]| {
            let pattern = MailPattern::compile(pattern).expect("it is a pattern");
            pattern.spans(text).collect::<Vec<_>>()
        };
        assert_eq!(spans("/a+/", b"aab a"), [(0, 2), (4, 5)]);
        assert_eq!(spans("/a*/", b"aab"), [(0, 2), (3, 3)]);
        assert_eq!(spans("/./", b"a\nb"), [(0, 1), (2, 3)]);
        assert_eq!(spans("/./s", b"a\n"), [(0, 1), (1, 2)]);
        assert_eq!(spans("/^B/im", b"a\nb"), [(2, 3)]);
        assert!(spans("/a/", b"").is_empty());
    }
}
