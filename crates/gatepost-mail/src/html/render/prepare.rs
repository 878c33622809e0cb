//! Replacements in a document before it is divided into tokens.

use std::borrow::Cow;

/// Three replacements: `&nbsp;` by a blank, `<br/>` by `<br>`, and typographic double quotes by
/// straight ones, which mail programs accept as attribute quotes.
pub(super) fn prepare(source: &str) -> Cow<'_, str> {
    let mut text = Cow::Borrowed(source);
    if memchr::memmem::find(text.as_bytes(), b"&nbsp;").is_some() {
        text = Cow::Owned(text.replace("&nbsp;", " "));
    }
    if let Some(shorter) = without_empty_tags(&text) {
        text = Cow::Owned(shorter);
    }
    if memchr::memmem::find(
        text.as_bytes(),
        "\u{201c}".get(..2).unwrap_or("\u{201c}").as_bytes(),
    )
    .is_some()
        || text.contains(['\u{201c}', '\u{201d}'])
    {
        text = Cow::Owned(text.replace(['\u{201c}', '\u{201d}'], "\""));
    }
    text
}

/// Replaces `<br/>` and similar tags by `<br>`; `None` if there are none.
fn without_empty_tags(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out = String::new();
    let mut from = 0;
    for slash in memchr::memmem::find_iter(bytes, b"/>") {
        let mut end = slash;
        while end > from
            && bytes
                .get(end - 1)
                .copied()
                .is_some_and(crate::ascii::is_space)
        {
            end -= 1;
        }
        let mut start = end;
        while start > from
            && bytes
                .get(start - 1)
                .copied()
                .is_some_and(crate::ascii::is_word)
        {
            start -= 1;
        }
        if start < end && start > from && bytes.get(start - 1) == Some(&b'<') {
            if from == 0 {
                out.reserve(text.len());
            }
            out.push_str(text.get(from..end).unwrap_or_default());
            from = slash + 1;
        }
    }
    if from == 0 {
        return None;
    }
    out.push_str(text.get(from..).unwrap_or_default());
    Some(out)
}
