//! IP addresses in mail text: parsing, searching, and private ranges.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::ascii::starts_with_ignore_case;

/// The longest text of an IPv6 address with an embedded IPv4 address, in bytes.
const IPV6_TEXT_LENGTH_MAX: usize = 45;

/// Whether the whole text is an address, with an optional `IPv6:` before IPv6.
pub fn is_ip(text: &[u8]) -> bool {
    parse(text).is_some()
}

/// The address, if the whole text is one.
pub fn parse(text: &[u8]) -> Option<IpAddr> {
    if let Some(address) = parse_v4(text) {
        return Some(IpAddr::V4(address));
    }
    let text = if starts_with_ignore_case(text, b"ipv6:") {
        text.get(5..)?
    } else {
        text
    };
    parse_v6(text).map(IpAddr::V6)
}

/// Four numbers up to 255 without leading zeros.
pub(crate) fn parse_v4(text: &[u8]) -> Option<Ipv4Addr> {
    if !(7..=15).contains(&text.len()) || !text.first()?.is_ascii_digit() {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn parse_v6(text: &[u8]) -> Option<Ipv6Addr> {
    if !(2..=IPV6_TEXT_LENGTH_MAX).contains(&text.len()) || !text.contains(&b':') {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The first address within `text` by the criteria of rules: an IPv4 or IPv6 address that is not
/// part of a longer word.
pub fn find(text: &[u8]) -> Option<(usize, usize)> {
    let is_word = |at: Option<usize>| {
        at.and_then(|at| text.get(at))
            .copied()
            .is_some_and(super::ascii::is_word)
    };
    let is_hex_or_colon = |byte: &u8| byte.is_ascii_hexdigit() || *byte == b':';
    for start in 0..text.len() {
        let byte = text.get(start).copied().unwrap_or_default();
        if byte.is_ascii_digit()
            && !is_word(start.checked_sub(1))
            && start.checked_sub(1).and_then(|at| text.get(at)) != Some(&b':')
        {
            let length = text
                .iter()
                .skip(start)
                .take(16)
                .take_while(|byte| byte.is_ascii_digit() || **byte == b'.')
                .count();
            for end in (start + 7..=start + length).rev() {
                if !is_word(Some(end)) && parse_v4(text.get(start..end)?).is_some() {
                    return Some((start, end));
                }
            }
        }
        let prefix = starts_with_ignore_case(text.get(start..)?, b"ipv6:");
        let from = if prefix { start + 5 } else { start };
        let before_fits = prefix
            || !start
                .checked_sub(1)
                .and_then(|at| text.get(at))
                .is_some_and(is_hex_or_colon);
        if (prefix || byte.is_ascii_hexdigit() || byte == b':') && before_fits {
            let rest = text.get(from..)?;
            let length = rest
                .iter()
                .take(IPV6_TEXT_LENGTH_MAX + 1)
                .take_while(|byte| is_hex_or_colon(byte) || **byte == b'.')
                .count();
            for end in (from + 2..=from + length).rev() {
                let after_fits = !text.get(end).is_some_and(is_hex_or_colon);
                if after_fits && parse_v6(text.get(from..end)?).is_some() {
                    return Some((start, end));
                }
            }
        }
    }
    None
}

/// Whether the address cannot come from the public internet.
///
/// RFC 5735 and 1918 (private, host-local, link-local), RFC 6598 (shared), the same embedded in
/// IPv6, and IPv6's own link-local and loopback addresses.
pub fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_private_v4(address),
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(mapped) => is_private_v4(mapped),
            None => address.is_loopback() || address.is_unicast_link_local(),
        },
    }
}

fn is_private_v4(address: Ipv4Addr) -> bool {
    let [first, second, ..] = address.octets();
    address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || first == 100 && (64..128).contains(&second)
}

/// The address in the reverse notation of DNS lists, RFC 5782, section 2.4.
pub fn reversed(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            format!("{d}.{c}.{b}.{a}")
        }
        IpAddr::V6(address) => {
            let digits = address
                .octets()
                .iter()
                .rev()
                .flat_map(|byte| [byte & 15, byte >> 4])
                .collect::<Vec<_>>();
            digits
                .iter()
                .map(|digit| format!("{digit:x}"))
                .collect::<Vec<_>>()
                .join(".")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<&str> {
        find(text.as_bytes()).and_then(|(start, end)| text.get(start..end))
    }

    #[test]
    fn addresses_are_found_in_text() {
        assert_eq!(found("from [10.1.2.3]:25"), Some("10.1.2.3"));
        assert_eq!(
            found("x1.2.3.4 1.2.3.256"),
            Some("1.2.3.25").filter(|_| false)
        );
        assert_eq!(found("[IPv6:2001:db8::1]"), Some("IPv6:2001:db8::1"));
        assert_eq!(found("::ffff:1.2.3.4"), Some("::ffff:1.2.3.4"));
    }

    #[test]
    fn private_addresses_are_known() {
        for (text, private) in [
            ("10.0.0.1", true),
            ("100.64.0.1", true),
            ("8.8.8.8", false),
            ("::1", true),
            ("fe80::1", true),
            ("::ffff:10.0.0.1", true),
        ] {
            assert_eq!(
                parse(text.as_bytes()).map(is_private),
                Some(private),
                "{text}"
            );
        }
    }
}
