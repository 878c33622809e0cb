//! Syntax of a `Host` field (or `:authority`), and whether it names this machine.

use std::net::{IpAddr, Ipv6Addr};

/// The bytes of which nearly all hosts consist: letters, digits, dots and hyphens. Each request is
/// checked, and a table takes a third of the instructions of comparisons.
const IS_PLAIN: [bool; 256] = {
    let mut is_plain = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        is_plain[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    is_plain[b'.' as usize] = true;
    is_plain[b'-' as usize] = true;
    is_plain
};

/// Whether this is a host with an optional port and nothing else (RFC 9110, section 7.2, RFC 3986,
/// section 3.2.2): no user information, path, list or quotes. Empty is allowed: the field of a
/// request whose target has no authority.
pub(super) fn is_host(value: &[u8]) -> bool {
    match value.iter().position(|byte| !IS_PLAIN[usize::from(*byte)]) {
        None => true,
        Some(end) => match value.split_at(end) {
            (_, [b':', port @ ..]) if port.iter().all(u8::is_ascii_digit) => true,
            _ => is_unusual_host(value),
        },
    }
}

/// The same for any host: with an IPv6 address or other characters that a name may have.
#[cold]
fn is_unusual_host(value: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(value) else {
        return false;
    };
    let (name, port) = split_port(text);
    let is_port = port.is_none_or(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    is_port && is_name(name)
}

/// Splits a host into the name and the text after its colon. An IPv6 address is in brackets.
fn split_port(host: &str) -> (&str, Option<&str>) {
    match host.find(']') {
        Some(end) => {
            let (name, rest) = host.split_at(end + 1);
            match rest.strip_prefix(':') {
                Some(port) => (name, Some(port)),
                // Any text but a port after the bracket makes the name malformed.
                None if rest.is_empty() => (name, None),
                None => (host, None),
            }
        }
        None => match host.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (host, None),
        },
    }
}

fn is_name(name: &str) -> bool {
    if let Some(literal) = name.strip_prefix('[') {
        let address = literal.strip_suffix(']');
        return address.is_some_and(|address| address.parse::<Ipv6Addr>().is_ok());
    }
    let allowed = |byte: u8| {
        byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+;=".contains(&byte) || !byte.is_ascii()
    };
    name.bytes().all(allowed)
}

/// Whether a `Host` field is an address or a local name. A name of the public DNS is neither: its
/// owner can point it at this machine, and the owner's pages would then have the server's own
/// origin.
pub(super) fn names_this_machine(host: &str) -> bool {
    let (name, _) = split_port(host);
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    let lower = name.trim_end_matches('.').to_ascii_lowercase();
    bare.parse::<IpAddr>().is_ok()
        || lower == "localhost"
        || lower.ends_with(".localhost")
        // A name without a dot belongs to the local network.
        || !lower.contains('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_or_an_address_with_a_port() {
        for host in [
            "",
            "x",
            "localhost:8080",
            "127.0.0.1",
            "[::1]",
            "[::1]:80",
            "a.example.",
            "a:",
        ] {
            assert!(is_host(host.as_bytes()), "{host}");
        }
        for host in [
            "localhost/path",
            "user@localhost",
            "a b",
            "localhost:abc",
            "localhost, other",
            "localhost,other",
            "\"x\"",
            "[::1",
            "[::1]x",
            "[x]",
            "::1",
            "a:1:2",
            "x?",
            "x#",
            "x\\y",
        ] {
            assert!(!is_host(host.as_bytes()), "{host}");
        }
    }

    #[test]
    fn names_of_the_public_dns_do_not_name_this_machine() {
        for host in [
            "127.0.0.1:8080",
            "[::1]:80",
            "localhost",
            "mill:8080",
            "a.localhost:1",
        ] {
            assert!(names_this_machine(host), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:8080",
            "127.0.0.1.evil.example",
        ] {
            assert!(!names_this_machine(host), "{host}");
        }
    }
}
