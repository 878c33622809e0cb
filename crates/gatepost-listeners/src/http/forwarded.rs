//! The client that a trusted proxy reports: `Forwarded` (RFC 7239), or the older
//! `X-Forwarded-For` and `X-Forwarded-Proto`.
//!
//! Each proxy appends, so the list is read from its end for as long as the writers are trusted:
//! entries written by the client itself precede them and are not trusted.

use std::net::{IpAddr, SocketAddr};

use gatepost_message::Peer;
use gatepost_settings::PeerNetwork;
use gatepost_users::PeerAccount;

use super::request::HttpRequest;

/// The fields by which proxies report that they forward a request of another client.
const FORWARDING_FIELDS: [&str; 6] = [
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
    "via",
];

/// Replaces the peer by the client if the peer is one of `trusted`; otherwise records that the peer
/// forwards for a client.
pub(super) fn apply(trusted: &[PeerNetwork], request: &mut HttpRequest) {
    let is_trusted = |peer: Peer| trusted.iter().any(|network| network.holds(peer.ip()));
    if !is_trusted(request.peer) {
        request.is_forwarded = FORWARDING_FIELDS
            .iter()
            .any(|name| request.field_bytes(name).next().is_some());
        return;
    }
    let hops = hops(request);
    for hop in hops.iter().rev() {
        if let Some(secure) = hop.secure {
            request.secure = secure;
        }
        let Some(client) = hop.client else { return };
        request.peer = Peer::Address(client);
        // The connection's account and certificate are the proxy's.
        request.account = PeerAccount::VOUCHED;
        request.certified = None;
        if !is_trusted(request.peer) {
            return;
        }
    }
}

/// The report of one proxy about its client.
#[derive(Debug, Default, PartialEq, Eq)]
struct ForwardedElement {
    /// `None` if the proxy reported no usable address: `unknown`, or an obfuscated name.
    client: Option<SocketAddr>,
    secure: Option<bool>,
}

fn hops(request: &HttpRequest) -> Vec<ForwardedElement> {
    let listed = |name: &'static str| -> Vec<String> {
        request
            .field_bytes(name)
            .filter_map(|value| std::str::from_utf8(value).ok())
            .flat_map(|value| value.split(','))
            .map(|part| part.trim().to_owned())
            .collect()
    };
    let forwarded = listed("forwarded");
    if !forwarded.is_empty() {
        return forwarded
            .iter()
            .map(|element| element_of(element))
            .collect();
    }
    let secure = listed("x-forwarded-proto")
        .last()
        .map(|scheme| scheme.eq_ignore_ascii_case("https"));
    let mut hops: Vec<ForwardedElement> = listed("x-forwarded-for")
        .iter()
        .map(|text| ForwardedElement {
            client: node(text),
            secure: None,
        })
        .collect();
    if let Some(last) = hops.last_mut() {
        last.secure = secure;
    }
    hops
}

/// `for=192.0.2.43;proto=https;by=203.0.113.60` (RFC 7239, section 4)
fn element_of(element: &str) -> ForwardedElement {
    let mut hop = ForwardedElement::default();
    for pair in element.split(';') {
        let Some((name, value)) = pair.split_once('=') else {
            continue;
        };
        let value = value.trim().trim_matches('"');
        match name.trim() {
            name if name.eq_ignore_ascii_case("for") => hop.client = node(value),
            name if name.eq_ignore_ascii_case("proto") => {
                hop.secure = Some(value.eq_ignore_ascii_case("https"));
            }
            _ => {}
        }
    }
    hop
}

/// An address with or without port; IPv6 in brackets, or bare as in `X-Forwarded-For`.
fn node(text: &str) -> Option<SocketAddr> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Some(address);
    }
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    bare.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::request::HttpVersion;

    fn client(peer: &str, fields: &[(&str, &str)]) -> (String, bool) {
        let trusted: Vec<PeerNetwork> = ["127.0.0.1", "10.0.0.0/8"]
            .map(|text| text.parse().expect("a network"))
            .into();
        let fields = fields.iter().map(|(name, value)| (*name, value.as_bytes()));
        let peer = Peer::Address(peer.parse().expect("an address"));
        let mut request =
            HttpRequest::new(("GET", "/"), ("/", ""), fields, HttpVersion::Http11, peer)
                .expect("valid");
        apply(&trusted, &mut request);
        (request.peer.to_string(), request.secure)
    }

    #[test]
    fn headers_of_untrusted_proxies_are_ignored() {
        let forwarded = [("Forwarded", "for=192.0.2.43;proto=https")];
        let (name, secure) = client("127.0.0.1:5", &forwarded);
        assert!(name.starts_with("192.0.2.43") && secure, "{name}");
        let (name, secure) = client("203.0.113.1:5", &forwarded);
        assert!(name.starts_with("203.0.113.1") && !secure, "{name}");
    }

    #[test]
    fn only_the_address_added_by_the_proxy_is_trusted() {
        for (field, value, expected) in [
            (
                "forwarded",
                "for=1.1.1.1, for=192.0.2.1, for=10.0.0.7",
                "192.0.2.1",
            ),
            (
                "forwarded",
                "for=1.1.1.1, for=unknown, for=10.0.0.7",
                "10.0.0.7",
            ),
            ("forwarded", "For=\"[2001:db8::17]:4711\"", "[2001:db8::17]"),
            ("x-forwarded-for", "1.1.1.1, 192.0.2.1", "192.0.2.1"),
            ("x-forwarded-for", "2001:db8::17", "[2001:db8::17]"),
            ("x-forwarded-for", "nonsense", "127.0.0.1"),
        ] {
            let (name, _) = client("127.0.0.1:5", &[(field, value)]);
            assert!(name.starts_with(expected), "{value}: {name}");
        }
    }
}
