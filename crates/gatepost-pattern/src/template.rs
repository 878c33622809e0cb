//! Patterns with captured texts: `%{NAME}` stands for the texts that a group `(?<NAME>…)` of
//! another pattern captured.

use std::collections::HashMap;

use crate::engine;
use crate::pattern::{Pattern, PatternError};
use crate::prefix::PrefixFilter;
use crate::syntax::Modifiers;

/// A pattern that takes the place of a value and matches more bytes than any other part of a
/// pattern, with the number of these bytes.
const LONGEST_VALUE: (&[u8], usize) = (b"(?:x{65000}){65000}", 65_000 * 65_000);

/// A pattern that takes the place of a value and matches every value.
const ANY_VALUE: &[u8] = b"(?s:.*)";

/// The captured texts, by group.
pub type Captured = HashMap<String, Vec<Vec<u8>>>;

#[derive(Debug, Clone, PartialEq, Eq)]
enum TemplatePart {
    Text(Vec<u8>),
    Tag(String),
}

/// A pattern with `%{NAME}`, compiled when all its values are captured.
#[derive(Debug)]
pub struct Template {
    parts: Vec<TemplatePart>,
    modifiers: Modifiers,
    /// Every match contains one of the values.
    needs_value: bool,
    /// The positions at which matches may start, for all values; `None` if a match may lack the
    /// values.
    prefix: Option<Box<PrefixFilter>>,
}

impl Template {
    /// Parses a pattern without delimiters; `None` if it contains no `%{NAME}`. The error says why
    /// the pattern is refused with any value.
    pub fn parse(body: &[u8], modifiers: Modifiers) -> Option<Result<Self, PatternError>> {
        let parts = parts(body);
        if !parts
            .iter()
            .any(|part| matches!(part, TemplatePart::Tag(_)))
        {
            return None;
        }
        let mut template = Self {
            parts,
            modifiers,
            needs_value: false,
            prefix: None,
        };
        let (longest, length) = LONGEST_VALUE;
        let body = template.body_with(|_, body| body.extend_from_slice(longest));
        Some(Pattern::parse_bare(&body, modifiers).map(|pattern| {
            // Only a match with a value has this length.
            template.needs_value = pattern.min_len() >= length;
            if template.needs_value {
                template.prefix = template.prefix_filter().map(Box::new);
            }
            template
        }))
    }

    /// The values that the pattern refers to: groups, or values that a caller identifies by a name
    /// and an argument.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            TemplatePart::Tag(name) => Some(name.as_str()),
            TemplatePart::Text(_) => None,
        })
    }

    /// The pattern with its values; `None` if one of them was not captured.
    pub fn fill(&self, captured: &Captured) -> Option<Result<Pattern, PatternError>> {
        let values = |name: &str| captured.get(name).filter(|values| !values.is_empty());
        if !self.names().all(|name| values(name).is_some()) {
            return None;
        }
        let body = self.body_with(|name, body| {
            for (index, value) in values(name).into_iter().flatten().enumerate() {
                if index > 0 {
                    body.push(b'|');
                }
                quote(value, body);
            }
        });
        Some(Pattern::parse_bare(&body, self.modifiers))
    }

    /// The prefix filter of the pattern with any values. They are parts of a sequence, since every
    /// match contains one, so a pattern with other values starts nowhere else.
    fn prefix_filter(&self) -> Option<PrefixFilter> {
        let body = self.body_with(|_, body| body.extend_from_slice(ANY_VALUE));
        let pattern = Pattern::parse_bare(&body, self.modifiers).ok()?;
        Some(PrefixFilter::of(&pattern.tree()))
    }

    /// The pattern with the text that `add_value` appends for each name.
    fn body_with(&self, mut add_value: impl FnMut(&str, &mut Vec<u8>)) -> Vec<u8> {
        let mut body = Vec::new();
        for part in &self.parts {
            match part {
                TemplatePart::Text(text) => body.extend_from_slice(text),
                TemplatePart::Tag(name) => {
                    body.extend_from_slice(b"(?:");
                    add_value(name, &mut body);
                    body.push(b')');
                }
            }
        }
        body
    }

    /// Whether a text can match at all: much cheaper than compiling the pattern, and usually false.
    pub fn may_match(&self, text: &[u8], captured: &Captured) -> bool {
        if !self.needs_value {
            return true;
        }
        if let Some(prefix) = &self.prefix
            && prefix.rules_out(text, 0)
        {
            return false;
        }
        let mut values = self.names().filter_map(|name| captured.get(name)).flatten();
        values.any(|value| !value.is_ascii() || contains(text, value))
    }
}

/// Whether a text contains another, ignoring case.
fn contains(text: &[u8], value: &[u8]) -> bool {
    let Some(&first) = value.first() else {
        return true;
    };
    let starts = memchr::memchr2_iter(first.to_ascii_lowercase(), first.to_ascii_uppercase(), text);
    let mut starts = starts.filter_map(|start| text.get(start..start + value.len()));
    starts.any(|part| part.eq_ignore_ascii_case(value))
}

/// Appends a pattern that matches exactly this text.
fn quote(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        if byte.is_ascii_alphanumeric() || byte == b'_' {
            out.push(byte);
        } else {
            out.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
        }
    }
}

