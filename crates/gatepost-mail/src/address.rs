//! Mail addresses in header fields: `Name <user@host>, user@host (Name)`, and the malformed
//! variants that occur in practice.

use std::sync::LazyLock;

use super::ascii::{is_space, trim_end};
use super::domain::is_fully_qualified;
use super::pattern::MailPattern;

/// The most addresses that are read from one field.
const ADDRESSES_MAX: usize = 1000;

/// An address with its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Address {
    /// The display name, or the comment that serves as one; undecoded.
    pub name: Option<Vec<u8>>,
    /// `user@host`.
    pub address: Option<Vec<u8>>,
}

/// A quoted string, RFC 5322, section 3.2.4.
const QUOTED: &str = r#""(?:[^"\\]++|\\.)*+""#;
/// Something with an at sign that may be an address.
const MAILBOX: &str =
    r#"(?:"(?:[^"\\]++|\\.)*+"|[^@\s<>()\[\],:;]+)@(?:[^"\s<>()\[\],:;]+|\[[\d:.]+\])"#;

static WHOLE_MAILBOX: LazyLock<MailPattern> = LazyLock::new(|| compile(&format!(r"^{MAILBOX}$")));
/// A bracket that is not closed before the end of its list entry.
static UNCLOSED_MAILBOX: LazyLock<MailPattern> =
    LazyLock::new(|| compile(&format!(r"<\s*{MAILBOX}(?![^<>,;]*>)")));
static BRACKETED_MAILBOX: LazyLock<MailPattern> =
    LazyLock::new(|| compile(&format!(r"<({MAILBOX})>")));
