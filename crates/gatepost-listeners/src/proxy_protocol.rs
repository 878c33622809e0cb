//! The PROXY protocol, versions 1 and 2, without I/O: a proxy's header that names the client.
//!
//! The header is read only from peers that the settings trust, since any client could send one.
//! From those peers it is required: a connection without the header is refused, so that a client
//! that bypasses the proxy is not mistaken for the proxy itself.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The signature of version 2; no protocol of a listener begins with these bytes.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// The longest line of version 1, with its CR LF.
const LINE_BYTES_MAX: usize = 107;
/// Signature, command, family and length of version 2.
const HEADER_BYTES: usize = 16;
/// The maximum length of version 2's addresses and fields. Proxies send less.
const REST_BYTES_MAX: usize = 4 * 1024;

/// A whole header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyHeader {
    /// The client; `None` for the proxy's own connections, such as health checks, or for a client
    /// without an IP address.
    pub client: Option<SocketAddr>,
    /// The header's length: the bytes after it come from the client.
    pub length: usize,
}

/// The bytes are not a header of the PROXY protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no PROXY header where one is required: {0}")]
pub struct NoProxyHeader(&'static str);

/// Reads the header at the start of `bytes`; `Ok(None)` means that it is not complete yet:
/// [`missing`] returns how many more bytes may be read.
pub fn parse(bytes: &[u8]) -> Result<Option<ProxyHeader>, NoProxyHeader> {
    if bytes.starts_with(&SIGNATURE) {
        return parse_binary(bytes);
    }
    let known = bytes.len().min(SIGNATURE.len());
    if bytes.get(..known) == SIGNATURE.get(..known) {
        return Ok(None);
    }
    parse_line(bytes)
}

/// The number of further bytes that may be read without reading beyond the header, at least one.
pub fn missing(bytes: &[u8]) -> usize {
    /// `PROXY UNKNOWN` with its CR LF, the shortest of all.
    const SHORTEST_BYTES: usize = 15;
    if bytes.len() < SHORTEST_BYTES {
        return SHORTEST_BYTES - bytes.len();
    }
    match bytes.get(..HEADER_BYTES) {
        Some(&[.., high, low]) if bytes.starts_with(&SIGNATURE) => {
            let length = usize::from(u16::from_be_bytes([high, low]));
            (HEADER_BYTES + length.min(REST_BYTES_MAX))
                .saturating_sub(bytes.len())
                .max(1)
        }
        _ => 1,
    }
}

fn parse_line(bytes: &[u8]) -> Result<Option<ProxyHeader>, NoProxyHeader> {
    const START: &[u8] = b"PROXY ";
    let known = bytes.len().min(START.len());
    if bytes.get(..known) != START.get(..known) {
        return Err(NoProxyHeader(
            "the signature is neither version 1's nor version 2's",
        ));
    }
    let line = bytes
        .get(..bytes.len().min(LINE_BYTES_MAX))
        .unwrap_or_default();
    let Some(end) = memchr::memmem::find(line, b"\r\n") else {
        return if bytes.len() < LINE_BYTES_MAX {
            Ok(None)
        } else {
            Err(NoProxyHeader("the line of version 1 is too long"))
        };
    };
    let malformed = NoProxyHeader("a malformed line of version 1");
    let line = line.get(..end).ok_or(malformed)?;
    let line = std::str::from_utf8(line).map_err(|_| malformed)?;
    let mut words = line.split(' ').skip(1);
    let client = match words.next() {
        // The rest of the line must be ignored.
        Some("UNKNOWN") => None,
        Some(family @ ("TCP4" | "TCP6")) => {
            let mut next = || words.next().ok_or(malformed);
            let (source, destination) = (next()?, next()?);
            let (source_port, destination_port) = (next()?, next()?);
            // The destination is checked as well: a proxy whose one address is wrong cannot be
            // trusted with the other.
            address(family, destination, destination_port).ok_or(malformed)?;
            let client = address(family, source, source_port).ok_or(malformed)?;
            if words.next().is_some() {
                return Err(malformed);
            }
            Some(client)
        }
        _ => return Err(malformed),
    };
    Ok(Some(ProxyHeader {
        client,
        length: end + 2,
    }))
}

fn address(family: &str, address: &str, port: &str) -> Option<SocketAddr> {
    let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let port = port.parse().ok().filter(|_| digits)?;
    let address = match family {
        "TCP4" => IpAddr::V4(address.parse().ok()?),
        _ => IpAddr::V6(address.parse().ok()?),
    };
    Some(SocketAddr::new(address, port))
}

fn parse_binary(bytes: &[u8]) -> Result<Option<ProxyHeader>, NoProxyHeader> {
    let Some((header, rest)) = bytes.split_at_checked(HEADER_BYTES) else {
        return Ok(None);
    };
    let &[.., command, family, high, low] = header else {
        return Ok(None);
    };
    let length = usize::from(u16::from_be_bytes([high, low]));
    if length > REST_BYTES_MAX {
        return Err(NoProxyHeader("a header of version 2 that is too long"));
    }
    let Some(addresses) = rest.get(..length) else {
        return Ok(None);
    };
    let client = match command {
        // LOCAL: the proxy's own connection.
        0x20 => None,
        // PROXY.
        0x21 => client(family, addresses)?,
        _ => return Err(NoProxyHeader("an unknown version or command")),
    };
    Ok(Some(ProxyHeader {
        client,
        length: HEADER_BYTES + length,
    }))
}

/// Source, destination, source port, destination port; more fields may follow.
fn client(family: u8, addresses: &[u8]) -> Result<Option<SocketAddr>, NoProxyHeader> {
    let short = NoProxyHeader("a header of version 2 that is too short for its addresses");
    let port = |at: usize| {
        let bytes = addresses.get(at..at + 2)?;
        Some(u16::from_be_bytes(bytes.try_into().ok()?))
    };
    match family {
        // TCP over IPv4.
        0x11 => {
            let source: [u8; 4] = addresses
                .get(..4)
                .and_then(|b| b.try_into().ok())
                .ok_or(short)?;
            addresses.get(..12).ok_or(short)?;
            let port = port(8).ok_or(short)?;
            Ok(Some((Ipv4Addr::from(source), port).into()))
        }
        // TCP over IPv6.
        0x21 => {
            let source: [u8; 16] = addresses
                .get(..16)
                .and_then(|b| b.try_into().ok())
                .ok_or(short)?;
            addresses.get(..36).ok_or(short)?;
            let port = port(32).ok_or(short)?;
            Ok(Some((Ipv6Addr::from(source), port).into()))
        }
        // Unspecified, and Unix sockets.
        0x00 | 0x31 => Ok(None),
        _ => Err(NoProxyHeader("an address family that no stream has")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn binary(command: u8, family: u8, addresses: &[u8]) -> Vec<u8> {
        let mut bytes = SIGNATURE.to_vec();
        bytes.extend([command, family]);
        bytes.extend((addresses.len() as u16).to_be_bytes());
        bytes.extend(addresses);
        bytes
    }

    fn found(bytes: &[u8]) -> Option<String> {
        let header = parse(bytes).expect("well-formed").expect("whole");
        assert_eq!(header.length, bytes.len());
        header.client.map(|client| client.to_string())
    }

    #[test]
    fn lines_of_version_1_are_read() {
        for (line, client) in [
            (
                "PROXY TCP4 192.0.2.1 192.0.2.2 56324 443\r\n",
                Some("192.0.2.1:56324"),
            ),
            (
                "PROXY TCP6 2001:db8::1 ::1 1 65535\r\n",
                Some("[2001:db8::1]:1"),
            ),
            ("PROXY UNKNOWN\r\n", None),
            ("PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", None),
        ] {
            assert_eq!(found(line.as_bytes()).as_deref(), client, "{line}");
        }
    }

    #[test]
    fn malformed_lines_are_refused() {
        for line in [
            "GET / HTTP/1.1\r\n",
            "PROXY \r\n",
            "PROXY TCP4\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1 2 3\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1 65536\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 +1 2\r\n",
            "PROXY TCP4 2001:db8::1 ::1 1 2\r\n",
            "PROXY TCP6 192.0.2.1 192.0.2.2 1 2\r\n",
            "PROXY TCP5 192.0.2.1 192.0.2.2 1 2\r\n",
            "PROXY  TCP4 192.0.2.1 192.0.2.2 1 2\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\n\r\n",
        ] {
            assert!(parse(line.as_bytes()).is_err(), "{line}");
        }
        assert!(parse(&[b"PROXY UNKNOWN ".as_slice(), &[b'x'; 100]].concat()).is_err());
    }

    #[test]
    fn headers_of_version_2_are_read() {
        let v4 = [192, 0, 2, 1, 192, 0, 2, 2, 0xdc, 0x04, 0x01, 0xbb];
        assert_eq!(
            found(&binary(0x21, 0x11, &v4)).as_deref(),
            Some("192.0.2.1:56324")
        );
        let with_field = [&v4[..], &[3, 0, 1, 7]].concat();
        assert_eq!(
            found(&binary(0x21, 0x11, &with_field)).as_deref(),
            Some("192.0.2.1:56324")
        );
        let mut v6 = [0; 36];
        (v6[15], v6[33]) = (1, 80);
        assert_eq!(found(&binary(0x21, 0x21, &v6)).as_deref(), Some("[::1]:80"));
        assert_eq!(found(&binary(0x20, 0x00, &[])), None);
        assert_eq!(found(&binary(0x21, 0x31, &[0; 216])), None);
        for refused in [
            binary(0x21, 0x11, &[0; 11]),
            binary(0x21, 0x21, &[0; 35]),
            binary(0x21, 0x12, &v4),
            binary(0x11, 0x11, &v4),
            binary(0x22, 0x11, &v4),
            binary(0x21, 0x11, &[0; REST_BYTES_MAX + 1]),
        ] {
            assert!(parse(&refused).is_err());
        }
    }

    proptest! {
        /// However the header is split, further bytes are requested until it is complete, and never
        /// too many.
        #[test]
        fn a_cut_header_is_waited_for(is_binary: bool, source: u32, port: u16) {
            let source = Ipv4Addr::from(source);
            let bytes = if is_binary {
                let mut addresses = source.octets().to_vec();
                addresses.extend([127, 0, 0, 1]);
                addresses.extend(port.to_be_bytes());
                addresses.extend([0, 25]);
                binary(0x21, 0x11, &addresses)
            } else {
                format!("PROXY TCP4 {source} 127.0.0.1 {port} 25\r\n").into_bytes()
            };
            for cut in 0..bytes.len() {
                prop_assert_eq!(parse(&bytes[..cut]), Ok(None));
                prop_assert!((1..=bytes.len() - cut).contains(&missing(&bytes[..cut])));
            }
            let with_more = [&bytes[..], b"EHLO x\r\n"].concat();
            let expected = ProxyHeader { client: Some((source, port).into()), length: bytes.len() };
            prop_assert_eq!(parse(&with_more), Ok(Some(expected)));
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), signed: bool) {
            let bytes = if signed { [&SIGNATURE[..], &bytes].concat() } else { bytes };
            if let Ok(Some(header)) = parse(&bytes) {
                prop_assert!(header.length <= bytes.len());
            }
        }
    }
}
