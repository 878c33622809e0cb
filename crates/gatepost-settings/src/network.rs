//! Peers by their address: `"192.0.2.1"`, `"10.0.0.0/8"`, or `"unix"`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// The bits before an IPv4 address in IPv6 notation.
const MAPPED_BITS: u8 = 96;

/// Peers: an address (`"192.0.2.1"`), a network (`"10.0.0.0/8"`), or `"unix"` for peers of a Unix
/// socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PeerNetwork {
    /// The addresses with a common prefix of this length.
    Addresses {
        /// One of the addresses.
        address: IpAddr,
        /// The length of the prefix.
        bits: u8,
    },
    /// Peers of a Unix socket, which have no address.
    Unix,
}

impl PeerNetwork {
    /// The network of this address with a prefix of this length, at most the whole address; the
    /// other bits are 0. An IPv4 address in IPv6 notation counts as IPv4.
    pub fn around(address: IpAddr, bits_v4: u8, bits_v6: u8) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => {
                let bits = bits_v4.min(32);
                let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
                Self::Addresses {
                    address: Ipv4Addr::from_bits(address.to_bits() & mask).into(),
                    bits,
                }
            }
            IpAddr::V6(address) => {
                let bits = bits_v6.min(128);
                let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
                Self::Addresses {
                    address: Ipv6Addr::from_bits(address.to_bits() & mask).into(),
                    bits,
                }
            }
        }
    }

    /// A network of IPv4 addresses in IPv6 notation (`::ffff:10.0.0.0/104`) is one of IPv4, as its
    /// peers are.
    fn canonical(address: IpAddr, bits: u8) -> Self {
        if let IpAddr::V6(mapped) = address
            && let Some(address) = mapped.to_ipv4_mapped()
            && let Some(bits) = bits.checked_sub(MAPPED_BITS)
        {
            let address = address.into();
            return Self::Addresses { address, bits };
        }
        Self::Addresses { address, bits }
    }

    /// Whether a peer with this address belongs to the network; `None` is a peer of a Unix socket.
    pub fn holds(&self, ip: Option<IpAddr>) -> bool {
        match (self, ip.map(|ip| ip.to_canonical())) {
            (Self::Unix, None) => true,
            (Self::Addresses { address, bits }, Some(ip)) => match (address, ip) {
                (IpAddr::V4(network), IpAddr::V4(ip)) => {
                    let differing = (network.to_bits() ^ ip.to_bits()).leading_zeros();
                    differing >= u32::from(*bits)
                }
                (IpAddr::V6(network), IpAddr::V6(ip)) => {
                    let differing = (network.to_bits() ^ ip.to_bits()).leading_zeros();
                    differing >= u32::from(*bits)
                }
                _ => false,
            },
            _ => false,
        }
    }
}

impl fmt::Display for PeerNetwork {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix => formatter.write_str("unix"),
            Self::Addresses { address, bits } => {
                let all = if address.is_ipv4() { 32 } else { 128 };
                if *bits == all {
                    address.fmt(formatter)
                } else {
                    write!(formatter, "{address}/{bits}")
                }
            }
        }
    }
}

/// The text does not describe peers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' names no network; write an address, a network such as \"10.0.0.0/8\", or \"unix\"")]
pub struct MalformedNetwork(String);

impl FromStr for PeerNetwork {
    type Err = MalformedNetwork;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "unix" {
            return Ok(Self::Unix);
        }
        let malformed = || MalformedNetwork(text.chars().take(80).collect());
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| malformed())?;
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => bits_max,
            Some(bits) => bits.parse().map_err(|_| malformed())?,
        };
        if bits > bits_max {
            return Err(malformed());
        }
        Ok(Self::canonical(address, bits))
    }
}

super::serde_as_text!(PeerNetwork);

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn networks_hold_their_addresses_only() {
        for (network, address, held) in [
            ("10.0.0.0/8", "10.255.1.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "::ffff:192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "::1", false),
            ("2001:db8::/32", "2001:db8:1::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
        ] {
            let parsed: PeerNetwork = network.parse().expect(network);
            assert_eq!(parsed.holds(Some(ip(address))), held, "{network} {address}");
            assert_eq!(parsed.to_string(), network);
        }
        let unix: PeerNetwork = "unix".parse().expect("unix");
        assert!(unix.holds(None) && !unix.holds(Some(ip("127.0.0.1"))));
        for wrong in ["", "10.0.0.0/33", "10.0.0/8", "example.org", "::/129"] {
            assert!(wrong.parse::<PeerNetwork>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn ipv4_networks_in_ipv6_notation_hold_their_ipv4_addresses() {
        for (network, address, held, same) in [
            ("::ffff:10.0.0.0/104", "10.255.1.1", true, "10.0.0.0/8"),
            ("::ffff:10.0.0.0/104", "11.0.0.1", false, "10.0.0.0/8"),
            ("::ffff:192.0.2.1", "::ffff:192.0.2.1", true, "192.0.2.1"),
            ("::ffff:0:0/96", "203.0.113.9", true, "0.0.0.0/0"),
            ("::ffff:0:0/96", "2001:db8::1", false, "0.0.0.0/0"),
            ("::/0", "2001:db8::1", true, "::/0"),
        ] {
            let parsed: PeerNetwork = network.parse().expect(network);
            assert_eq!(parsed.holds(Some(ip(address))), held, "{network} {address}");
            assert_eq!(parsed.to_string(), same);
        }
    }

    #[test]
    fn the_network_around_an_address_has_no_other_bits() {
        for (address, expected) in [
            ("192.0.2.77", "192.0.2.0/24"),
            ("::ffff:192.0.2.77", "192.0.2.0/24"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ] {
            assert_eq!(
                PeerNetwork::around(ip(address), 24, 64).to_string(),
                expected
            );
        }
        let address = ip("192.0.2.77");
        assert_eq!(
            PeerNetwork::around(address, 32, 64).to_string(),
            "192.0.2.77"
        );
        assert_eq!(PeerNetwork::around(address, 0, 64).to_string(), "0.0.0.0/0");
    }
}
