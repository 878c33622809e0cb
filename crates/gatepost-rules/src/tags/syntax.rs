//! The syntax of template tags: `_NAME_` and `_NAME(argument)_`.

/// A tag in a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tag<'t> {
    pub(crate) name: &'t str,
    pub(crate) argument: Option<&'t str>,
    /// The text of the tag, underscores included.
    pub(crate) text: &'t str,
}

/// A piece of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TagTemplatePart<'t> {
    Text(&'t str),
    Tag(Tag<'t>),
}

/// A template in pieces, in order.
pub(crate) fn pieces(template: &str) -> impl Iterator<Item = TagTemplatePart<'_>> {
    let mut rest = template;
    let mut found = None;
    std::iter::from_fn(move || {
        if let Some(tag) = found.take() {
            return Some(TagTemplatePart::Tag(tag));
        }
        if rest.is_empty() {
            return None;
        }
        let mut starts = memchr::memchr_iter(b'_', rest.as_bytes());
        let next = starts.find_map(|start| Some((start, tag(rest.get(start..)?)?)));
        let Some((start, tag)) = next else {
            return Some(TagTemplatePart::Text(std::mem::take(&mut rest)));
        };
        let before = rest.get(..start).unwrap_or_default();
        rest = rest.get(start + tag.text.len()..).unwrap_or_default();
        if before.is_empty() {
            return Some(TagTemplatePart::Tag(tag));
        }
        found = Some(tag);
        Some(TagTemplatePart::Text(before))
    })
}

/// The tag at the beginning of a text. A name consists of words of capital letters and digits with
/// single underscores between them, and has as many words as are followed by the underscore that
/// ends the tag.
fn tag(text: &str) -> Option<Tag<'_>> {
    let inner = text.get(1..)?;
    let bytes = inner.as_bytes();
    let is_word = |at: usize| {
        let byte = bytes.get(at);
        byte.is_some_and(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
    };
    if !bytes.first()?.is_ascii_uppercase() {
        return None;
    }
    let mut ends: smallvec::SmallVec<[usize; 8]> = smallvec::SmallVec::new();
    let mut at = 0;
    loop {
        while is_word(at) {
            at += 1;
        }
        ends.push(at);
        if bytes.get(at) != Some(&b'_') || !is_word(at + 1) {
            break;
        }
        at += 1;
    }
    ends.iter().rev().find_map(|&end| {
        let name = inner.get(..end)?;
        let (argument, end) = match bytes.get(end)? {
            b'_' => (None, end),
            b'(' => {
                let line = inner.get(end + 1..)?.split('\n').next()?;
                let length = line.find(")_")?;
                (line.get(..length), end + 2 + length)
            }
            _ => return None,
        };
        Some(Tag {
            name,
            argument,
            text: text.get(..end + 2)?,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_distinguished_from_text() {
        let names = |template| -> Vec<String> {
            let show = |piece| match piece {
                TagTemplatePart::Text(text) => format!("{text:?}"),
                TagTemplatePart::Tag(tag) => format!("{}{:?}", tag.name, tag.argument),
            };
            pieces(template).map(show).collect()
        };
        for (template, expected) in [
            ("", ""),
            ("a _b_ c", "\"a _b_ c\""),
            ("_A_", "ANone"),
            ("__A__", "\"_\" ANone \"_\""),
            ("_A__B_", "ANone BNone"),
            ("_A_B_", "A_BNone"),
            ("_A_Bc", "ANone \"Bc\""),
            ("x_A(b c)_y", "\"x\" ASome(\"b c\") \"y\""),
            ("_A(b", "\"_A(b\""),
            ("_A(\n)_", "\"_A(\\n)_\""),
            ("_1A_ _A1_", "\"_1A_ \" A1None"),
        ] {
            let found = names(template).join(" ");
            assert_eq!(found, expected, "{template}");
        }
    }
}
