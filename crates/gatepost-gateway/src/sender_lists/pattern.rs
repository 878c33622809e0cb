//! Entries of a user's list of senders: addresses and patterns of addresses.

use std::fmt;
use std::str::FromStr;

/// The longest entry as it is written: with `*@`, it has the length of an address (RFC 5321,
/// section 4.5.3.1.3, without the angle brackets).
const ENTRY_CHARACTERS_MAX: usize = 252;

/// An entry in lower case: an address, or a pattern of addresses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SenderPattern(String);

/// The text is no entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MalformedSenderPattern;

impl fmt::Display for MalformedSenderPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(
            "write an address (anna@example.org), a domain (example.org) or a pattern of \
             addresses (*@*.example.org)",
        )
    }
}

impl std::error::Error for MalformedSenderPattern {}

impl FromStr for SenderPattern {
    type Err = MalformedSenderPattern;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_short = text.chars().count() <= ENTRY_CHARACTERS_MAX;
        let text = text.to_lowercase();
        let pattern = match text.split_once('@') {
            None => format!("*@{text}"),
            Some(("", domain)) => format!("*@{domain}"),
            Some(_) => text,
        };
        let is_plain = |character: char| !character.is_whitespace() && !character.is_control();
        let (_, domain) = pattern.rsplit_once('@').ok_or(MalformedSenderPattern)?;
        // A domain of wildcards alone would be that of every address.
        let is_domain = domain.contains(|character| !"*?.-".contains(character));
        if is_short && is_domain && pattern.chars().all(is_plain) {
            Ok(Self(pattern))
        } else {
            Err(MalformedSenderPattern)
        }
    }
}

impl fmt::Display for SenderPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl SenderPattern {
    /// An entry of the store.
    pub(super) fn stored(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The number of literal bytes.
    pub(super) fn literal_bytes(&self) -> usize {
        self.0.bytes().filter(|byte| !b"*?".contains(byte)).count()
    }

    pub(super) fn is_exact(&self) -> bool {
        !self.0.contains(['*', '?'])
    }

    /// Whether the address, in lower case, matches.
    pub(super) fn matches(&self, address: &str) -> bool {
        let (pattern, address) = (self.0.as_bytes(), address.as_bytes());
        let (mut at, mut place) = (0, 0);
        // The last `*`, and the place up to which it matches so far.
        let mut star = None;
        while place < address.len() {
            match pattern.get(at) {
                Some(b'*') => {
                    star = Some((at, place));
                    at += 1;
                }
                Some(&byte) if byte == b'?' || byte == address[place] => {
                    at += 1;
                    place += 1;
                }
                _ => {
                    let Some((last, until)) = star else {
                        return false;
                    };
                    star = Some((last, until + 1));
                    (at, place) = (last + 1, until + 1);
                }
            }
        }
        pattern[at..].iter().all(|byte| *byte == b'*')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(text: &str) -> SenderPattern {
        text.parse().expect("an entry")
    }

    #[test]
    fn entries_are_addresses_domains_and_patterns() {
        for (text, address, expected) in [
            ("Otto@Far.Example", "otto@far.example", true),
            ("otto@far.example", "otto@far.example.org", false),
            ("far.example", "eva@far.example", true),
            ("@far.example", "eva@far.example", true),
            ("far.example", "eva@sub.far.example", false),
            ("*@*.far.example", "eva@sub.far.example", true),
            ("*@*.far.example", "eva@far.example", false),
            ("news-??@far.example", "news-12@far.example", true),
            ("news-??@far.example", "news-1@far.example", false),
            ("*a*b@c.example", "xaxxbxb@c.example", true),
            ("*a*b@c.example", "xaxxbx@c.example", false),
        ] {
            assert_eq!(entry(text).matches(address), expected, "{text} {address}");
        }
        for text in [
            "",
            "@",
            "a@",
            "*",
            "*@*",
            "a b@c.example",
            "a\r\n@b.example",
        ] {
            assert!(text.parse::<SenderPattern>().is_err(), "{text:?}");
        }
    }
}
