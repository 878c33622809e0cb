//! The terms of an SPF record, RFC 7208, section 4.6. One malformed term makes the record invalid.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::SpfResult;

/// A name, which may contain macros, and the prefix lengths of addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DomainSpec {
    /// The name as written; `None` for the domain itself.
    pub(super) name: Option<String>,
    pub(super) bits_v4: u8,
    pub(super) bits_v6: u8,
}

/// The mechanism of a directive, RFC 7208, section 5.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mechanism {
    All,
    Include(String),
    Addresses(DomainSpec),
    Exchangers(DomainSpec),
    Pointer(Option<String>),
    V4(Ipv4Addr, u8),
    V6(Ipv6Addr, u8),
    Exists(String),
}

/// The directives of a record, and its redirect.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct SpfRecord {
    pub(super) directives: Vec<(SpfResult, Mechanism)>,
    pub(super) redirect: Option<String>,
}

/// Whether a text is a record of this version.
pub(super) fn is_record(text: &[u8]) -> bool {
    let version = b"v=spf1";
    text.get(..version.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(version))
        && matches!(text.get(version.len()), None | Some(b' '))
}

impl SpfRecord {
    /// Parses a record; `None` is a permanent error.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text)
            .ok()
            .filter(|text| text.is_ascii())?;
        let mut record = Self::default();
        let mut has_explanation = false;
        for word in text.split(' ').skip(1).filter(|word| !word.is_empty()) {
            let name_length = word.find([':', '/', '=']).unwrap_or(word.len());
            let (name, rest) = word.split_at(name_length);
            if let Some(value) = rest.strip_prefix('=') {
                if !is_modifier_name(name) {
                    return None;
                }
                match name.to_ascii_lowercase().as_str() {
                    "redirect" if record.redirect.is_none() => {
                        record.redirect = Some(domain_spec(value)?);
                    }
                    "redirect" => return None,
                    "exp" if has_explanation => return None,
                    "exp" => {
                        domain_spec(value)?;
                        has_explanation = true;
                    }
                    // Section 6: unknown modifiers are ignored if their macros are valid.
                    _ => super::macros::check(value)?,
                }
                continue;
            }
            record.directives.push(directive(name, rest)?);
        }
        Some(record)
    }
}

fn is_modifier_name(name: &str) -> bool {
    name.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

fn directive(name: &str, rest: &str) -> Option<(SpfResult, Mechanism)> {
    let qualifier = match name.as_bytes().first()? {
        b'-' => SpfResult::Fail,
        b'~' => SpfResult::SoftFail,
        b'?' => SpfResult::Neutral,
        _ => SpfResult::Pass,
    };
    let name = name.strip_prefix(['+', '-', '~', '?']).unwrap_or(name);
    let value = rest.strip_prefix(':');
    let mechanism = match (name.to_ascii_lowercase().as_str(), value) {
        ("all", None) if rest.is_empty() => Mechanism::All,
        ("include", Some(value)) => Mechanism::Include(domain_spec(value)?),
        ("exists", Some(value)) => Mechanism::Exists(domain_spec(value)?),
        ("a", _) => Mechanism::Addresses(place(rest)?),
        ("mx", _) => Mechanism::Exchangers(place(rest)?),
        ("ptr", Some(value)) => Mechanism::Pointer(Some(domain_spec(value)?)),
        ("ptr", None) if rest.is_empty() => Mechanism::Pointer(None),
        ("ip4", Some(value)) => {
            let (address, bits) = with_bits(value, 32)?;
            Mechanism::V4(address.parse().ok()?, bits)
        }
        ("ip6", Some(value)) => {
            let (address, bits) = with_bits(value, 128)?;
            Mechanism::V6(address.parse().ok()?, bits)
        }
        _ => return None,
    };
    Some((qualifier, mechanism))
}

fn with_bits(text: &str, max: u8) -> Option<(&str, u8)> {
    match text.split_once('/') {
        None => Some((text, max)),
        Some((address, bits)) => Some((address, number_of_bits(bits, max)?)),
    }
}

fn number_of_bits(text: &str, max: u8) -> Option<u8> {
    let is_plain =
        text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|bits| is_plain && *bits <= max)
}

