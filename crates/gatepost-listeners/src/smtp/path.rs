//! Reverse and forward paths: `<anna@example.org>` (RFC 5321, section 4.1.2).

use std::net::IpAddr;

/// A mailbox, split as rules and recipient maps need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mailbox {
    /// As written, without angle brackets and source route.
    pub(super) address: String,
    at: usize,
    /// Whether a source route preceded it.
    has_source_route: bool,
}

impl Mailbox {
    pub(super) fn local(&self) -> &str {
        &self.address[..self.at]
    }

    /// The local part without a detail after `+`.
    pub(super) fn user(&self) -> &str {
        let local = self.local();
        local.split_once('+').map_or(local, |(user, _)| user)
    }

    /// Whether the sender names hosts that the mail is to pass beyond this one: by a source route
    /// (`@one,@two:`), or by `%`, `!` or `@` in the local part, quoted or not, which many servers
    /// still follow.
    pub(super) fn names_a_route(&self) -> bool {
        self.has_source_route || self.local().contains(['%', '!', '@'])
    }

    pub(super) fn domain(&self) -> &str {
        self.address.get(self.at + 1..).unwrap_or_default()
    }
}

/// RFC 5321, section 4.5.3.1.1.
const LOCAL_BYTES_MAX: usize = 64;
/// RFC 5321, section 4.5.3.1.2.
const DOMAIN_BYTES_MAX: usize = 255;

/// Parses a path at the front of `text`: returns the mailbox (`None` for `<>`) and the rest.
pub(super) fn parse(text: &str) -> Option<(Option<Mailbox>, &str)> {
    let inner = text.strip_prefix('<')?;
    let end = closing_bracket(inner)?;
    let (inner, rest) = (&inner[..end], &inner[end + 1..]);
    if inner.is_empty() {
        return Some((None, rest));
    }
    // A source route, `@one,@two:anna@example.org`, is accepted and ignored (section 4.1.1.3).
    let (address, has_source_route) = match inner.strip_prefix('@') {
        Some(route) => (&route[route.find(':')? + 1..], true),
        None => (inner, false),
    };
    let mailbox = Mailbox {
        has_source_route,
        ..mailbox(address)?
    };
    Some((Some(mailbox), rest))
}

/// Checks `local@domain`. The bare name `postmaster` has no domain (section 4.1.1.3).
fn mailbox(address: &str) -> Option<Mailbox> {
    if address.eq_ignore_ascii_case("postmaster") {
        return Some(Mailbox {
            address: address.to_owned(),
            at: address.len(),
            has_source_route: false,
        });
    }
    let at = address.rfind('@')?;
    let (local, domain) = (&address[..at], &address[at + 1..]);
    let fits = local.len() <= LOCAL_BYTES_MAX && domain.len() <= DOMAIN_BYTES_MAX;
    (fits && is_local(local) && is_domain(domain)).then(|| Mailbox {
        address: address.to_owned(),
        at,
        has_source_route: false,
    })
}

fn is_local(local: &str) -> bool {
    if let Some(quoted) = local.strip_prefix('"') {
        return is_quoted_rest(quoted);
    }
    !local.is_empty()
        && local
            .split('.')
            .all(|atom| !atom.is_empty() && atom.chars().all(is_atext))
}

/// The rest of a quoted string after its first quote, up to and with its last.
fn is_quoted_rest(text: &str) -> bool {
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => return characters.next().is_none(),
            '\\' if characters.next().is_none() => return false,
            character if character.is_control() => return false,
            _ => {}
        }
    }
    false
}

/// RFC 5322's atext, and RFC 6531's addition: any character beyond ASCII.
fn is_atext(character: char) -> bool {
    character.is_ascii_alphanumeric()
        || "!#$%&'*+-/=?^_`{|}~".contains(character)
        || (!character.is_ascii() && !character.is_control())
}

/// The address of a literal, `[192.0.2.1]` or `[IPv6:2001:db8::1]` (RFC 5321, section 4.1.3).
pub(super) fn literal_address(domain: &str) -> Option<IpAddr> {
    let literal = domain.strip_prefix('[')?.strip_suffix(']')?;
    let address = literal
        .get(..5)
        .filter(|prefix| prefix.eq_ignore_ascii_case("IPv6:"))
        .map_or(literal, |prefix| &literal[prefix.len()..]);
    address.parse().ok()
}

pub(super) fn is_domain(domain: &str) -> bool {
    if domain.starts_with('[') {
        return literal_address(domain).is_some();
    }
    let is_letter = |character: char| {
        character.is_ascii_alphanumeric() || "-_".contains(character) || !character.is_ascii()
    };
    let is_label = |label: &str| !label.is_empty() && label.chars().all(is_letter);
    let domain = domain.strip_suffix('.').unwrap_or(domain);
    domain.split('.').all(is_label)
}

/// The bracket that ends the path; a bracket within quotes does not.
fn closing_bracket(text: &str) -> Option<usize> {
    let mut quoted = false;
    let mut escaped = false;
    for (index, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '>' if !quoted => return Some(index),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths_are_parsed_as_in_the_standard() {
        for (text, address, rest) in [
            ("<anna@example.org>", Some("anna@example.org"), ""),
            (
                "<anna@example.org> SIZE=1",
                Some("anna@example.org"),
                " SIZE=1",
            ),
            ("<>", None, ""),
            (
                "<@relay.example,@b.example:anna@example.org>",
                Some("anna@example.org"),
                "",
            ),
            (
                "<\"odd > name\"@example.org>",
                Some("\"odd > name\"@example.org"),
                "",
            ),
            (
                "<\"a\\\"b\"@example.org>",
                Some("\"a\\\"b\"@example.org"),
                "",
            ),
            ("<anna@[127.0.0.1]>", Some("anna@[127.0.0.1]"), ""),
            ("<anna@[IPv6:::1]>", Some("anna@[IPv6:::1]"), ""),
            ("<grå@exämple.org>", Some("grå@exämple.org"), ""),
            ("<Postmaster>", Some("Postmaster"), ""),
            ("<a+b/c@localhost>", Some("a+b/c@localhost"), ""),
        ] {
            let (mailbox, after) = parse(text).unwrap_or_else(|| panic!("{text} is a path"));
            assert_eq!(
                mailbox.as_ref().map(|mailbox| mailbox.address.as_str()),
                address,
                "{text}"
            );
            assert_eq!(after, rest, "{text}");
        }
    }

    #[test]
    fn malformed_paths_are_refused() {
        for text in [
            "",
            "anna@example.org",
            "<anna@example.org",
            "<anna>",
            "<anna@>",
            "<@example.org>",
            "<a..b@example.org>",
            "<.a@example.org>",
            "<a b@example.org>",
            "<a@exa mple.org>",
            "<a@b..c>",
            "<\"open@example.org>",
            "<a@[300.0.0.1]>",
            "<a@b@c>",
            "<a\0b@c>",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse(&format!("<{}@example.org>", "a".repeat(65))), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,80}") {
            if let Some((Some(mailbox), _)) = parse(&text) {
                prop_assert!(mailbox.address.starts_with(mailbox.local()));
                prop_assert!(mailbox.address.ends_with(mailbox.domain()));
            }
        }
    }
}
