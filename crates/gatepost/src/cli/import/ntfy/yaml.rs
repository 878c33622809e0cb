//! The subset of YAML in ntfy's server.yml: keys with one value, or with a list of values.
//!
//! Anchors, tags, nested maps and texts over several lines do not occur in such a file; any other
//! line is returned unchanged.

/// One key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct YamlEntry {
    /// Counted from 1.
    pub(super) number: usize,
    pub(super) line: String,
    /// The key; empty if the line cannot be parsed.
    pub(super) key: String,
    pub(super) values: Vec<String>,
}

/// The keys of a file, in its order.
pub(super) fn entries(text: &str) -> Vec<YamlEntry> {
    let mut entries: Vec<YamlEntry> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let content = without_comment(line);
        let trimmed = content.trim();
        if trimmed.is_empty() || trimmed == "---" {
            continue;
        }
        if let Some(item) = trimmed.strip_prefix("- ")
            && let Some(last) = entries.last_mut().filter(|last| !last.key.is_empty())
        {
            last.values.push(unquoted(item));
            continue;
        }
        let is_top = !content.starts_with([' ', '\t']);
        let pair = trimmed.split_once(':').filter(|_| is_top);
        let (key, values) = match pair {
            Some((key, value)) => (key.trim().to_owned(), values(value.trim())),
            None => (String::new(), Vec::new()),
        };
        entries.push(YamlEntry {
            number: at + 1,
            line: line.to_owned(),
            key,
            values,
        });
    }
    entries
}

/// A `#` begins a comment at the start of a line or after white space, outside of quotes.
fn without_comment(line: &str) -> &str {
    let mut quote = None;
    let mut before = ' ';
    for (at, character) in line.char_indices() {
        match quote {
            Some(open) if open == character => quote = None,
            None if character == '"' || character == '\'' => quote = Some(character),
            None if character == '#' && before.is_whitespace() => {
                return line.get(..at).unwrap_or_default();
            }
            _ => {}
        }
        before = character;
    }
    line
}

fn values(text: &str) -> Vec<String> {
    if text.is_empty() {
        return Vec::new();
    }
    match text
        .strip_prefix('[')
        .and_then(|list| list.strip_suffix(']'))
    {
        Some(list) => {
            let items = list.split(',').map(str::trim);
            items
                .filter(|item| !item.is_empty())
                .map(unquoted)
                .collect()
        }
        None => vec![unquoted(text)],
    }
}

fn unquoted(text: &str) -> String {
    let text = text.trim();
    for quote in ['"', '\''] {
        let inner = text.strip_prefix(quote);
        if let Some(inner) = inner.and_then(|inner| inner.strip_suffix(quote)) {
            return inner.to_owned();
        }
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_a_value_or_a_list() {
        let text = "# all\nlisten-http: \":80\" # the port\nkey-file: /a#b\nlist:\n  - one\n\
             \x20 - 'two'\n\
             inline: [a, \"b\"]\nempty:\n  nested: 1\n";
        let found = entries(text);
        let pairs: Vec<(&str, Vec<&str>)> = found
            .iter()
            .map(|entry| {
                let values = entry.values.iter().map(String::as_str).collect();
                (entry.key.as_str(), values)
            })
            .collect();
        assert_eq!(
            pairs,
            [
                ("listen-http", vec![":80"]),
                ("key-file", vec!["/a#b"]),
                ("list", vec!["one", "two"]),
                ("inline", vec!["a", "b"]),
                ("empty", vec![]),
                ("", vec![]),
            ]
        );
        assert_eq!(found[0].number, 2);
    }
}
