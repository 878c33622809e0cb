//! Lists of addresses with the wildcards `*` and `?`, as in `welcomelist_from`.

use std::collections::HashSet;

use gatepost_mail::MailPattern;

/// A list of addresses, some with wildcards.
#[derive(Clone, Debug, Default)]
pub(crate) struct AddressList {
    exact: HashSet<String>,
    /// The text after the `*` of `*@example.com`, the most common wildcard.
    hosts: HashSet<String>,
    globs: HashSet<String>,
}

/// The text after the `*` of a word such as `*@example.com`.
fn host(word: &str) -> Option<&str> {
    let host = word.strip_prefix('*')?;
    (host.starts_with('@') && !host.contains(['*', '?'])).then_some(host)
}

impl AddressList {
    /// Adds addresses, separated by blanks.
    pub(crate) fn add(&mut self, text: &str) {
        for word in text.split_ascii_whitespace() {
            let word = word.to_ascii_lowercase();
            if let Some(host) = host(&word) {
                self.hosts.insert(host.to_owned());
            } else if word.contains(['*', '?']) {
                self.globs.insert(word);
            } else {
                self.exact.insert(word);
            }
        }
    }

    /// Removes addresses.
    pub(crate) fn remove(&mut self, text: &str) {
        for word in text.split_ascii_whitespace() {
            let word = word.to_ascii_lowercase();
            self.exact.remove(&word);
            if let Some(host) = host(&word) {
                self.hosts.remove(host);
            }
            self.globs.remove(&word);
        }
    }

    /// Whether the list is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.hosts.is_empty() && self.globs.is_empty()
    }

    /// Whether the list contains an address, in any case.
    pub(crate) fn contains(&self, address: &[u8]) -> bool {
        let address = String::from_utf8_lossy(address).to_ascii_lowercase();
        self.exact.contains(&address)
            || self.has_host(&address)
            || self
                .globs
                .iter()
                .any(|glob| fits(glob.as_bytes(), address.as_bytes()))
    }

    /// Whether an address in lower case ends in one of the hosts; see [`fits`] for line feeds.
    fn has_host(&self, address: &str) -> bool {
        let address = address.strip_suffix('\n').unwrap_or(address);
        let ends = address.match_indices('@').map(|(sign, _)| sign);
        let mut ends = ends.take_while(|&sign| {
            !address
                .get(..sign)
                .is_some_and(|before| before.contains('\n'))
        });
        !self.hosts.is_empty()
            && ends.any(|sign| {
                let end = address.get(sign..).unwrap_or_default();
                self.hosts.contains(end)
            })
    }
}

/// Whether a glob matches an entire text; as with `.` and `$` in Perl, wildcards match no line
/// feed, and a line feed at the end is ignored.
fn fits(glob: &[u8], text: &[u8]) -> bool {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let (mut glob_at, mut at) = (0, 0);
    // The position after the last `*`, and the end of the text that it matched so far.
    let mut retry: Option<(usize, usize)> = None;
    while at < text.len() || glob_at < glob.len() {
        let is_feed = text.get(at) == Some(&b'\n');
        match (glob.get(glob_at), text.get(at)) {
            (Some(b'*'), _) => {
                glob_at += 1;
                retry = Some((glob_at, at));
                continue;
            }
            (Some(b'?'), Some(_)) if !is_feed => {}
            (Some(wanted), Some(byte)) if wanted == byte && *wanted != b'?' => {}
            _ => {
                let Some((next_glob, taken)) = retry.as_mut() else {
                    return false;
                };
                if text.get(*taken).is_none_or(|byte| *byte == b'\n') {
                    return false;
                }
                *taken += 1;
                (glob_at, at) = (*next_glob, *taken);
                continue;
            }
        }
        glob_at += 1;
        at += 1;
    }
    true
}

/// A pattern for a glob: `*` is any text, `?` any character.
pub(crate) fn glob(text: &str) -> Result<MailPattern, String> {
    MailPattern::with_flags(&format!("^{}$", glob_body(text)), "i")
}

/// The same for a glob that may match anywhere in a text.
pub(super) fn glob_within(text: &str) -> Result<MailPattern, String> {
    MailPattern::with_flags(&glob_body(text), "i")
}

fn glob_body(text: &str) -> String {
    let mut pattern = String::new();
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
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_match_as_their_patterns_do() {
        let texts = [
            "", "a", "ab", "a@b.c", "x@a.b.c", "aab", "abab", "a\n", "a\nb", "ab\n", "a\n\n", "\n",
        ];
        for pattern in [
            "*", "?", "a*", "*b", "a*b", "*a*b*", "*@*.c", "*@b.c", "??", "a?b", "*ab", "**", "?*",
        ] {
            let compiled = glob(pattern).unwrap();
            for text in texts {
                let expected = compiled.is_match(text.as_bytes());
                let found = fits(pattern.as_bytes(), text.as_bytes());
                assert_eq!(found, expected, "{pattern} {text:?}");
            }
        }
    }

    #[test]
    fn wildcards_match() {
        let mut list = AddressList::default();
        list.add("a@b.c *@D.e ?@f.g");
        assert!(list.contains(b"A@b.c") && list.contains(b"x.y@d.e") && list.contains(b"x@f.g"));
        assert!(!list.contains(b"xx@f.g") && !list.contains(b"a@bxc"));
        assert!(
            list.contains(b"@d.e") && list.contains(b"x@y@d.e\n") && !list.contains(b"x@d.e.f")
        );
        assert!(!list.contains(b"x\n@d.e") && !list.contains(b"@d.e\n\n"));
        list.remove("*@d.e");
        assert!(!list.contains(b"x.y@d.e"));
    }
}