/// One entry of a list. Groups: 1 name before brackets, 2 text in brackets, 3 bare address, 4 bare
/// name, 5 comment.
static ENTRY: LazyLock<MailPattern> = LazyLock::new(|| {
    let name = format!(r#"((?:{QUOTED}|[^",;<]++)+)"#);
    let in_brackets = r"<\s*([^>@]*\S+|\s*)\s*>";
    let again = format!(r"(?:\s*<\s*(?:(?:{QUOTED})?\S+|\s*)\s*>)*");
    let comment = r"(?:\s*\(((?:[^()\\]++|\\.)*+)\))?";
    compile(&format!(
        r"^\s*(?:(?:{name}\s*)?{in_brackets}{again}|(?:({MAILBOX})|{name})){comment}\s*(?:[,;]|\z)"
    ))
});

fn compile(pattern: &str) -> MailPattern {
    MailPattern::with_flags(pattern, "is")
        .unwrap_or_else(|error| unreachable!("built-in pattern: {error}"))
}

/// The addresses in the raw value of a field.
pub fn parse(raw: &[u8]) -> Vec<Address> {
    let value = trim_end(raw);
    if let Some(address) = parse_simple(value) {
        return vec![address];
    }
    let mut text = without_group_name(&without_escaped_backslashes(value)).to_vec();
    let mut all = Vec::new();
    text.drain(..add_entries(&text, &mut all));
    if text.contains(&b'@')
        && let Some(closed) = with_closed_brackets(&text)
    {
        text = closed;
        text.drain(..add_entries(&text, &mut all));
    }
    if text.contains(&b'@') {
        add_leftovers(&text, &mut all);
    }
    all
}

/// Adds the entries at the beginning of a list. Returns the length of the text consumed.
fn add_entries(text: &[u8], all: &mut Vec<Address>) -> usize {
    let mut start = 0;
    while all.len() < ADDRESSES_MAX {
        let rest = text.get(start..).unwrap_or_default();
        let Some(groups) = ENTRY.groups::<6>(rest) else {
            break;
        };
        let Some(whole) = groups[0].filter(|whole| !whole.is_empty()) else {
            break;
        };
        all.push(entry(&groups));
        start += whole.len();
    }
    start
}

/// Adds missing closing brackets, as in `Name <user@host`: mail programs show such an address, so
/// rules on the sender must see it. `None` if no bracket is missing.
fn with_closed_brackets(text: &[u8]) -> Option<Vec<u8>> {
    let mut closed = Vec::with_capacity(text.len() + 1);
    let mut from = 0;
    for (_, end) in UNCLOSED_MAILBOX.spans(text).take(ADDRESSES_MAX) {
        closed.extend_from_slice(text.get(from..end)?);
        closed.push(b'>');
        from = end;
    }
    if from == 0 {
        return None;
    }
    closed.extend_from_slice(text.get(from..)?);
    Some(closed)
}

/// The two forms of nearly all fields: `user@host` and `Name <user@host>`.
fn parse_simple(value: &[u8]) -> Option<Address> {
    let value = super::ascii::trim_start(value);
    let is_odd = |byte: &u8| {
        matches!(
            byte,
            b'"' | b'\\' | b'(' | b')' | b',' | b';' | b':' | b'[' | b']'
        )
    };
    if value.iter().any(is_odd) {
        return None;
    }
    let (name, address) = match memchr::memchr(b'<', value) {
        Some(open) => {
            let inner = value.get(open + 1..)?.strip_suffix(b">")?;
            (value.get(..open)?, inner)
        }
        None => (&b""[..], value),
    };
    let sign = memchr::memchr(b'@', address)?;
    let plain = address
        .iter()
        .all(|byte| !is_space(*byte) && !matches!(byte, b'<' | b'>'));
    let once = memchr::memrchr(b'@', address) == Some(sign);
    if !plain || !once || sign == 0 || sign + 1 == address.len() || name.contains(&b'>') {
        return None;
    }
    let name = Some(name)
        .filter(|name| !name.is_empty() && *name != address)
        .map(<[u8]>::to_vec);
    Some(Address {
        name,
        address: Some(address.to_vec()),
    })
}

fn without_escaped_backslashes(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some(at) = memchr::memmem::find(rest, b"\\\\") {
        out.extend_from_slice(rest.get(..at).unwrap_or_default());
        rest = rest.get(at + 2..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    out
}

/// RFC 5322, section 3.4: `Group: a@b, c@d;`.
fn without_group_name(value: &[u8]) -> &[u8] {
    let head_end = value
        .iter()
        .position(|byte| matches!(byte, b'"' | b'(' | b')' | b'<' | b'>'))
        .unwrap_or(value.len());
    let head = value.get(..head_end).unwrap_or_default();
    match memchr::memrchr(b':', head) {
        Some(colon) if colon > 0 => {
            let rest = super::ascii::trim_start(value.get(colon + 1..).unwrap_or_default());
            if rest.starts_with(b";") { b"" } else { rest }
        }
        _ => value,
    }
}

fn entry(groups: &[Option<&[u8]>; 6]) -> Address {
    let mut address = match groups[2] {
        Some(inner) => Some(without_comments(inner)).filter(|inner| WHOLE_MAILBOX.is_match(inner)),
        None => groups[3].map(<[u8]>::to_vec),
    }
    .filter(|address| is_plausible(address));
    let mut name = groups[1].or(groups[4]).map(plain_name);
    if let Some(text) = &name {
        if address.is_none() && is_address_as_name(text) {
            address = name.take();
        } else if text.is_empty() || address.as_ref() == Some(text) {
            name = None;
        }
    }
    let name = name.or_else(|| groups[5].map(<[u8]>::to_vec));
    Address {
        name,
        address: address.map(|address| first_mailbox(&address)),
    }
}

/// A name that is itself an address.
fn is_address_as_name(text: &[u8]) -> bool {
    let host = text.split(|&byte| byte == b'@').nth(1).unwrap_or_default();
    WHOLE_MAILBOX.is_match(text) && is_plausible(text) && is_fully_qualified(host)
}

/// Cuts the text at a second at sign.
fn first_mailbox(address: &[u8]) -> Vec<u8> {
    let mut pieces = address.splitn(3, |&byte| byte == b'@');
    let (user, host) = (
        pieces.next().unwrap_or_default(),
        pieces.next().unwrap_or_default(),
    );
    [user, b"@", host].concat()
}

fn is_plausible(address: &[u8]) -> bool {
    !address.starts_with(b"\"\"@") && memchr::memchr_iter(b'"', address).take(2).count() != 1
}

/// Without comments in parentheses; nested comments are not supported.
fn without_comments(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        if byte == b'('
            && let Some(end) = comment_end(text, at + 1)
        {
            at = end;
        } else {
            out.push(byte);
            at += 1;
        }
    }
    out
}

fn comment_end(text: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        match text.get(at)? {
            b')' => return Some(at + 1),
            b'(' => return None,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// A display name without its quotes, escapes and comments.
fn plain_name(phrase: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(phrase.len());
    let mut rest = phrase;
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix(b"\"") {
            match quoted_end(inner) {
                Some(end) => {
                    out.extend(
                        inner
                            .get(..end)
                            .unwrap_or_default()
                            .iter()
                            .copied()
                            .filter(|&byte| byte != b'\\'),
                    );
                    rest = inner.get(end + 1..).unwrap_or_default();
                }
                None => rest = inner,
            }
        } else {
            let length = memchr::memchr(b'"', rest).unwrap_or(rest.len());
            out.extend(without_comments(rest.get(..length).unwrap_or_default()));
            rest = rest.get(length..).unwrap_or_default();
        }
    }
    out
}

fn quoted_end(inner: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match inner.get(at)? {
            b'"' => return Some(at),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// A text that is not a valid list can still contain addresses in brackets.
fn add_leftovers(text: &[u8], all: &mut Vec<Address>) {
    let mut rest = text;
    while all.len() < ADDRESSES_MAX {
        let Some(groups) = BRACKETED_MAILBOX.spans(rest).next() else {
            return;
        };
        let inner = rest.get(groups.0 + 1..groups.1 - 1).unwrap_or_default();
        if is_plausible(inner) {
            all.push(Address {
                name: None,
                address: Some(first_mailbox(inner)),
            });
        }
        rest = rest.get(groups.1..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> String {
        let text_of = |text: Option<Vec<u8>>| {
            text.map_or("-".to_owned(), |text| {
                String::from_utf8_lossy(&text).into_owned()
            })
        };
        parse(text.as_bytes())
            .into_iter()
            .map(|one| format!("{}|{}", text_of(one.name), text_of(one.address)))
            .collect::<Vec<_>>()
            .join(" / ")
    }

    #[test]
    fn addresses_are_read_in_every_shape() {
        for (text, expected) in [
            ("a@b.c", "-|a@b.c"),
            (" Foo Bar <a@b.c>\n", "Foo Bar |a@b.c"),
            (
                "\"Foo, Bar\" <a@b.c>, d@e.f (Baz)",
                "Foo, Bar |a@b.c / Baz|d@e.f",
            ),
            ("Group: a@b.c, d@e.f;", "-|a@b.c / -|d@e.f"),
            ("\"a@b.c\"<a@b.c>", "-|a@b.c"),
            ("\"a@b.co\"", "-|a@b.co"),
            ("<>", "-|-"),
            ("nothing", "nothing|-"),
            ("=?UTF-8?Q?\"Foo\"_<a@b.c>?=", "-|a@b.c"),
            // Email::Address::XS, which SpamAssassin uses, reads them in this way.
            ("<a@b.com", "-|a@b.com"),
            ("Bob <a@b.com", "Bob |a@b.com"),
            ("<a@b.com, c@d.org", "-|a@b.com / -|c@d.org"),
            ("<a@b.com>, <c@d.org", "-|a@b.com / -|c@d.org"),
            ("a@b.com, Carl <c@d.org", "-|a@b.com / Carl |c@d.org"),
            ("<a@b.com x", "-|a@b.com"),
            ("\"x\" <a@b.com (c)", "x |a@b.com"),
        ] {
            assert_eq!(all(text), expected, "{text}");
        }
    }
}
