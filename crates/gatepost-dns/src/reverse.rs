//! The names for reverse lookups of addresses.

use std::net::IpAddr;

/// The name of an address's PTR records (RFC 1035, section 3.5, RFC 3596, section 2.5).
pub fn reverse_name(address: IpAddr) -> String {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        IpAddr::V6(v6) => {
            let digits = |byte: &u8| format!("{:x}.{:x}.", byte & 15, byte >> 4);
            let digits: String = v6.octets().iter().rev().map(digits).collect();
            format!("{digits}ip6.arpa")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_reversed() {
        let v4 = reverse_name("192.0.2.7".parse().expect("an address"));
        assert_eq!(v4, "7.2.0.192.in-addr.arpa");
        let v6 = reverse_name("2001:db8::1".parse().expect("an address"));
        assert!(
            v6.starts_with("1.0.0.0.") && v6.ends_with("8.b.d.0.1.0.0.2.ip6.arpa"),
            "{v6}"
        );
    }
}
