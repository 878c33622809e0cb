//! Sets of IP networks: `trusted_networks`, `internal_networks`, `msa_networks`.

use std::net::{IpAddr, Ipv6Addr};

/// Networks in the order of their configuration; the first one that contains an address decides.
#[derive(Clone, Debug, Default)]
pub struct Networks {
    list: Vec<NetworkMask>,
    /// Networks were configured in addition to the defaults.
    pub(crate) configured: bool,
}

#[derive(Clone, Copy, Debug)]
struct NetworkMask {
    bits: u128,
    mask: u128,
    excluded: bool,
}

impl Networks {
    /// The addresses of the local machine, which are always trusted.
    pub(crate) fn loopback() -> Self {
        let mut all = Self::default();
        for network in ["127.0.0.0/8", "::1"] {
            all.list.extend(NetworkMask::parse(network));
        }
        all
    }

    /// Adds networks, separated by blanks: `10.1.2.3`, `10.1.0.0/16`, `10.1.`, `!10.1.2.3`,
    /// `2001:db8::/32`.
    pub fn add(&mut self, text: &str) -> Result<(), String> {
        for word in text.split_ascii_whitespace() {
            let network =
                NetworkMask::parse(word).ok_or_else(|| format!("{word} is not a network"))?;
            self.list.push(network);
            self.configured = true;
        }
        Ok(())
    }

    /// The networks of this set that are not in another set, judged by their first addresses.
    pub(crate) fn outside(&self, other: &Self) -> Vec<String> {
        let named = self.list.iter().filter(|network| !network.excluded);
        let outside = named.filter(|network| {
            let address = Ipv6Addr::from_bits(network.bits);
            !other.contains(IpAddr::V6(address))
        });
        outside.map(NetworkMask::text).collect()
    }

    /// Whether the set contains `address`.
    pub fn contains(&self, address: IpAddr) -> bool {
        let bits = bits(address);
        self.list
            .iter()
            .find(|network| bits & network.mask == network.bits)
            .is_some_and(|network| !network.excluded)
    }
}

/// An address as IPv6, IPv4 mapped.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

impl NetworkMask {
    /// The network as rule files write it.
    fn text(&self) -> String {
        let length = self.mask.leading_ones();
        let address = Ipv6Addr::from_bits(self.bits);
        match address.to_ipv4_mapped() {
            Some(address) if length >= 96 => format!("{address}/{}", length - 96),
            _ => format!("{address}/{length}"),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let (excluded, text) = match text.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length.parse::<u32>().ok()?)),
            None => (text, None),
        };
        let address = address
            .strip_prefix('[')
            .and_then(|inner| inner.strip_suffix(']'))
            .unwrap_or(address);
        let (bits, length) = if address.contains(':') {
            (
                address.parse::<Ipv6Addr>().ok()?.to_bits(),
                length.unwrap_or(128),
            )
        } else {
            let (bits, given) = partial_v4(address)?;
            (bits, 96 + length.unwrap_or(given))
        };
        let mask = match length {
            0 => 0,
            1..=128 => u128::MAX << (128 - length),
            _ => return None,
        };
        Some(Self {
            bits: bits & mask,
            mask,
            excluded,
        })
    }
}

/// An IPv4 address whose last numbers may be missing, and the number of bits given.
fn partial_v4(text: &str) -> Option<(u128, u32)> {
    let text = text.strip_suffix('.').unwrap_or(text);
    let mut octets = [0_u8; 4];
    let mut count = 0;
    for number in text.split('.') {
        *octets.get_mut(count)? = number.parse().ok()?;
        count += 1;
    }
    Some((bits(IpAddr::from(octets)), count as u32 * 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_network_decides() {
        let mut all = Networks::loopback();
        all.add("!10.0.1.5 10.0.1/24 192.168. 2001:db8::/32")
            .expect("they are networks");
        for (address, inside) in [
            ("127.1.2.3", true),
            ("10.0.1.5", false),
            ("10.0.1.6", true),
            ("10.0.2.6", false),
            ("192.168.7.7", true),
            ("2001:db8::5", true),
            ("::1", true),
            ("8.8.8.8", false),
        ] {
            assert_eq!(
                all.contains(address.parse().expect("it is an address")),
                inside,
                "{address}"
            );
        }
        assert!(all.add("nonsense").is_err());
    }
}
