//! The keys of averages, the same as in SpamAssassin's databases.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use sha1::{Digest, Sha1};

/// Longer names, which no address has (RFC 5321, section 4.5.3.1.3), are shortened: a sender
/// chooses them, and each stays in memory and in the database.
const NAME_BYTES_MAX: usize = 320;

/// The key of an address, a domain or another name, for one network or for all.
pub(super) fn key(name: &str, network: Option<&str>) -> Vec<u8> {
    let mut key = prefix(name);
    key.extend_from_slice(b"ip=");
    key.extend_from_slice(network.unwrap_or("none").as_bytes());
    key
}

/// The common prefix of all keys of a name.
pub(super) fn prefix(name: &str) -> Vec<u8> {
    let shortened;
    let name = if name.len() > NAME_BYTES_MAX {
        shortened = shorten(name);
        shortened.as_str()
    } else {
        name
    };
    let mut prefix: Vec<u8> = name
        .bytes()
        .map(|byte| match byte {
            0 | b';' | b'\'' | b'"' | b'!' | b'|' => b'_',
            other => other.to_ascii_lowercase(),
        })
        .collect();
    prefix.push(b'|');
    prefix
}

/// The key for all networks of the name with this prefix.
pub(super) fn of_all_networks(prefix: &[u8]) -> Vec<u8> {
    [prefix, b"ip=none"].concat()
}

/// The prefix of a key; all of it if it has the form of none.
pub(super) fn prefix_of(key: &[u8]) -> &[u8] {
    let end = memchr::memchr(b'|', key).map_or(key.len(), |at| at + 1);
    key.get(..end).unwrap_or(key)
}

/// The beginning of a long name, and a hash of the whole.
fn shorten(name: &str) -> String {
    let hash = Sha1::digest(name.to_ascii_lowercase().as_bytes());
    let digits = 2 * hash.len();
    let end = name.floor_char_boundary(NAME_BYTES_MAX - digits);
    let mut short = String::with_capacity(end + digits);
    short.push_str(name.get(..end).unwrap_or_default());
    for byte in hash {
        // Writing into a string cannot fail.
        let _ = write!(short, "{byte:02x}");
    }
    short
}

/// The network of an address, given by the length of its prefix; `None` if the text is not an
/// address.
pub(super) fn network(address: &str, ipv4_bits: u8, ipv6_bits: u8) -> Option<String> {
    match address.parse().ok()? {
        IpAddr::V4(address) => Some(network_v4(address, ipv4_bits)),
        IpAddr::V6(address) => Some(network_v6(address, ipv6_bits)),
    }
}

fn network_v4(address: Ipv4Addr, bits: u8) -> String {
    let mask = u32::MAX
        .checked_shl(32 - u32::from(bits.min(32)))
        .unwrap_or(0);
    let network = Ipv4Addr::from_bits(address.to_bits() & mask).to_string();
    match bits {
        32 => network,
        // The usual form has two numbers even if they are zero.
        16 => network.split('.').take(2).collect::<Vec<_>>().join("."),
        _ => without_repeated_end(&network, ".0", 3).to_owned(),
    }
}

fn network_v6(address: Ipv6Addr, bits: u8) -> String {
    let mask = u128::MAX
        .checked_shl(128 - u32::from(bits.min(128)))
        .unwrap_or(0);
    let network = Ipv6Addr::from_bits(address.to_bits() & mask);
    let groups = network.segments().map(|segment| format!("{segment:04x}"));
    let full = groups.join(":");
    let short = without_repeated_end(&full, ":0000", 7);
    if short.len() < full.len() {
        format!("{short}::")
    } else {
        full
    }
}

fn without_repeated_end<'a>(text: &'a str, end: &str, max: usize) -> &'a str {
    let mut rest = text;
    for _ in 0..max {
        match rest.strip_suffix(end) {
            Some(shorter) => rest = shorter,
            None => break,
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_named_by_their_first_bits() {
        let network = |address, v4, v6| network(address, v4, v6).unwrap_or_default();
        assert_eq!(network("192.0.2.129", 16, 48), "192.0");
        assert_eq!(network("192.0.2.129", 24, 48), "192.0.2");
        assert_eq!(network("192.0.2.129", 25, 48), "192.0.2.128");
        assert_eq!(network("192.0.2.129", 32, 48), "192.0.2.129");
        assert_eq!(network("2001:db8:1:2::3", 16, 48), "2001:0db8:0001::");
        assert_eq!(
            network("2001:db8:1:2::3", 16, 128),
            "2001:0db8:0001:0002:0000:0000:0000:0003"
        );
        assert_eq!(network("nonsense", 16, 48), "");
    }

    #[test]
    fn keys_hold_no_separators_but_their_own() {
        assert_eq!(
            key("A|b@C.example", Some("192.0")),
            b"a_b@c.example|ip=192.0"
        );
        assert_eq!(key("x", None), b"x|ip=none");
    }

    #[test]
    fn keys_of_long_names_are_short_and_differ() {
        let long = |end: &str| prefix(&["x".repeat(60_000), end.to_owned()].concat());
        assert!(long("a").len() <= 321);
        assert_ne!(long("a"), long("b"));
        assert_eq!(long("a"), long("A"));
        let longest = "x".repeat(320);
        assert_eq!(prefix(&longest), format!("{longest}|").into_bytes());
    }
}