fn parts(body: &[u8]) -> Vec<TemplatePart> {
    let mut parts = Vec::new();
    let mut text = Vec::new();
    let mut rest = body;
    while let Some((&byte, after)) = rest.split_first() {
        if byte == b'\\' {
            // An escaped `\%{NAME}` is not a reference.
            text.extend(rest.iter().take(2));
            rest = rest.get(2..).unwrap_or_default();
        } else if byte == b'%'
            && let Some((name, after)) = tag(after)
        {
            parts.push(TemplatePart::Text(std::mem::take(&mut text)));
            parts.push(TemplatePart::Tag(name));
            rest = after;
        } else {
            text.push(byte);
            rest = after;
        }
    }
    parts.push(TemplatePart::Text(text));
    parts
}

/// `{NAME}` or `{NAME(argument)}` at the beginning of a text, and the rest.
fn tag(text: &[u8]) -> Option<(String, &[u8])> {
    let inner = text.strip_prefix(b"{")?;
    let end = memchr::memchr(b'}', inner)?;
    let name = inner.get(..end)?;
    let word_end = memchr::memchr(b'(', name).unwrap_or(name.len());
    let (word, argument) = name.split_at(word_end);
    let is_word = word.first().is_some_and(u8::is_ascii_uppercase)
        && word
            .iter()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_');
    let is_argument =
        argument.is_empty() || memchr::memchr(b')', argument) == Some(argument.len() - 1);
    let is_name = is_word && is_argument;
    let name = String::from_utf8(name.to_vec()).ok().filter(|_| is_name)?;
    Some((name, inner.get(end + 1..)?))
}

/// The named capture groups of a pattern.
#[derive(Debug)]
pub struct Groups(pcre2::bytes::Regex);

impl Groups {
    /// The groups of a pattern, if one of them is wanted and the pattern compiles.
    pub fn of(pattern: &Pattern, is_wanted: impl Fn(&str) -> bool) -> Option<Self> {
        let tree = pattern.tree();
        let mut names = Vec::new();
        tree.group_names(&mut names);
        if !names.iter().any(|name| is_wanted(name)) {
            return None;
        }
        engine::compile_with_groups(&tree).ok().map(Self)
    }

    /// Adds the texts that the groups capture in the first matches; returns the number of matches.
    pub fn capture(&self, text: &[u8], hits_max: u32, captured: &mut Captured) -> u32 {
        let mut hits = 0;
        // A search that runs into its limit captures nothing more.
        for found in self
            .0
            .captures_iter(text)
            .map_while(Result::ok)
            .take(hits_max as usize)
        {
            hits += 1;
            for name in self.0.capture_names().iter().flatten() {
                let Some(value) = found.name(name).map(|value| value.as_bytes()) else {
                    continue;
                };
                let values = captured.entry(name.clone()).or_default();
                if !value.is_empty() && values.iter().all(|known| known != value) {
                    values.push(value.to_vec());
                }
            }
        }
        hits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_for_themselves() {
        let modifiers = Modifiers::default();
        let template = Template::parse(br"^\%{A}%{NAME}\#%{lower}$", modifiers);
        let template = template.unwrap().unwrap();
        assert!(template.needs_value);
        let captured =
            Captured::from([("NAME".to_owned(), vec![b"a.b@c".to_vec(), b"d|e".to_vec()])]);
        let pattern = template.fill(&captured).unwrap().unwrap();
        for (text, expected) in [
            ("%{A}a.b@c#%{lower}", true),
            ("%{A}d|e#%{lower}", true),
            ("%{A}axb@c#%{lower}", false),
        ] {
            let found = pattern
                .find(text.as_bytes(), 0, |_| true)
                .unwrap()
                .is_some();
            assert_eq!(found, expected, "{text}");
        }
        assert!(template.fill(&Captured::new()).is_none());
        assert!(template.may_match(b"%{A}A.B@C#%{lower}", &captured));
        assert!(!template.may_match(b"x A.B@C", &captured));
        assert!(!template.may_match(b"x a.b", &captured));
        for (pattern, expected) in [
            (&b"^https?://.{9,}#%{NAME}"[..], true),
            (b"%{NAME}x?|y%{NAME}", true),
            (b"%{NAME}|y{60000}", false),
            (b"(?:%{NAME})?y", false),
            (b"(?=%{NAME})y", false),
        ] {
            let template = Template::parse(pattern, modifiers).unwrap().unwrap();
            assert_eq!(template.needs_value, expected, "{}", pattern.escape_ascii());
            assert!(template.may_match(b"https://www.example.com/#a.b@c", &captured));
        }
        let template = Template::parse(b"^https?://.{9,}#%{NAME}", modifiers);
        let template = template.unwrap().unwrap();
        assert!(!template.may_match(b"mailto:a.b@c", &captured));
        assert!(Template::parse(b"no tag", modifiers).is_none());
        assert!(Template::parse(b"%{A}(", modifiers).unwrap().is_err());
    }

    #[test]
    fn groups_capture_by_name() {
        let pattern = Pattern::parse(br"/(?<WHO>\w+)@(?:(\w+)|(?<WHERE>\d))/").unwrap();
        let groups = Groups::of(&pattern, |name| name == "WHO").unwrap();
        let mut captured = Captured::new();
        assert_eq!(groups.capture(b"a@b c@d a@e", 9, &mut captured), 3);
        assert_eq!(captured["WHO"], [b"a".to_vec(), b"c".to_vec()]);
        assert!(Groups::of(&pattern, |name| name == "OTHER").is_none());
    }
}
