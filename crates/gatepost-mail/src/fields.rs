//! The text that `header` rules match: the fields of a selector, as a whole, or their addresses and
//! names. [`super::inner_values`] extracts hosts and addresses from such a value.

use std::borrow::Cow;

use super::address;
use super::ascii::{is_space, trim};
use super::part::MimePart;
use super::relay;
use super::selector::{FieldChoice, FieldPart, InnerPart};
use super::words::decode_value;
use super::{HeaderSelector, Mail};

impl Mail<'_> {
    /// The text that a `header` rule matches: all fields of `selector`, joined; `None` if there is
    /// none (then `exists:` is false, and `[if-unset: …]` applies).
    pub fn header(&self, selector: &HeaderSelector) -> Option<Cow<'_, [u8]>> {
        let mut values = self.header_values(selector).into_iter();
        let first = values.next()?;
        let Some(second) = values.next() else {
            return Some(first);
        };
        let separator: &[u8] = if first.ends_with(b"\n") { b"" } else { b"\n" };
        let mut joined = [&first, separator, &second].concat();
        for value in values {
            joined.extend_from_slice(separator);
            joined.extend_from_slice(&value);
        }
        Some(Cow::Owned(joined))
    }

    /// The values that [`Mail::header`] joins, as a list.
    pub fn header_values(&self, selector: &HeaderSelector) -> Vec<Cow<'_, [u8]>> {
        let mut values = self.whole_values(selector);
        match selector.which {
            FieldChoice::All => {}
            FieldChoice::First => values.truncate(1),
            FieldChoice::Last => {
                let last = values.len().saturating_sub(1);
                values.drain(..last);
            }
        }
        match selector.part {
            FieldPart::Whole => {}
            FieldPart::Address => values = addresses(&values),
            FieldPart::Name => values = names(&values, selector.raw),
        }
        self.inner_values(selector, values)
    }

    /// The values that `mimeheader` rules match, one for each part: the last field of `selector`,
    /// or all fields for `ALL`; `None` for a part without the field. A missing raw field is empty.
    pub fn mime_headers(&self, selector: &HeaderSelector) -> Vec<Option<Cow<'_, [u8]>>> {
        let parts = self.parts().all();
        parts.map(|part| self.mime_header(part, selector)).collect()
    }

    fn mime_header<'m>(
        &'m self,
        part: &'m MimePart,
        selector: &HeaderSelector,
    ) -> Option<Cow<'m, [u8]>> {
        let is_root = self
            .parts()
            .root()
            .is_some_and(|root| std::ptr::eq(root, part));
        let fields = if is_root {
            &self.head().fields[..]
        } else {
            &part.fields[..]
        };
        if selector.name == "ALL" {
            let mut all = Vec::new();
            for field in fields {
                all.extend_from_slice(field.name());
                all.extend_from_slice(b": ");
                if selector.raw {
                    all.extend_from_slice(&unfolded_raw(field.raw()));
                } else {
                    all.extend_from_slice(field.decoded());
                    all.push(b'\n');
                }
            }
            return Some(Cow::Owned(all));
        }
        let name = selector.name.as_bytes();
        let last = fields.iter().rev().find(|field| field.is(name));
        match last {
            Some(field) if selector.raw => Some(Cow::Borrowed(field.raw())),
            Some(field) => Some(Cow::Owned([field.decoded(), b"\n"].concat())),
            None if selector.raw => Some(Cow::Borrowed(b"")),
            None => None,
        }
    }

    /// The values of a selector in text form, such as `From:addr`.
    pub fn values_of(&self, selector: &str) -> Vec<Cow<'_, [u8]>> {
        self.header_values(&HeaderSelector::parse(selector))
    }

    /// The single value of a selector: the first of several addresses and the like, otherwise all
    /// values joined.
    pub fn scalar(&self, selector: &HeaderSelector) -> Option<Cow<'_, [u8]>> {
        let mut values = self.header_values(selector).into_iter();
        let first = values.next()?;
        let single = selector.part != FieldPart::Whole
            || selector.inner != InnerPart::Whole
            || selector.name == "EnvelopeFrom";
        if single {
            return Some(match first.strip_suffix(b"\n") {
                Some(text) => Cow::Owned(text.to_vec()),
                None => first,
            });
        }
        let Some(second) = values.next() else {
            return Some(first);
        };
        let rest = values.map(Cow::into_owned).collect::<Vec<_>>().concat();
        Some(Cow::Owned([&first[..], &second[..], &rest[..]].concat()))
    }

    /// The same for a selector in text form.
    pub fn header_text(&self, selector: &str) -> Option<Cow<'_, [u8]>> {
        self.scalar(&HeaderSelector::parse(selector))
    }

    /// The first value of a selector in text form.
    pub fn first_of(&self, selector: &str) -> Option<Cow<'_, [u8]>> {
        self.values_of(selector).into_iter().next()
    }

    fn whole_values(&self, selector: &HeaderSelector) -> Vec<Cow<'_, [u8]>> {
        let name = selector.name.as_str();
        if let Some(values) = self.pseudo_values(name, selector.raw) {
            return values;
        }
        if let Some(text) = self.relay_text(name) {
            return vec![Cow::Owned(text)];
        }
        if let Some(domains) = self.domains_of(name) {
            return domains;
        }
        if name.eq_ignore_ascii_case("EnvelopeFrom") {
            return self
                .envelope_from()
                .map(Cow::Borrowed)
                .into_iter()
                .collect();
        }
        if name.eq_ignore_ascii_case("ToCc") {
            return ["To", "Cc"]
                .iter()
                .flat_map(|field| self.unfolded(field, selector.raw))
                .collect();
        }
        if selector.raw || selector.part != FieldPart::Whole {
            return self
                .head()
                .all(name.as_bytes())
                .map(|field| Cow::Borrowed(field.raw()))
                .collect();
        }
        self.decoded_with_line_end(name)
    }

    /// The values of the pseudo-fields whose names are in upper case, such as `ALL`.
    fn pseudo_values(&self, name: &str, raw: bool) -> Option<Vec<Cow<'_, [u8]>>> {
        let first_untrusted = || self.relays().last_trusted + 1;
        let first_external = || self.relays().last_internal + 1;
        Some(match name {
            "ALL" if raw => {
                let fields = self.head().pristine_fields();
                fields.into_iter().map(Cow::Borrowed).collect()
            }
            "ALL" => {
                let lines = self.head().decoded_lines();
                lines.into_iter().map(Cow::Owned).collect()
            }
            "MESSAGEID" => {
                let fields = [
                    "X-Message-Id",
                    "Resent-Message-Id",
                    "X-Original-Message-ID",
                    "Message-Id",
                ];
                let values = fields.iter().flat_map(|field| self.unfolded(field, raw));
                values.filter(|value| !value.is_empty()).collect()
            }
            "ALL-TRUSTED" => self.relay_fields(None, Some(first_untrusted()), raw),
            "ALL-INTERNAL" => self.relay_fields(None, Some(first_external()), raw),
            "ALL-UNTRUSTED" => self.relay_fields(Some(first_untrusted()), None, raw),
            "ALL-EXTERNAL" => self.relay_fields(Some(first_external()), None, raw),
            _ => return None,
        })
    }

    /// `X-Spam-Relays-Trusted` and similar pseudo-fields.
    fn relay_text(&self, name: &str) -> Option<Vec<u8>> {
        let kind = name
            .get(..14)
            .filter(|start| start.eq_ignore_ascii_case("X-Spam-Relays-"))
            .and(name.get(14..))?;
        let relays = match kind.to_ascii_lowercase().as_str() {
            "trusted" => &self.relays().trusted,
            "untrusted" => &self.relays().untrusted,
            "internal" => &self.relays().internal,
            "external" => &self.relays().external,
            _ => return None,
        };
        Some(relay::as_text(relays).into_bytes())
    }

    /// `X-AuthorDomain` and `X-SenderDomain`: the domains of `From:`, joined by blanks, and of the
    /// envelope's sender. Fields of these names in the message do not count.
    fn domains_of(&self, name: &str) -> Option<Vec<Cow<'_, [u8]>>> {
        let domains = if name.eq_ignore_ascii_case("X-AuthorDomain") {
            self.author_domains().join(" ")
        } else if name.eq_ignore_ascii_case("X-SenderDomain") {
            self.sender_domain().unwrap_or_default()
        } else {
            return None;
        };
        let domains = Some(domains).filter(|domains| !domains.is_empty());
        let domains = domains.map(|domains| Cow::Owned(domains.into_bytes()));
        Some(domains.into_iter().collect())
    }

    /// All fields from one `Received:` field to another, both counted from the top and both
    /// included.
    fn relay_fields(&self, from: Option<i64>, to: Option<i64>, raw: bool) -> Vec<Cow<'_, [u8]>> {
        if to.is_some_and(|to| to < 0) {
            return Vec::new();
        }
        let all: Vec<Cow<'_, [u8]>> = if raw {
            self.head()
                .pristine_fields()
                .into_iter()
                .map(Cow::Borrowed)
                .collect()
        } else {
            self.head()
                .decoded_lines()
                .into_iter()
                .map(Cow::Owned)
                .collect()
        };
        let mut received = -1;
        let mut wanted = Vec::new();
        for field in all {
            received += i64::from(super::ascii::starts_with_ignore_case(&field, b"received:"));
            let last = to == Some(received);
            if last || from.is_none_or(|from| from <= received) && to.is_none_or(|to| received < to)
            {
                wanted.push(field);
            }
            if last {
                break;
            }
        }
        wanted
    }

    fn decoded_with_line_end(&self, name: &str) -> Vec<Cow<'_, [u8]>> {
        self.head()
            .all(name.as_bytes())
            .map(|field| Cow::Owned([field.decoded(), b"\n"].concat()))
            .collect()
    }

    /// The fields of one name, decoded with a line end, or raw on one line.
    fn unfolded(&self, name: &str, raw: bool) -> Vec<Cow<'_, [u8]>> {
        if raw {
            self.head()
                .all(name.as_bytes())
                .map(|field| Cow::Owned(unfold_raw(field.raw())))
                .collect()
        } else {
            self.decoded_with_line_end(name)
        }
    }
}

