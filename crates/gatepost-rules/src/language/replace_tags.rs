//! `replace_tag` and similar directives: `<A>` in a pattern matches all characters that resemble an
//! A.

use std::collections::HashMap;

/// The depth to which tags in tags are expanded, as in SpamAssassin.
const PASSES_MAX: usize = 6;
/// A pattern that exceeds this length remains unchanged.
const PATTERN_BYTES_MAX: usize = 256 * 1024;

/// The replacements of a folder.
#[derive(Debug, Clone)]
pub(crate) struct ReplaceTags {
    pub(crate) tags: HashMap<Vec<u8>, Vec<u8>>,
    pub(crate) before: HashMap<Vec<u8>, Vec<u8>>,
    pub(crate) between: HashMap<Vec<u8>, Vec<u8>>,
    pub(crate) after: HashMap<Vec<u8>, Vec<u8>>,
    pub(crate) start: Vec<u8>,
    pub(crate) end: Vec<u8>,
}

impl Default for ReplaceTags {
    fn default() -> Self {
        Self {
            tags: HashMap::new(),
            before: HashMap::new(),
            between: HashMap::new(),
            after: HashMap::new(),
            start: b"<".to_vec(),
            end: b">".to_vec(),
        }
    }
}

/// A part of a pattern: text, or a name in angle brackets.
enum PatternPart {
    Text(Vec<u8>),
    Tag(Vec<u8>),
}

impl ReplaceTags {
    /// The body of a pattern with its tags replaced. `has_modifiers` says that modifiers precede
    /// the body, which matters for a tag at its beginning.
    pub(crate) fn expand(&self, body: &[u8], has_modifiers: bool) -> Vec<u8> {
        let mut pattern = body.to_vec();
        for _ in 0..PASSES_MAX {
            let (expanded, again) = self.pass(&pattern, has_modifiers);
            if expanded.len() > PATTERN_BYTES_MAX {
                break;
            }
            pattern = expanded;
            if !again {
                break;
            }
        }
        pattern
    }

    fn pass(&self, pattern: &[u8], has_modifiers: bool) -> (Vec<u8>, bool) {
        let mut pattern = pattern.to_vec();
        let before = self.take_order(&mut pattern, b"pre ", &self.before);
        let after = self.take_order(&mut pattern, b"post ", &self.after);
        let between = self.take_order(&mut pattern, b"inter ", &self.between);
        let pieces = split(&pattern);
        let mut expanded = Vec::with_capacity(pattern.len() * 8);
        let mut again = false;
        let mut previous_is_tag = !has_modifiers;
        for piece in pieces {
            match piece {
                PatternPart::Text(text) => {
                    expanded.extend_from_slice(&text);
                    previous_is_tag = false;
                }
                PatternPart::Tag(tag) => {
                    if previous_is_tag {
                        expanded.extend_from_slice(between.unwrap_or_default());
                    }
                    expanded.extend_from_slice(before.unwrap_or_default());
                    let name = tag
                        .strip_prefix(&self.start[..])
                        .and_then(|tag| tag.strip_suffix(&self.end[..]));
                    match name.and_then(|name| self.tags.get(name)) {
                        Some(replacement) => {
                            expanded.extend_from_slice(replacement);
                            again |= has_tag(replacement);
                        }
                        None => expanded.extend_from_slice(&tag),
                    }
                    expanded.extend_from_slice(after.unwrap_or_default());
                    previous_is_tag = true;
                }
            }
        }
        (expanded, again)
    }

    /// Removes `<pre NAME>` (or post, inter) and returns its replacement.
    fn take_order<'t>(
        &self,
        pattern: &mut Vec<u8>,
        order: &[u8],
        table: &'t HashMap<Vec<u8>, Vec<u8>>,
    ) -> Option<&'t [u8]> {
        let opening = [&self.start[..], order].concat();
        let start = memchr::memmem::find(pattern, &opening)?;
        let name_start = start + opening.len();
        let length = memchr::memmem::find(pattern.get(name_start..)?, &self.end)?;
        let name = pattern.get(name_start..name_start + length)?.to_vec();
        pattern.drain(start..name_start + length + self.end.len());
        table.get(&name).map(Vec::as_slice)
    }
}

/// Splits at `<…>` without angle brackets inside.
fn split(pattern: &[u8]) -> Vec<PatternPart> {
    let mut pieces = Vec::new();
    let mut text = Vec::new();
    let mut rest = pattern;
    while let Some((&byte, after)) = rest.split_first() {
        let tag_length = (byte == b'<')
            .then(|| after.iter().position(|byte| matches!(byte, b'<' | b'>')))
            .flatten()
            .filter(|&length| length > 0 && after.get(length) == Some(&b'>'));
        if let Some(length) = tag_length {
            if !text.is_empty() {
                pieces.push(PatternPart::Text(std::mem::take(&mut text)));
            }
            let (tag, after_tag) = rest.split_at(length + 2);
            pieces.push(PatternPart::Tag(tag.to_vec()));
            rest = after_tag;
        } else {
            text.push(byte);
            rest = after;
        }
    }
    if !text.is_empty() {
        pieces.push(PatternPart::Text(text));
    }
    pieces
}

fn has_tag(text: &[u8]) -> bool {
    split(text)
        .iter()
        .any(|piece| matches!(piece, PatternPart::Tag(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags() -> ReplaceTags {
        let entry = |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
        ReplaceTags {
            tags: [
                entry("A", "[a4]"),
                entry("B", "(?:b|8)"),
                entry("AB", "<A><B>"),
            ]
            .into(),
            between: [entry("W", r"\W?")].into(),
            after: [entry("P", "{1,2}")].into(),
            before: [entry("X", "(?#x)")].into(),
            ..ReplaceTags::default()
        }
    }

    #[test]
    fn tags_are_replaced_with_what_surrounds_them() {
        for (body, expanded) in [
            ("(?!ab)<A><B>", "(?!ab)[a4](?:b|8)"),
            (
                "<inter W><post P><A><B>x<A>",
                r"[a4]{1,2}\W?(?:b|8){1,2}x[a4]{1,2}",
            ),
            ("<AB>", "[a4](?:b|8)"),
            ("<pre X><A>", "(?#x)[a4]"),
            ("<nothing>", "<nothing>"),
            ("(?<!a)b", "(?<!a)b"),
        ] {
            let result = tags().expand(body.as_bytes(), true);
            assert_eq!(String::from_utf8_lossy(&result), expanded, "{body}");
        }
    }

    #[test]
    fn a_tag_that_contains_itself_ends() {
        let mut tags = tags();
        tags.tags
            .insert(b"A".to_vec(), b"<A><A><A><A><A><A><A><A>".to_vec());
        assert!(tags.expand(b"<A>", false).len() <= PATTERN_BYTES_MAX);
    }
}