/// `[:name][/bits][//bits]`. The name may contain any visible character, colons and slashes too
/// (RFC 7208, section 7.1), so the lengths are parsed from the end.
fn place(rest: &str) -> Option<DomainSpec> {
    let (rest, v6) = split_bits(rest, "//");
    let (name, v4) = split_bits(rest, "/");
    let bits_v4 = v4.map_or(Some(32), |bits| number_of_bits(bits, 32))?;
    let name = match name.strip_prefix(':') {
        Some(name) => Some(domain_spec(name)?),
        None if name.is_empty() => None,
        None => return None,
    };
    Some(DomainSpec {
        name,
        bits_v4,
        bits_v6: v6.map_or(Some(128), |bits| number_of_bits(bits, 128))?,
    })
}

/// The text before a number at its end, and the number.
fn split_bits<'t>(text: &'t str, separator: &str) -> (&'t str, Option<&'t str>) {
    match text.rsplit_once(separator) {
        Some((before, bits))
            if !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            (before, Some(bits))
        }
        _ => (text, None),
    }
}

/// A name with macros, which ends in a macro or in a top-level label (section 7.1).
fn domain_spec(text: &str) -> Option<String> {
    super::macros::check(text)?;
    let ends_in_macro =
        text.ends_with('}') || text.ends_with("%%") || text.ends_with("%_") || text.ends_with("%-");
    let last = text.strip_suffix('.').unwrap_or(text).rsplit('.').next()?;
    let is_label = !last.is_empty()
        && !last.starts_with('-')
        && !last.ends_with('-')
        && last
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && !last.bytes().all(|byte| byte.is_ascii_digit());
    let has_dot = text.strip_suffix('.').unwrap_or(text).contains('.');
    (ends_in_macro || is_label && has_dot).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read() {
        let record = SpfRecord::parse(
            b"v=spf1 +mx a:%{d}/24//64 -ip4:192.0.2.0/24 ~include:x.example exp=why.example \
              op=auth redirect=y.example",
        )
        .unwrap();
        assert_eq!(record.directives.len(), 4);
        assert_eq!(
            record.directives[1].1,
            Mechanism::Addresses(DomainSpec {
                name: Some("%{d}".to_owned()),
                bits_v4: 24,
                bits_v6: 64,
            })
        );
        assert_eq!(record.redirect.as_deref(), Some("y.example"));
    }

    #[test]
    fn a_name_may_hold_colons_and_slashes() {
        let record =
            SpfRecord::parse(b"v=spf1 a:x:y/z.example mx:x:y/z.example/24//64 -all").unwrap();
        let place = |bits_v4, bits_v6| DomainSpec {
            name: Some("x:y/z.example".to_owned()),
            bits_v4,
            bits_v6,
        };
        assert_eq!(record.directives[0].1, Mechanism::Addresses(place(32, 128)));
        assert_eq!(record.directives[1].1, Mechanism::Exchangers(place(24, 64)));
    }

    #[test]
    fn one_bad_word_spoils_the_record() {
        for bad in [
            "moon",
            "ip4:192.0.2.256",
            "ip4:192.0.2.0/33",
            "ip4:192.0.2.0/08",
            "a:",
            "include",
            "all:x.example",
            "include:x",
            "a/24/64",
            "mx//129",
            "redirect=a.example redirect=b.example",
            "exists:%{q}.example",
            "1x=y",
            "ip6:::1/129",
            "ptr:",
            "a:example.1",
            "-",
        ] {
            assert_eq!(
                SpfRecord::parse(format!("v=spf1 {bad}").as_bytes()),
                None,
                "{bad}"
            );
        }
        assert!(is_record(b"V=SPF1") && is_record(b"v=spf1 all") && !is_record(b"v=spf10 all"));
    }
}
