//! Lists of addresses with `*` and `?`.

use crate::mail::Pattern;
use std::collections::HashSet;

/// A list of addresses, some with wildcards.
#[derive(Clone, Debug, Default)]
pub(crate) struct AddressList {
    exact: HashSet<String>,
    globs: Vec<(String, Pattern)>,
}

impl AddressList {
    /// Adds addresses, divided by blanks.
    pub(crate) fn add(&mut self, text: &str) {
        for word in text.split_ascii_whitespace() {
            let word = word.to_ascii_lowercase();
            if !word.contains(['*', '?']) {
                self.exact.insert(word);
            } else if let Ok(glob) = glob(&word) {
                self.globs.push((word, glob));
            }
        }
    }

    /// Takes addresses out again.
    pub(crate) fn remove(&mut self, text: &str) {
        for word in text.split_ascii_whitespace() {
            let word = word.to_ascii_lowercase();
            self.exact.remove(&word);
            self.globs.retain(|(known, _)| *known != word);
        }
    }

    /// Whether nothing is in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.globs.is_empty()
    }

    /// Whether an address is in it, in any case.
    pub(crate) fn contains(&self, address: &[u8]) -> bool {
        let address = String::from_utf8_lossy(address).to_ascii_lowercase();
        self.exact.contains(&address)
            || self
                .globs
                .iter()
                .any(|(_, glob)| glob.is_match(address.as_bytes()))
    }
}

/// A pattern for a glob: `*` is any text, `?` any character.
pub(crate) fn glob(text: &str) -> Result<Pattern, String> {
    let mut pattern = String::from("^");
    for letter in text.chars() {
        match letter {
            '*' => pattern.push_str(".*"),
            '?' => pattern.push('.'),
            letter if letter.is_alphanumeric() => pattern.push(letter),
            letter => {
                pattern.push('\\');
                pattern.push(letter);
            }
        }
    }
    pattern.push('$');
    Pattern::with_flags(&pattern, "i")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_match() {
        let mut list = AddressList::default();
        list.add("a@b.c *@D.e ?@f.g");
        assert!(list.contains(b"A@b.c") && list.contains(b"x.y@d.e") && list.contains(b"x@f.g"));
        assert!(!list.contains(b"xx@f.g") && !list.contains(b"a@bxc"));
    }
}