/// A raw value on one line.
fn unfold_raw(raw: &[u8]) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::with_capacity(raw.len());
    let mut at = 0;
    while let Some(&byte) = raw.get(at) {
        at += 1;
        if byte == b'\n' && raw.get(at).copied().is_some_and(is_space) {
            if out.last() == Some(&b'\r') {
                out.pop();
            }
            out.push(b' ');
            while raw.get(at).copied().is_some_and(is_space) {
                at += 1;
            }
        } else {
            out.push(byte);
        }
    }
    out
}

fn addresses(values: &[Cow<'_, [u8]>]) -> Vec<Cow<'static, [u8]>> {
    let all = values.iter().flat_map(|value| address::parse(value));
    all.filter_map(|one| one.address).map(Cow::Owned).collect()
}

fn names(values: &[Cow<'_, [u8]>], raw: bool) -> Vec<Cow<'static, [u8]>> {
    let all = values
        .iter()
        .flat_map(|value| address::parse(value))
        .filter_map(|one| one.name);
    all.map(|name| {
        if raw {
            name
        } else {
            tidy_name(&decode_value(b"name", &name))
        }
    })
    .map(Cow::Owned)
    .collect()
}

/// A name with single blanks and without enclosing single quotes.
fn tidy_name(name: &[u8]) -> Vec<u8> {
    let trimmed = trim(name);
    if trimmed.is_empty() {
        return name.to_vec();
    }
    let words = trimmed
        .split(|&byte| is_space(byte))
        .filter(|word| !word.is_empty());
    let tidy = words.collect::<Vec<_>>().join(&b' ');
    match tidy
        .strip_prefix(b"'")
        .and_then(|inner| inner.strip_suffix(b"'"))
    {
        Some(inner) => inner.to_vec(),
        None => tidy,
    }
}

/// A raw value on one line: each line break with the following blanks becomes one blank.
fn unfolded_raw(raw: &[u8]) -> Vec<u8> {
    let mut unfolded = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(feed) = memchr::memchr(b'\n', rest) {
        let (line, after) = rest.split_at(feed);
        let blanks = after
            .iter()
            .skip(1)
            .take_while(|byte| is_space(**byte))
            .count();
        if blanks == 0 {
            unfolded.extend_from_slice(line);
            unfolded.push(b'\n');
        } else {
            unfolded.extend_from_slice(line.strip_suffix(b"\r").unwrap_or(line));
            unfolded.push(b' ');
        }
        rest = after.get(1 + blanks..).unwrap_or_default();
    }
    unfolded.extend_from_slice(rest);
    unfolded
}
