//! The addresses to which a request may be sent.
//!
//! A URL is text from a config or from a user, and other people's servers resolve its name: both
//! may point into the private network of the server. So the address itself is checked, after the
//! resolution and before the connection, and the connection is made to the checked address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use gatepost_settings::PeerNetwork;

/// The non-public addresses that are allowed.
#[derive(Debug, Clone)]
pub(crate) struct AddressGuard {
    pub(crate) allow_private: bool,
    pub(crate) networks: Vec<PeerNetwork>,
}

impl AddressGuard {
    pub(crate) fn allows(&self, address: IpAddr) -> bool {
        self.allow_private
            || is_public(address)
            || self
                .networks
                .iter()
                .any(|network| network.holds(Some(address)))
    }
}

/// Whether an address belongs to the public internet. Of IPv6, only the range assigned for this
/// purpose belongs to it.
fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// The registry of special-purpose addresses (RFC 6890), and multicast.
fn is_public_v4(address: Ipv4Addr) -> bool {
    let [first, second, third, _] = address.octets();
    !matches!(
        (first, second, third),
        (0 | 10 | 127 | 224..=255, ..)
            | (100, 64..=127, _)
            | (169, 254, _)
            | (172, 16..=31, _)
            | (192, 0, 0 | 2)
            | (192, 88, 99)
            | (192, 168, _)
            | (198, 18 | 19, _)
            | (198, 51, 100)
            | (203, 0, 113)
    )
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    match address.segments() {
        // NAT64 (RFC 6052) and 6to4 (RFC 3056) reach the embedded IPv4 address.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            is_public_v4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
        }
        // Protocol assignments with Teredo, documentation.
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => false,
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn only_public_addresses_pass() {
        for public in [
            "8.8.8.8",
            "100.63.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "2606:4700::1111",
        ] {
            assert!(is_public(ip(public)), "{public}");
        }
        for other in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "127.8.8.8",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.170",
            "192.168.1.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "fe80::1",
            "fc00::1",
            "fd00:ec2::254",
            "fec0::1",
            "ff02::1",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "2002:7f00:1::1",
            "2002:a00:1::1",
            "2001::1",
            "2001:db8::1",
            "100::1",
        ] {
            assert!(!is_public(ip(other)), "{other}");
        }
    }

    #[test]
    fn listed_networks_pass_and_nothing_else() {
        let networks = vec!["192.168.7.0/24".parse().expect("a network")];
        let guard = AddressGuard {
            allow_private: false,
            networks,
        };
        assert!(guard.allows(ip("192.168.7.9")) && guard.allows(ip("::ffff:192.168.7.9")));
        assert!(!guard.allows(ip("192.168.8.9")) && !guard.allows(ip("127.0.0.1")));
        let guard = AddressGuard {
            allow_private: true,
            networks: Vec::new(),
        };
        assert!(guard.allows(ip("127.0.0.1")));
    }
}
